# SPDX-License-Identifier: BSD-3-Clause
# Candidates: subsystems and controllers of the kernel, subsystems of a running target.
function _nvmeof_kernel_nqns
  for file in /sys/class/nvme-subsystem/*/subsysnqn
    cat $file
  end
end
function _nvmeof_controllers
  for folder in /sys/class/nvme/*
    basename $folder
  end
end
function _nvmeof_target_nqns
  nvmeof target ls 2>/dev/null | string replace -rf '^subsystem (\S+).*' '$1'
end
