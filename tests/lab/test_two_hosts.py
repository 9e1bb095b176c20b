# SPDX-License-Identifier: BSD-3-Clause
"""Two Linux hosts on one namespace of ours: reservations between them, and visibility."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import network
from lab.administer import administer
from lab.block import MIB
from lab.cells import use_device
from lab.guest import Guest
from lab.network import Network
from lab.two_hosts import OneHost, TwoHosts
from nvmf.spec.reservations import Rescap, ReservationType
from support.served import Served

pytestmark = [
    pytest.mark.usefixtures("need_product"),
    pytest.mark.unclean(r"sc 0x83|reservation conflict"),
]

NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-0000000000e1"
OTHER_NQN = NQN[:-2] + "e2"
HOSTIDS = ("5f0c1c9e-0000-4000-8000-0000000000ea", "5f0c1c9e-0000-4000-8000-0000000000eb")
SERVICE, FORGETFUL = 4420, 4421
"""Ports of the target that stores reservations, and of one without a state folder."""
THIRD = HOSTIDS[0][:-1] + "c"
FIRST_KEY, SECOND_KEY = 0xA1B2C3D4E5F60718, 0x2
IGNORE = 1
"""PR_FL_IGNORE_KEY: any registered key."""
RECONNECTS = r"nvme nvme\d+: "
"""The kernel's log lines about a controller whose target was killed."""


class Rig:
    """Our target beside the guest, which can be killed and restarted, and its two hosts."""

    def __init__(self, cable: Network, folder: Path, guest: Guest) -> None:
        self._cable = cable
        self._folder = folder
        self._runs = 0
        (folder / "disk.img").touch()
        os.truncate(folder / "disk.img", 16 * MIB)
        self.served = self._serve()
        try:
            self.hosts = TwoHosts(guest, NQN, HOSTIDS, SERVICE)
        except BaseException:
            self.served.end()
            raise

    def _serve(self) -> Served:
        self._runs += 1
        folder = self._folder / str(self._runs)
        folder.mkdir()
        text = f"""
[target]
state_dir = {json.dumps(str(self._folder / "state"))}

[[port]]
traddr = "{network.HOST}"
trsvcid = {SERVICE}
device = "iwarp"

[[subsystem]]
nqn = "{NQN}"
allow_any_host = true

[[subsystem.namespace]]
nsid = 1
store = "file"
path = {json.dumps(str(self._folder / "disk.img"))}
block_size = 4096
uuid = "{HOSTIDS[0][:-2]}ef"

[[subsystem.namespace]]
nsid = 2
store = "ram"
size = "16MiB"
"""
        return Served(folder, text, wrapper=tuple(self._cable.command())).wait_ready()

    @property
    def first(self) -> OneHost:
        return self.hosts.first

    @property
    def second(self) -> OneHost:
        return self.hosts.second

    def restart(self) -> None:
        """Kill the target, start a new one, and wait until both hosts are connected to it."""
        self.served.kill()
        self.served.check_log()
        self.served = self._serve()
        for host in (self.first, self.second):
            host.wait(1, 2)

    def report(self) -> dict[str, Any]:
        """Return nvme-cli's output of a Reservation Report: the registrants by identifier."""
        found = self.first.nvme("resv-report", "-e", "-o", "json").json()
        registrants = found.pop("regctlext")
        found["registrants"] = {
            one["hostid"].replace("-", ""): (one["rkey"], one["rcsts"]) for one in registrants
        }
        return dict(found)

    def close(self) -> None:
        self.hosts.close()
        self.served.check_log()
        assert self.served.end() == 0


