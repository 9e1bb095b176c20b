# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's host with nvme-cli: write protected namespaces, and blocks that cannot be read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import network
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import BlockDevice, KernelHost
from lab.network import Network
from lab.ours import OursOutside

PATIENCE = 90.0
"""Seconds for an event to arrive, and for the kernel to read the new state."""


@pytest.fixture
def target(
    vm: Guest, cable: Network, tmp_path: Path, need_product: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OursOutside]:
    use_device(vm, "siw")
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    one = OursOutside(cable, tmp_path, network.HOST)
    yield one
    one.close()


def read_only(guest: Guest, device: BlockDevice, wanted: int) -> None:
    end = time.monotonic() + PATIENCE
    while (found := guest.run(f"cat /sys/block/{device.name}/ro").stdout.strip()) != str(wanted):
        assert time.monotonic() < end, found
        time.sleep(0.2)


def write(guest: Guest, device: BlockDevice, block: int, check: bool = True) -> int:
    return guest.run(
        f"dd if=/dev/zero of={device.path} bs={device.block_size} count=1 seek={block} "
        "oflag=direct conv=notrunc",
        check=check,
    ).status


def read(guest: Guest, device: BlockDevice, block: int, check: bool = True) -> int:
    return guest.run(
        f"dd if={device.path} of=/dev/null bs={device.block_size} count=1 skip={block} "
        "iflag=direct",
        check=check,
    ).status


@pytest.mark.feature("write-protect", "write-uncorrectable")
@pytest.mark.timeout(600)
@pytest.mark.unclean(r"nvme\d+(?:c\d+)?n\d+|nvme nvme\d+: ")
def test_protected_and_invalid(target: OursOutside, guest: Guest) -> None:
    host, nqn = KernelHost(guest, target.address, target.service), target.nqn
    with host.connected(nqn, "-i", "2", namespaces=3) as controller:
        first, _, third = host.devices(nqn)
        feature = f"nvme %s-feature {controller.path} -n 1 -f 0x84"
        guest.run(f"{feature % 'set'} --value=1")
        assert "1" in guest.run(f"{feature % 'get'}").stdout.rpartition("urrent value")[2]
        read_only(guest, first, 1)
        assert write(guest, first, 0, check=False)
        read(guest, first, 0)
        write(guest, third, 0)
        guest.run(f"{feature % 'set'} --value=0")
        read_only(guest, first, 0)
        write(guest, first, 0)

        guest.run(f"nvme write-uncor {third.path} -n 3 -s 8 -c 1")
        assert read(guest, third, 8, check=False)
        assert read(guest, third, 9, check=False)
        read(guest, third, 10)
        write(guest, third, 8)
        read(guest, third, 8)
        assert read(guest, third, 9, check=False)
        guest.run(f"nvme write-zeroes {third.path} -n 3 -s 8 -c 7")
        read(guest, third, 9)
    target.check()
