# SPDX-License-Identifier: BSD-3-Clause
"""The embedded device and siw over a path whose segments are as short as Ethernet's.

If a segment ends in certain places of a header, siw overruns its own memory, and its kernel
crashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab import block
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import KernelHost
from lab.network import HOST, Network
from lab.ours import OursOutside

EVERY_KERNEL = True
LOADS = (
    block.Load("4k", 128, 4, size=2 * block.MIB),
    block.Load("512-8k", 64, 2, size=2 * block.MIB),
    block.Load("4k-1m", 16, 2, size=4 * block.MIB),
)


@pytest.fixture
def target(cable: Network, vm: Guest, tmp_path: Path, need_product: None) -> Iterator[OursOutside]:
    use_device(vm, "siw")
    with ExitStack() as undo:
        undo.enter_context(cable.ordinary_segments())
        ours = OursOutside(cable, tmp_path, HOST)
        undo.callback(ours.close)
        yield ours
        ours.check()


def test_many_commands_at_once(target: OursOutside, guest: Guest) -> None:
    """READ requests of many writes are sent together, and fill more than a segment."""
    host = KernelHost(guest, HOST)
    with host.connected(target.nqn, "-i", "2", namespaces=len(target.block_sizes)):
        for _ in range(3):
            block.fio_verify(guest, host.devices(target.nqn)[0], LOADS)
        block.fio_mixed(guest, host.devices(target.nqn)[0], seconds=10)
