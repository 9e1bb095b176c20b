# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof connect` that requests more queues than available: fewer, or a sentence with the
reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import network
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_initiator import HOSTID, HOSTNQN, Initiator
from lab.network import Network
from lab.nvmet import CONFIGFS, KernelTarget
from lab.ours import OursInside, config
from lab.steered import NSID, Steered
from lab.waiting import until

pytestmark = pytest.mark.usefixtures("need_product")

WHO = ["-q", HOSTNQN, "-I", HOSTID]
MEMORY = {"store": "ram", "size": "16MiB"}


@pytest.fixture(scope="module")
def ours(vm: Guest) -> Iterator[Initiator]:
    vm.run("modprobe nvme-rdma", quiet=True)
    one = Initiator(vm)
    yield one
    one.close()


def refused(ours: Initiator, address: str, nqn: str) -> tuple[str, str]:
    """Return the message for a host that requests two I/O queues, and its kernel's log."""
    where = ["-t", "rdma", "-a", address, "-s", "4420", "-n", nqn]
    since = ours.guest.mark("two I/O queues")
    said = ours.refused("connect", *where, *WHO, "-i", "2")
    ours.guest.mark("refused")
    log = ours.guest.kernel_log(since)
    assert "creating 2 I/O queues" in log
    assert f"the kernel cannot connect to {nqn} at {address}:4420: " in said
    assert "ask for fewer with -i" in said
    assert ours.controllers() == []
    return said, log


def queues(ours: Initiator, address: str, nqn: str, wanted: int) -> int:
    """Return how many I/O queues a host gets that requests this many; they work."""
    found = ours.connect(address, 4420, nqn, "-i", str(wanted))
    name = found["device"]
    count = int(ours.attribute(name, "queue_count")) - 1
    path = found["namespaces"][0]["path"]
    ours.guest.run(
        "fio --name=load --ioengine=libaio --direct=1 --thread --rw=randwrite --bs=4k --size=1m"
        f" --iodepth=16 --verify=crc32c --verify_fatal=1 --filename={path}",
        quiet=True,
    )
    ours.run("disconnect", "-d", name)
    return count


@pytest.mark.unclean(r"nvme nvme\d+: ")
def test_full_on_siw(
    vm: Guest, ours: Initiator, cable: Network, tmp_path: Path, guest: Guest
) -> None:
    """siw passes the reject on without the target's reason: the message is based on the order."""
    use_device(vm, "siw")
    with Steered(cable, tmp_path, {NSID: MEMORY}, max_queues=2) as target:
        said, log = refused(ours, network.HOST, target.nqn)
        assert "Connect rejected: status " in log
        assert "the admin queue was connected, and then one of 2 I/O queues was refused" in said
        assert "the target may have no room for so many" in said
        assert "all connections are in use" in target.log
        target.wait_alone()
        assert queues(ours, network.HOST, target.nqn, 1) == 1
        target.close()


@pytest.mark.unclean(r"nvme nvme\d+: ")
def test_full_on_rxe(vm: Guest, ours: Initiator, guest: Guest) -> None:
    """rxe passes the reason on, and the sentence names it."""
    use_device(vm, "rxe")
    text = config(network.GUEST, "system", "/run/lab/target", max_queues=2)
    target = OursInside(vm, network.GUEST, text=text)
    try:
        said, log = refused(ours, network.GUEST, target.nqn)
        assert "nvme status 6 (resource not found)" in log
        assert "the target refused the RDMA connection of a queue: " in said
        assert "(0x6); it has no room for more queues" in said
        until(lambda: "all connections are in use" in target.log, "the target says so")
        target.wait_no_connections()
        assert queues(ours, network.GUEST, target.nqn, 1) == 1
        target.check()
    finally:
        target.close()


def test_fewer(vm: Guest, ours: Initiator, cable: Network, tmp_path: Path, guest: Guest) -> None:
    """A controller has one I/O queue: two are not refused."""
    use_device(vm, "siw")
    with Steered(cable, tmp_path, {NSID: MEMORY}, max_io_queues=1) as target:
        assert queues(ours, network.HOST, target.nqn, 2) == 1
        target.wait_alone()
        target.close()


def test_fewer_of_the_kernel(vm: Guest, ours: Initiator, guest: Guest) -> None:
    """nvmet grants fewer queues, too."""
    use_device(vm, "rxe")
    with KernelTarget(vm, network.GUEST, block_sizes=(4096,)) as target:
        guest.run(f"echo 1 > {CONFIGFS}/nvmet/subsystems/{target.nqn}/attr_qid_max")
        assert queues(ours, network.GUEST, target.nqn, 2) == 1
