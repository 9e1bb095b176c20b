# SPDX-License-Identifier: BSD-3-Clause
"""Persistent memory of other machines: methods of writing to it so that the data survives.

- ``method``: Method, the interface of all of them
- ``platform``: what each method assumes, and what targets report about themselves
- ``remote``: RemoteMemory, for write-read, write-flush and write-send
- ``block``: BlockMethod, for nvme-fua and nvme-write-flush
"""

from nvmf.pmem.method import Method

__all__ = ["Method"]
