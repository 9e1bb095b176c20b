# SPDX-License-Identifier: BSD-3-Clause
"""Disks that come and go under our target, which runs in the guest."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from lab import block, network
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import KernelHost
from lab.nvmet import CONFIGFS
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


@pytest.fixture
def target(vm: Guest, guest: Guest) -> Iterator[OursInside]:
    use_device(vm, "rxe")
    vm.run(f"modprobe null_blk nr_devices=0; mkdir {DISK}", quiet=True)
    vm.run(f"echo 32 > {DISK}/size; echo 1 > {DISK}/memory_backed", quiet=True)
    one = OursInside(vm, network.GUEST, text=CONFIG)
    yield one
    if not vm.dead:
        vm.run("nvme disconnect-all", quiet=True, timeout=120)
        one.check()
        one.close()
        vm.run(f"rmdir {DISK}", quiet=True)
        use_device(vm, "rxe")


LISTENS = rf"(?m)^listening on {re.escape(network.GUEST)}:{SERVICE} \(system\)$"


def _until_said(target: OursInside, pattern: str, times: int = 1) -> None:
    until(
        lambda: len(re.findall(pattern, target.log)) >= times,
        f"{pattern} {times} times",
        state=lambda: target.log,
    )


def _sizes(host: KernelHost) -> list[int]:
    return [device.size // block.MIB for device in host.devices(SUBNQN)]


@pytest.mark.feature("hotplug-disk")
def test_a_disk_comes_and_goes(target: OursInside, vm: Guest) -> None:
    """Hosts see it go and come, and go on with the others; each time it is another device."""
    _until_said(target, LISTENS)
    host = KernelHost(vm, network.GUEST)
    with host.connected(SUBNQN, "-i", "2"):
        assert _sizes(host) == [64]
        for _ in range(2):
            vm.run(f"echo 1 > {DISK}/power", quiet=True)
            until(lambda: _sizes(host) == [64, 32], "it comes", state=lambda: target.log)
            block.fio_verify(vm, host.devices(SUBNQN)[1], [block.Load("4k-64k", 16)])
            vm.run(f"echo 0 > {DISK}/power", quiet=True, timeout=300)
            until(lambda: _sizes(host) == [64], "it goes", state=lambda: target.log)
        block.fio_verify(vm, host.devices(SUBNQN)[0], [block.Load("4k-64k", 16)])