@pytest.fixture(scope="module")
def rig(vm: Guest, cable: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    use_device(vm, "siw")
    one = Rig(cable, tmp_path_factory.mktemp("target"), vm)
    for host in (one.first, one.second):
        host.wait(1, 2)
    yield one
    one.close()


@pytest.fixture
def devices(rig: Rig, guest: Guest) -> tuple[str, str]:
    """The first namespace on both hosts, with no registrant."""
    first, second = rig.first.device(1), rig.second.device(1)
    cleared = rig.hosts.do(("register", first, 1, FIRST_KEY, IGNORE), ("clear", first, FIRST_KEY))
    assert cleared == ["done", "done"]
    return first, second


@pytest.mark.feature("reservations")
@pytest.mark.parametrize("rtype", ReservationType, ids=lambda one: one.name.lower())
def test_types(rig: Rig, devices: tuple[str, str], rtype: ReservationType) -> None:
    """Permitted commands of a holder, an unregistered host and a registrant, by ioctls."""
    first, second = devices
    read = "EBADE" if rtype.excludes_reads else "done"
    also = rtype.for_registrants
    steps: list[tuple[tuple[Any, ...], str]] = [
        (("register", first, 0, FIRST_KEY), "done"),
        (("reserve", first, FIRST_KEY, rtype), "done"),
        (("write", first), "done"),
        (("read", first), "done"),
        (("write", second), "EBADE"),
        (("read", second), read),
        (("reserve", second, SECOND_KEY, rtype), "conflict"),
        (("register", second, 0, SECOND_KEY), "done"),
        (("register", second, FIRST_KEY, SECOND_KEY), "conflict"),
        (("write", second), "done" if also else "EBADE"),
        (("read", second), "done" if also else read),
        (("reserve", second, SECOND_KEY, rtype), "done" if rtype.all_registrants else "conflict"),
        (("write", first), "done"),
    ]
    came = rig.hosts.do(*(step for step, _ in steps))
    assert list(zip(came, steps, strict=True)) == [(step[1], step) for step in steps]
    report = rig.report()
    assert (report["rtype"], report["regctl"], report["ptpls"]) == (rtype, 2, 1)
    assert {key: value[0] for key, value in report["registrants"].items()} == {
        HOSTIDS[0].replace("-", ""): FIRST_KEY,
        HOSTIDS[1].replace("-", ""): SECOND_KEY,
    }
    holders = {host for host, (_, status) in report["registrants"].items() if status & 1}
    wanted = HOSTIDS if rtype.all_registrants else HOSTIDS[:1]
    assert holders == {host.replace("-", "") for host in wanted}
    after = rig.hosts.do(
        ("release", first, FIRST_KEY, rtype), ("write", second), ("read", second),
        ("register", first, FIRST_KEY, 0), ("register", second, SECOND_KEY, 0),
    )  # fmt: skip
    assert after[:3] == ["done"] * 3


@pytest.mark.feature("reservations")
def test_preempt(rig: Rig, devices: tuple[str, str]) -> None:
    """A registrant preempts the reservation of the other host, and gets an error when it cannot."""
    first, second = devices
    came = rig.hosts.do(
        ("register", first, 0, FIRST_KEY), ("reserve", first, FIRST_KEY, 1),
        ("register", second, 0, SECOND_KEY),
        ("preempt", second, SECOND_KEY, 0x77, 2),
        ("preempt", second, SECOND_KEY, FIRST_KEY, 2),
        ("read", first), ("write", first), ("write", second),
        ("release", first, FIRST_KEY, 1),
    )  # fmt: skip
    assert came == [
        "done",
        "done",
        "done",
        "conflict",
        "done",
        "EBADE",
        "EBADE",
        "done",
        "conflict",
    ]
    report = rig.report()
    assert report["rtype"] == ReservationType.EXCLUSIVE_ACCESS
    assert report["registrants"] == {HOSTIDS[1].replace("-", ""): (SECOND_KEY, 1)}
    came = rig.hosts.do(
        ("register", first, 0, FIRST_KEY),
        ("preempt_abort", first, FIRST_KEY, SECOND_KEY, 1),
        ("write", first), ("read", second), ("write", second),
        ("clear", first, FIRST_KEY),
        ("write", second),
    )  # fmt: skip
    assert came == ["done", "done", "done", "done", "EBADE", "done", "done"]
    assert rig.report()["registrants"] == {}


@pytest.mark.feature("reservations")
def test_nvme_cli(rig: Rig, devices: tuple[str, str]) -> None:
    """The commands themselves: keys, actions, and the names of refusals."""
    first, second = rig.first, rig.second
    identified = first.nvme("id-ns", "-o", "json").json()
    assert identified["rescap"] == Rescap.ALL_TYPES | Rescap.IEKEY | Rescap.PTPL
    first.nvme("resv-register", "--nrkey", "0x11", "--cptpl", "2")
    first.nvme("resv-acquire", "--crkey", "0x11", "--rtype", "3")
    said = second.nvme("resv-acquire", "--crkey", "0x22", "--rtype", "3", check=False)
    assert said.status != 0
    assert "Reservation Conflict" in said.output
    second.nvme("resv-register", "--nrkey", "0x22")
    first.nvme("resv-register", "--crkey", "0x11", "--nrkey", "0x12", "--rrega", "2")
    said = first.nvme("resv-register", "--crkey", "0x11", "--rrega", "1", check=False)
    assert "Reservation Conflict" in said.output
    said = first.nvme("resv-release", "--crkey", "0x12", "--rtype", "4", check=False)
    assert "Invalid Field" in said.output
    report = rig.report()
    assert (report["rtype"], report["ptpls"]) == (3, 0)
    assert sorted(report["registrants"].values()) == [(0x12, 1), (0x22, 0)]
    text = second.nvme("resv-report", "-e").stdout
    assert HOSTIDS[1].replace("-", "") in text.replace("-", "").replace(" ", "")
    # 64-bit host identifiers are not those of fabrics.
    said = first.nvme("resv-report", check=False)
    assert "Host Identifier Inconsistent Format" in said.output or "HOSTID_FORMAT" in said.output
    second.nvme(
        "resv-acquire", "--crkey", "0x22", "--prkey", "0x12", "--rtype", "1", "--racqa", "1"
    )
    assert rig.report()["registrants"] == {HOSTIDS[1].replace("-", ""): (0x22, 1)}
    second.nvme("resv-release", "--crkey", "0x22", "--rrela", "1")
    assert rig.report()["regctl"] == 0


@pytest.mark.feature("ptpl")
@pytest.mark.unclean(RECONNECTS)
def test_through_a_restart(rig: Rig, devices: tuple[str, str]) -> None:
    """Linux's registrations persist: the target is killed, and the reservation remains."""
    first, second = devices
    came = rig.hosts.do(
        ("register", first, 0, FIRST_KEY), ("register", second, 0, SECOND_KEY),
        ("reserve", first, FIRST_KEY, 2),
    )  # fmt: skip
    assert came == ["done"] * 3
    before = rig.report()
    rig.restart()
    came = rig.hosts.do(("write", second), ("read", second), ("write", first), ("read", first))
    assert came == ["EBADE", "EBADE", "done", "done"]
    after = rig.report()
    assert (after["ptpls"], after["rtype"]) == (1, 2)
    assert after["registrants"] == before["registrants"]
    rig.first.nvme("resv-register", "--crkey", hex(FIRST_KEY), "--nrkey", hex(FIRST_KEY),
                   "--cptpl", "2")  # fmt: skip
    rig.restart()
    assert rig.hosts.do(("write", second), ("write", first)) == ["done", "done"]
    assert rig.report()["registrants"] == {}


def test_without_a_state_folder(rig: Rig, cable: Network, guest: Guest, tmp_path: Path) -> None:
    """Linux's ioctl requires persistence; if that is impossible, only nvme-cli can register."""
    text = f"""
[[port]]
traddr = "{network.HOST}"
trsvcid = {FORGETFUL}
device = "iwarp"

[[subsystem]]
nqn = "{OTHER_NQN}"
allow_any_host = true

[[subsystem.namespace]]
nsid = 1
store = "ram"
size = "16MiB"
"""
    with Served(tmp_path, text, wrapper=tuple(cable.command())) as served:
        served.wait_ready()
        host = OneHost(guest, THIRD, OTHER_NQN, FORGETFUL)
        host.wait(1)
        assert host.nvme("id-ns", "-o", "json").json()["rescap"] & Rescap.PTPL == 0
        device = host.device(1)
        assert rig.hosts.do(("register", device, 0, FIRST_KEY)) == ["EINVAL"]
        host.nvme("resv-register", "--nrkey", "0x11")
        assert rig.hosts.do(("reserve", device, 0x11, 1), ("write", device)) == ["done", "done"]
        guest.run(["nvme", "disconnect", "-n", OTHER_NQN])
        assert "reservations cannot persist: the target has no state_dir" in served.log
        served.check_log()


@pytest.mark.feature("masks")
def test_masks(rig: Rig, guest: Guest) -> None:
    """A namespace that is hidden from one host disappears there, and not on the other."""
    administer(rig.served, "namespace", "mask", NQN, 2, "--host", rig.first.hostnqn)
    rig.second.wait(1)
    administer(rig.served, "namespace", "mask", NQN, 2, "--host", rig.second.hostnqn)
    rig.first.wait(1)
    rig.second.wait(1, 2)
    administer(rig.served, "namespace", "mask", NQN, 2, "--all")
    rig.first.wait(1, 2)
    came = rig.hosts.do(("write", rig.first.device(2)), ("read", rig.second.device(2)))
    assert came == ["done", "done"]
