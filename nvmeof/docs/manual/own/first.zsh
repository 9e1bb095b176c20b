# SPDX-License-Identifier: BSD-3-Clause
# Candidates: subsystems and controllers of the kernel, subsystems of a running target.
_nvmeof_kernel_nqns() {
  compadd "$@" -- ${(f)"$(cat /sys/class/nvme-subsystem/*/subsysnqn(N) </dev/null 2>/dev/null)"}
}
_nvmeof_controllers() { compadd "$@" -- /sys/class/nvme/*(N:t) }
_nvmeof_target_nqns() {
  compadd "$@" -- ${(f)"$(nvmeof target ls 2>/dev/null | sed -n 's/^subsystem \([^ ]*\).*/\1/p')"}
}
