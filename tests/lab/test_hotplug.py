# SPDX-License-Identifier: BSD-3-Clause
"""Disks and the RDMA device are added and removed under our target, which runs in the guest."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import block, network
from lab.cells import NETDEV, use_device
from lab.guest import Guest
from lab.kernel_host import KernelHost
from lab.nvmet import CONFIGFS
from lab.our_host import OurHost
from lab.ours import SERVICE, SUBNQN, OursInside
from lab.waiting import until

pytestmark = [
    pytest.mark.usefixtures("need_product"),
    pytest.mark.timeout(900),
    pytest.mark.unclean(r"nvme\d+(?:c\d+)?n\d+|nvme nvme\d+: |nullb"),
]

DISK = f"{CONFIGFS}/nullb/nullb0"
CONFIG = f"""
[[port]]
traddr = "{network.GUEST}"
trsvcid = {SERVICE}
device = "system"
hotplug = true

[[port]]
traddr = "127.0.0.1"
trsvcid = {SERVICE + 1}
device = "iwarp"

[[subsystem]]
nqn = "{SUBNQN}"
allow_any_host = true

[[subsystem.namespace]]
nsid = 1
store = "ram"
size = "64MiB"

[[subsystem.namespace]]
nsid = 2
store = "file"
path = "/dev/nullb0"
hotplug = true
"""


ADD = f"rdma link add rxe0 type rxe netdev {NETDEV}"
REMOVE = "rdma link del rxe0"
LISTENS = rf"(?m)^listening on {re.escape(network.GUEST)}:{SERVICE} \(system\)$"
CLOSED = rf"no longer listening on {re.escape(network.GUEST)}:{SERVICE} "


@pytest.fixture
def disk(vm: Guest, guest: Guest) -> Iterator[None]:
    vm.run(f"modprobe null_blk nr_devices=0; mkdir {DISK}", quiet=True)
    vm.run(f"echo 32 > {DISK}/size; echo 1 > {DISK}/memory_backed", quiet=True)
    yield
    if not vm.dead:
        vm.run(f"rmdir {DISK}", quiet=True)


@contextmanager
def _serving(vm: Guest) -> Iterator[OursInside]:
    one = OursInside(vm, network.GUEST, text=CONFIG)
    try:
        yield one
    finally:
        if not vm.dead:
            vm.run("nvme disconnect-all", quiet=True, timeout=120)
            one.check()
            one.close()
            use_device(vm, "rxe")


LOAD = [block.Load("4k-64k", 16)]


def _until_said(target: OursInside, pattern: str, times: int = 1) -> None:
    until(
        lambda: len(re.findall(pattern, target.log)) >= times,
        f"{pattern} {times} times",
        state=lambda: target.log,
    )


def _sizes(host: KernelHost) -> list[int]:
    return [device.size // block.MIB for device in host.devices(SUBNQN)]


@pytest.mark.feature("hotplug-disk")
@pytest.mark.usefixtures("disk")
def test_a_disk_comes_and_goes(vm: Guest) -> None:
    """Hosts see a disk removed and added, and continue with others; each time it is a new
    device.
    """
    use_device(vm, "rxe")
    host = KernelHost(vm, network.GUEST)
    with _serving(vm) as target:
        _until_said(target, LISTENS)
        with host.connected(SUBNQN, "-i", "2"):
            assert _sizes(host) == [64]
            for _ in range(2):
                vm.run(f"echo 1 > {DISK}/power", quiet=True)
                until(lambda: _sizes(host) == [64, 32], "it comes", state=lambda: target.log)
                block.fio_verify(vm, host.devices(SUBNQN)[1], LOAD)
                vm.run(f"echo 0 > {DISK}/power", quiet=True, timeout=300)
                until(lambda: _sizes(host) == [64], "it goes", state=lambda: target.log)
            block.fio_verify(vm, host.devices(SUBNQN)[0], LOAD)


@pytest.mark.feature("hotplug-rdma")
def test_the_only_rdma_device_comes_and_goes(vm: Guest, guest: Guest) -> None:
    """The RDMA device is removed and added twice with a connected host, after a start without the
    device; the embedded port continues.

    The kernel's removal ends only when our target has released all objects of the device.
    """
    use_device(vm, "rxe")
    host = KernelHost(vm, network.GUEST)
    embedded = OurHost(vm, "iwarp", "127.0.0.1", SUBNQN, SERVICE + 1)
    vm.run(REMOVE, timeout=300)
    with _serving(vm) as target:
        _until_said(target, "waiting for its device: .*there is no RDMA device")
        for number in (1, 2):
            vm.run(ADD)
            _until_said(target, LISTENS, number)
            host.try_connect(SUBNQN, "-i", "2").check()
            host.wait_live(SUBNQN)
            block.fio_verify(vm, host.devices(SUBNQN)[0], LOAD)
            block.pattern(vm, host.devices(SUBNQN)[0], ord("Z"), 0, 4096)
            vm.run(REMOVE, timeout=300)
            _until_said(target, CLOSED, number)
            # nvme-rdma removes a controller whose device is removed.
            until(lambda: not host.devices(SUBNQN), "the host has removed its devices")
            target.check()
        tree = vm.run([sys.executable, "-m", "nvmf.cli.main", "target", "ls"], timeout=120).stdout
        assert f"port {network.GUEST}:{SERVICE} (system), absent: " in tree
        assert f"port 127.0.0.1:{SERVICE + 1} (iwarp)\n" in tree
        done = embedded.nvmeof("read", "-z", "4KiB")
        assert done.stdout == "Z" * 4096
