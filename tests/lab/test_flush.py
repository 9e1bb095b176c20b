# SPDX-License-Identifier: BSD-3-Clause
"""FLUSH and ATOMIC WRITE between the embedded RoCEv2 device and rxe; test_nvdimm.py has the same
with persistent memory.
"""

from __future__ import annotations

import pytest

from lab import flush
from lab.cells import use_device
from lab.guest import Guest
from lab.network import Network

NEWEST_KERNEL = True


# rxe logs the FLUSH that it refuses.
@pytest.mark.unclean("rxe")
def test_flush_and_atomic_write(guest: Guest, cable: Network, need_product: None) -> None:
    use_device(guest, "rxe")
    flush.exchange(guest, cable)
