# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof connect` and similar commands in the guest: nvme-rdma with every target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lab import network
from lab.cells import NETDEV, Cell, use_device
from lab.guest import Guest
from lab.kernel_initiator import HOSTID, HOSTNQN, SECONDS, Initiator
from lab.network import Network
from lab.nvmet import KernelTarget
from lab.ours import FRIEND_NQN, PRIVATE_NQN, OursInside, OursOutside
from lab.prepare import ROOT

CELLS = (
    Cell("kernel", "siw"),
    Cell("kernel", "rxe"),
    Cell("ours_outside", "siw"),
    Cell("ours", "rxe"),
)


def on(*cells: Cell) -> pytest.MarkDecorator:
    """Tests of what depends little on the target and the device run in these cells alone."""
    return pytest.mark.parametrize("row", cells, ids=str, indirect=True)


@dataclass(frozen=True)
class Row:
    """A cell that is set up."""

    cell: Cell
    target: KernelTarget | OursInside | OursOutside
    ours: Initiator

    @property
    def where(self) -> list[str]:
        """Flags of the target's port."""
        return ["-t", "rdma", "-a", self.target.address, "-s", str(self.target.service)]

    def connect(self, *options: str) -> str:
        """Connect to the target's subsystem; return the controller's name."""
        found = self.ours.connect(
            self.target.address, self.target.service, self.target.nqn, *options
        )
        assert len(found["namespaces"]) == len(self.target.block_sizes)
        return str(found["device"])


@pytest.fixture(scope="module", params=CELLS, ids=str)
def row(
    request: pytest.FixtureRequest,
    vm: Guest,
    cable: Network,
    need_product: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Row]:
    cell: Cell = request.param
    use_device(vm, cell.device)
    target: KernelTarget | OursInside | OursOutside
    match cell.target:
        case "kernel":
            target = KernelTarget(vm, network.GUEST)
        case "ours":
            target = OursInside(vm, network.GUEST)
        case _:
            target = OursOutside(cable, tmp_path_factory.mktemp("target"), network.HOST)
    ours = Initiator(vm)
    yield Row(cell, target, ours)
    if not vm.dead:
        vm.run("nvme disconnect-all", quiet=True, check=False)
    ours.close()
    target.close()


@pytest.fixture(autouse=True)
def unharmed(row: Row, guest: Guest) -> Iterator[None]:
    """Every test disconnects its controllers, and the target continues to run."""
    yield
    left = row.ours.controllers()
    if left:
        guest.run("nvme disconnect-all", quiet=True)
    assert left == []
    if not isinstance(row.target, KernelTarget):
        row.target.check()


def test_connect_list_disconnect(row: Row, guest: Guest) -> None:
    """The block devices exist when connect returns, and list and list-subsys show them."""
    ours, target = row.ours, row.target
    found = ours.connect(target.address, target.service, target.nqn)
    name = found["device"]
    assert (found["subsysnqn"], found["transport"]) == (target.nqn, "rdma")
    assert [n["nsid"] for n in found["namespaces"]] == list(range(1, len(target.block_sizes) + 1))
    assert tuple(n["block_size"] for n in found["namespaces"]) == target.block_sizes
    for namespace in found["namespaces"]:
        node = namespace["path"]
        guest.run(f"test -b {node} && head -c 64K /dev/urandom > /run/lab/data")
        guest.run(
            f"dd if=/run/lab/data of={node} bs=64K oflag=direct status=none &&"
            f" dd if={node} bs=64K count=1 iflag=direct status=none | cmp - /run/lab/data"
        )

    listed = {d["DevicePath"]: d for d in ours.json("list")["Devices"]}
    assert sorted(listed) == sorted(n["path"] for n in found["namespaces"])
    theirs = guest.run(["nvme", "list", "-o", "json"]).json()["Devices"]
    for one in theirs:  # nvme-cli's values are the same
        mine = listed[one["DevicePath"]]
        same = ("ModelNumber", "SerialNumber", "Firmware", "PhysicalSize", "SectorSize")
        assert {key: mine[key] for key in same} == {key: one[key].strip() if
            isinstance(one[key], str) else one[key] for key in same}  # fmt: skip
        assert mine["UsedBytes"] == one["UsedBytes"]
        assert mine["NameSpace"] == one["NameSpace"]
    table = ours.run("list").stdout
    assert all(namespace["path"] in table for namespace in found["namespaces"])

    (host,) = ours.json("list-subsys")
    assert (host["HostNQN"], host["HostID"]) == (HOSTNQN, HOSTID)
    (subsystem,) = host["Subsystems"]
    (path,) = subsystem["Paths"]
    assert subsystem["NQN"] == target.nqn
    assert (path["Name"], path["Transport"], path["State"]) == (name, "rdma", "live")
    assert f"traddr={target.address},trsvcid={target.service}" in path["Address"]
    assert f" +- {name} rdma traddr={target.address}" in ours.run("list-subsys").stdout

    done = ours.json("disconnect", "-n", target.nqn)
    assert done == {"disconnected": [{"device": name, "subsysnqn": target.nqn}]}
    assert "is not connected to" in ours.refused("disconnect", "-n", target.nqn)
    assert ours.json("list") == {"Devices": []}


