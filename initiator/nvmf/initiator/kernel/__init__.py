# SPDX-License-Identifier: BSD-3-Clause
"""The initiator through the kernel: nvme-rdma connects, and its block devices move the data.

options makes the line for /dev/nvme-fabrics, fabrics writes it, words makes a sentence of a
failure, sysfs reads the kernel's devices, wait waits for them, and host does all of this in order.
controller and namespace have the client's interface, on top of block devices and ioctls.
"""

from nvmf.initiator.kernel.errors import KernelError

__all__ = ["KernelError"]
