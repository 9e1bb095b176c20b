# SPDX-License-Identifier: BSD-3-Clause
# Candidates: subsystems and controllers of the kernel, subsystems of a running target.
_nvmeof_words() { compgen -W "$2" -- "$1"; }
_nvmeof_kernel_nqns() {
  _nvmeof_words "$1" "$(cat /sys/class/nvme-subsystem/*/subsysnqn 2>/dev/null)"
}
_nvmeof_controllers() { _nvmeof_words "$1" "$(ls /sys/class/nvme 2>/dev/null)"; }
_nvmeof_target_nqns() {
  _nvmeof_words "$1" "$(nvmeof target ls 2>/dev/null | sed -n 's/^subsystem \([^ ]*\).*/\1/p')"
}
