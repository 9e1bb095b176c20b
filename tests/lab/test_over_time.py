# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's host on our target while targets, links, controllers and hosts fail.

fio writes and verifies all the time: it may have to wait, but must never get an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import pytest

from lab import block, network
from lab.cells import EITHER, EMBEDDED
from lab.guest import Guest
from lab.kernel_host import HOSTID, HOSTNQN, BlockDevice, Controller, KernelHost
from lab.load import MARK, VerifyingLoad, mark_offset
from lab.network import Network
from lab.ours import OursOutside
from lab.steered import NSID, Steered, file_namespace
from lab.waiting import until
from support.served import SANITIZED

pytestmark = [
    pytest.mark.usefixtures("need_product"),
    # The driver's log lines about losing a controller and reconnecting; not about I/O.
    pytest.mark.unclean(r"nvme nvme\d+: "),
    pytest.mark.timeout(1200),
]

PERSISTENT = ("-c", "1", "-l", "600", "-k", "4", "-i", "2")
"""The host's connect options: it reconnects within a second, and does not give up."""
KILLS = 10
RESETS = 10
WARM_UP = 20
SPELLS, CYCLES = 5, 20
"""A hundred hosts, in groups: a leak shows in each, a growing cache in some."""
CHUNK = 32
"""Bytes that malloc counts for its smallest allocation, on machines of 64 bits."""
GROWTH = 64 * 1024
"""The limit for growth of resident memory, in bytes, in the group with the least."""


@pytest.fixture
def target(cable: Network, tmp_path: Path, kind: str) -> Iterator[Steered]:
    disk = tmp_path / "disk.img"
    with disk.open("wb") as file:
        file.truncate(64 * block.MIB)
    with Steered(cable, tmp_path, {NSID: file_namespace(disk)}, EMBEDDED[kind]) as one:
        yield one
        one.close()


def _state(guest: Guest, controller: Controller) -> str:
    return guest.run(f"cat /sys/class/nvme/{controller.name}/state", quiet=True).stdout.strip()


def _only_device(host: KernelHost, nqn: str) -> BlockDevice:
    (device,) = host.devices(nqn)
    return device


@pytest.mark.feature("embedded")
def test_target_killed(cable: Network, tmp_path: Path, host: KernelHost, guest: Guest) -> None:
    """The target is killed ten times: its host reconnects each time, and flushed data is there."""
    ours = OursOutside(cable, tmp_path, network.HOST)
    with host.connected(ours.nqn, *PERSISTENT, namespaces=3):
        device = host.devices(ours.nqn)[2]
        with VerifyingLoad(guest, device) as load:
            for number in range(KILLS):
                block.pattern(guest, device, 1 + number, mark_offset(number), MARK)
                ours.check()
                ours.restart()
                load.go_on()
                block.expect(guest, device, 1 + number, mark_offset(number), MARK)
        for number in range(KILLS):
            block.expect(guest, device, 1 + number, mark_offset(number), MARK)
    ours.check()
    ours.close()


@EITHER
@pytest.mark.feature("embedded", "keep-alive")
def test_link_down(target: Steered, cable: Network, host: KernelHost, guest: Guest) -> None:
    """The link is down for longer than the keep-alive timeout: both sides notice, and recover."""
    with host.connected(target.nqn, *PERSISTENT) as controller:
        device = _only_device(host, target.nqn)
        with VerifyingLoad(guest, device) as load:
            before = target.state()
            cable.link(up=False)
            try:
                until(
                    lambda: _state(guest, controller) == "connecting",
                    "the host notices that the link is down",
                    state=guest.kernel_log,
                )
                gone = target.wait_alone()
            finally:
                cable.link(up=True)
            load.go_on()
            target.wait_same(before)
    assert "no command received for 4000 ms" in target.log
    assert gone.kept["mr"] < before.kept["mr"]


@pytest.mark.feature("connect")
def test_reset_under_load(target: Steered, host: KernelHost, guest: Guest) -> None:
    with host.connected(target.nqn, *PERSISTENT) as controller:
        device = _only_device(host, target.nqn)
        with VerifyingLoad(guest, device) as load:
            before = target.state()
            for _ in range(RESETS):
                guest.run(["nvme", "reset", controller.path], timeout=120)
            load.go_on()
            target.wait_same(before)
    assert len(re.findall(r"connected, keep-alive", target.log)) > RESETS


@EITHER
@pytest.mark.feature("embedded", "keep-alive")
@pytest.mark.unclean(r"rcu.*stall|soft lockup|Call Trace")
def test_host_frozen(target: Steered, host: KernelHost, guest: Guest) -> None:
    """A host that stops is disconnected; when it continues, it reconnects and its I/O resumes."""
    with host.connected(target.nqn, *PERSISTENT) as controller:
        device = _only_device(host, target.nqn)
        with VerifyingLoad(guest, device) as load:
            guest.freeze()
            try:
                target.wait_alone()
            finally:
                guest.thaw()
            load.go_on()
            assert _state(guest, controller) == "live"
    assert "no command received for 4000 ms" in target.log


def _growth(values: Sequence[int]) -> float:
    """Return the least growth in a spell, between any two states.

    The heap of a target that leaks nothing differs by up to 8 kB between two spells, so that it may
    grow in each of five.  A leak is in every pair.
    """
    pairs = combinations(enumerate(values), 2)
    return min((new - old) / (after - before) for (before, old), (after, new) in pairs)


def test_cycles_leave_nothing(target: Steered, host: KernelHost, guest: Guest) -> None:
    """A hundred hosts connect, read and disconnect: no memory, socket or object remains."""
    options = (
        f"transport=rdma,traddr={network.HOST},trsvcid={target.service},nqn={target.nqn},"
        f"hostnqn={HOSTNQN},hostid={HOSTID},nr_io_queues=2"
    )
    script = f"""
        set -e
        for cycle in $(seq $1); do
            read answer < <(exec 3<>/dev/nvme-fabrics; echo {options} >&3; cat <&3)
            name=nvme${{answer#*instance=}}
            name=${{name%%,*}}
            until [ -b /dev/${{name}}n1 ]; do sleep 0.02; done
            dd if=/dev/${{name}}n1 of=/dev/null bs=64k count=1 iflag=direct status=none
            echo 1 > /sys/class/nvme/$name/delete_controller
        done
    """

    def cycles(count: int) -> None:
        guest.run(["bash", "-c", script, "cycles", str(count)], timeout=600, quiet=True)

    cycles(WARM_UP)
    before = target.wait_alone()
    states, resident = [before], [target.resident]
    for _ in range(SPELLS):
        cycles(CYCLES)
        states.append(target.wait_same(before))
        resident.append(target.resident)
    for name in before.kept:
        assert _growth([one.kept[name] for one in states]) <= 0, states
    if SANITIZED:
        return
    # Less than one allocation per host, in the target and in the engine.
    assert _growth([one.blocks for one in states]) < CYCLES, states
    assert _growth([one.heap for one in states]) < CHUNK * CYCLES, states
    assert _growth(resident) < GROWTH, resident
