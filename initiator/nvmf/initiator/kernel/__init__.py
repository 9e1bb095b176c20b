# SPDX-License-Identifier: BSD-3-Clause
"""The initiator through the kernel: nvme-rdma connects, and its block devices move the data.

options says what is written to /dev/nvme-fabrics, fabrics writes it, words turns a failure into a
sentence, sysfs reads what there is, wait waits for it, host does all of these in order.  controller
and namespace have the interface of the client's, over block devices and ioctls.
"""

from nvmf.initiator.kernel.errors import KernelError

__all__ = ["KernelError"]