@on(CELLS[1], CELLS[2])
@pytest.mark.unclean("I/O fail on reconnect")
def test_every_option(row: Row, guest: Guest) -> None:
    """Each option reaches the kernel, and its effect is visible."""
    timers = ["-k", "7", "-c", "3", "-l", "90", "--fast_io_fail_tmo", "30"]
    options = ["-i", "2", "-W", "1", "-P", "1", "-Q", "32", "-T", "16", "-D", "-d", *timers]
    source = ["-w", network.GUEST]
    name = row.connect(*options, *source)
    shown = {
        attribute: row.ours.attribute(name, attribute)
        for attribute in (
            "queue_count", "sqsize", "kato", "reconnect_delay", "ctrl_loss_tmo",
            "fast_io_fail_tmo", "hostnqn", "hostid",
        )
    }  # fmt: skip
    assert shown == {
        "queue_count": "5",  # 2, 1 and 1 of two processors, and the admin queue
        "sqsize": "31",
        "kato": "7",
        "reconnect_delay": "3",
        "ctrl_loss_tmo": "90",
        "fast_io_fail_tmo": "30",
        "hostnqn": HOSTNQN,
        "hostid": HOSTID,
    }
    assert f"host_traddr={network.GUEST}" in row.ours.attribute(name, "address")
    again = row.connect("-D")
    assert again != name
    row.ours.run("disconnect", "-d", f"{name},/dev/{again}")


def test_connect_all(row: Row, guest: Guest) -> None:
    """All subsystems that discovery offers this host, read by the kernel; existing ones stay."""
    who = ["-q", FRIEND_NQN, "-I", HOSTID]
    wanted = [row.target.nqn]
    if not isinstance(row.target, KernelTarget):
        wanted.append(PRIVATE_NQN)
    found = row.ours.json("connect-all", *row.where, *who)
    assert sorted(one["subsysnqn"] for one in found) == sorted(wanted)
    assert {one["result"] for one in found} == {"connected"}
    again = row.ours.json("connect-all", *row.where, *who)
    assert {one["result"] for one in again} == {"already connected"}
    assert sorted(one["device"] for one in again) == sorted(one["device"] for one in found)
    assert len(row.ours.json("disconnect-all")["disconnected"]) == len(wanted)
    assert row.ours.run("disconnect-all").stdout == "nothing is connected\n"


@on(CELLS[1], CELLS[2])
def test_connect_all_by_file(row: Row, guest: Guest) -> None:
    """Without an address, connect-all uses the entries of discovery.conf; the client reads the
    log.
    """
    line = f"-t rdma -a {row.target.address} -s {row.target.service} -i 1\n"
    guest.run("cp /etc/nvme/discovery.conf /run/lab/", quiet=True)
    guest.write("/etc/nvme/discovery.conf", f"# ports\n-t tcp -a 192.0.2.1\n{line}")
    device = "iwarp" if row.cell.device == "siw" and row.cell.target != "kernel" else "system"
    try:
        found = row.ours.json("connect-all", "-q", HOSTNQN, "-I", HOSTID, "--device", device)
    finally:
        guest.run("cp /run/lab/discovery.conf /etc/nvme/", quiet=True)
    assert [one["subsysnqn"] for one in found] == [row.target.nqn]
    assert row.ours.attribute(found[0]["device"], "queue_count") == "2"
    row.ours.run("disconnect-all", "-t", "rdma")


@on(CELLS[1], CELLS[2])
@pytest.mark.unclean("nvme")
def test_backends(row: Row, guest: Guest) -> None:
    """The Python API through the kernel: the same suite as for the client."""
    url = f"nvme+rdma://{row.target.address}:{row.target.service}/{row.target.nqn}"
    done = row.ours.python("support.backends", f"{url}?queues=2&hostnqn={HOSTNQN}", "kernel")
    assert "passed closed" in done.stdout


@pytest.mark.unclean("nvme")
def test_refused(row: Row, guest: Guest) -> None:
    """A missing or forbidden subsystem: a sentence with the status, and what to do."""
    ours, target = row.ours, row.target
    who = ["-q", HOSTNQN, "-I", HOSTID]
    unknown = target.nqn.replace("-00000000", "-99999999")
    said = ours.refused("connect", *row.where, "-n", unknown, *who)
    assert f"cannot connect to {unknown} at {target.address}:{target.service}" in said
    assert "Connect Invalid Parameters (0x182), about SUBNQN" in said
    assert "nvmeof discover -a" in said
    if not isinstance(target, KernelTarget):
        said = ours.refused("connect", *row.where, "-n", PRIVATE_NQN, *who)
        assert "Connect Invalid Host (0x184)" in said
        assert f"does not admit the host {HOSTNQN}" in said
    name = row.connect()
    said = ours.refused("connect", *row.where, "-n", target.nqn, *who)
    assert "is connected to it already (EALREADY)" in said
    assert "-D" in said
    ours.run("disconnect", "-d", name)


@on(CELLS[1], CELLS[2])
@pytest.mark.unclean("nvme|siw|rxe")
def test_dead_port(row: Row, guest: Guest) -> None:
    where = ["-t", "rdma", "-a", row.target.address, "-s", "4999", "-n", row.target.nqn]
    said = row.ours.refused("connect", *where)
    assert "no NVMe-oF target listens there for RDMA" in said
    assert "see that the target runs" in said


@on(CELLS[2])
@pytest.mark.unclean("nvme|siw|rxe")
def test_target_on_tcp(row: Row, guest: Guest) -> None:
    """The message about a port of NVMe over TCP says so."""
    nvmet = "/sys/kernel/config/nvmet/ports/7"
    guest.run(
        f"modprobe nvmet-tcp && mkdir {nvmet} && cd {nvmet} && echo tcp > addr_trtype &&"
        f" echo ipv4 > addr_adrfam && echo {network.GUEST} > addr_traddr &&"
        " echo 4777 > addr_trsvcid"
    )
    subsystem = "/sys/kernel/config/nvmet/subsystems/nqn.2014-08.org.example:tcp"
    guest.run(f"mkdir {subsystem} && ln -s {subsystem} {nvmet}/subsystems/")
    try:
        where = ["-t", "rdma", "-a", network.GUEST, "-s", "4777", "-n", row.target.nqn]
        said = row.ours.refused("connect", *where)
        assert "answers as NVMe over TCP" in said
        assert "nvme connect -t tcp" in said
    finally:
        guest.run(f"rm {nvmet}/subsystems/* && rmdir {nvmet} {subsystem}")


@on(CELLS[2])
def test_without_root(row: Row, guest: Guest) -> None:
    assert "requires root: try sudo" in _as_nobody(row, guest)


@on(CELLS[2])
def test_without_the_module(row: Row, guest: Guest) -> None:
    """Root loads it, as nvme-cli does; other users get a message."""
    guest.run("modprobe -r nvme-rdma nvme-fabrics && test ! -e /dev/nvme-fabrics")
    said = _as_nobody(row, guest)
    assert "driver is not loaded (/dev/nvme-fabrics is not there)" in said
    assert "loading it requires root" in said
    row.ours.run("disconnect", "-d", row.connect())


@on(CELLS[2])
@pytest.mark.unclean("nvme|siw|rdma")
def test_without_a_device(row: Row, guest: Guest) -> None:
    guest.run(f"rdma link del {row.cell.device}0")
    try:
        where = [*row.where, "-n", row.target.nqn]
        said = row.ours.refused("connect", *where)
        assert "this host has no RDMA device" in said
        assert f"rdma link add siw0 type siw netdev {NETDEV}" in said
    finally:
        use_device(guest, row.cell.device)


def _as_nobody(row: Row, guest: Guest) -> str:
    """Return the message of `nvmeof connect` for a user who is not root."""
    argv = row.ours.argv("connect", *row.where, "-n", row.target.nqn)
    # Only root may be able to read the tree; the guest's root is an overlay, so that the modes of
    # the machine's own directories are unchanged.
    guest.run(["chmod", "a+x", *map(str, ROOT.parents)])
    done = guest.run(
        ["setpriv", "--reuid", "65534", "--clear-groups", *argv], check=False, timeout=SECONDS
    )
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    return done.stderr
