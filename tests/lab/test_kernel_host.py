# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's host (nvme-rdma) with every target: nvmet-rdma for comparison, and ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from lab import block
from lab.cells import KERNEL_HOST, Cell, use_device
from lab.guest import Guest
from lab.kernel_host import HOSTNQN, BlockDevice, Controller, KernelHost
from lab.network import Network
from lab.nvmet import KernelTarget
from lab.ours import PRIVATE_NQN, OursInside, OursOutside

EVERY_KERNEL = True
DRIVER = r"nvme nvme\d+: "
"""The host driver's log lines about a controller; not those about I/O."""
# Queries of a host administrator: all are mandatory, or nvmet supports them as well.
QUESTIONS = (
    "id-ctrl {c}",
    "id-ns {c} -n 1",
    "ns-descs {c} -n 1",
    "list-ns {c}",
    "smart-log {c}",
    "error-log {c} -e 1",
    "fw-log {c}",
    "effects-log {c}",
    "changed-ns-list-log {c}",
    "get-feature {c} -f 7",
    "get-feature {c} -f 0xb",
    "get-feature {c} -f 0xf",
)
OPTIONS = (
    ("-i", "4", "-Q", "128"),
    ("-i", "1", "-W", "1", "-P", "1"),
    ("-i", "2", "-Q", "1024", "-D"),
    ("-i", "1", "-Q", "16", "-k", "30"),
)


@dataclass
class Row:
    """A cell that is set up; tests share a connection."""

    cell: Cell
    series: str
    target: KernelTarget | OursInside | OursOutside
    host: KernelHost
    _open: ExitStack = field(default_factory=ExitStack)
    _controller: Controller | None = None

    def controller(self) -> Controller:
        """The controller, connected if it is not."""
        count = len(self.target.block_sizes)
        if self._controller is None:
            connected = self.host.connected(self.target.nqn, "-i", "2", namespaces=count)
            self._controller = self._open.enter_context(connected)
        return self._controller

    def devices(self) -> list[BlockDevice]:
        """The block devices of the controller."""
        self.controller()
        return self.host.devices(self.target.nqn)

    def disconnect(self) -> None:
        """End the connection, if there is one."""
        self._controller = None
        self._open.close()


@pytest.fixture(scope="module", params=KERNEL_HOST, ids=str)
def row(
    request: pytest.FixtureRequest,
    vm: Guest,
    kernel_series: str,
    cable: Network,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Row]:
    cell: Cell = request.param
    use_device(vm, cell.kind)
    target: KernelTarget | OursInside | OursOutside
    match cell.target:
        case "kernel":
            target = KernelTarget(vm, cell.address)
        case "ours":
            request.getfixturevalue("need_product")
            target = OursInside(vm, cell.address)
        case _:
            request.getfixturevalue("need_product")
            target = OursOutside(
                cable, tmp_path_factory.mktemp("target"), cell.address, cell.embedded
            )
    host = KernelHost(vm, target.address, target.service)
    one = Row(cell, kernel_series, target, host)
    yield one
    if not vm.dead:
        one.disconnect()
        host.disconnect_all()
    target.close()


@pytest.fixture(autouse=True)
def unharmed(row: Row, guest: Guest) -> Iterator[None]:
    """The target continues to run after every test, and logs no errors."""
    yield
    if not isinstance(row.target, KernelTarget):
        row.target.check()


@pytest.mark.feature("discovery-log")
def test_discover(row: Row, guest: Guest) -> None:
    records = row.host.discover()
    wanted = {
        "trtype": "rdma",
        "adrfam": "ipv6" if row.cell.ipv6 else "ipv4",
        "subtype": "nvme subsystem",
        "subnqn": row.target.nqn,
        "traddr": row.target.address,
        "trsvcid": str(row.target.service),
    }
    found = [{key: record[key].strip() for key in wanted} for record in records]
    assert wanted in found, records
    assert PRIVATE_NQN not in [record["subnqn"] for record in found]


@pytest.mark.quick
@pytest.mark.feature("connect", "formats")
def test_connect_and_identify(row: Row, guest: Guest) -> None:
    controller, devices = row.controller(), row.devices()
    assert [device.nsid for device in devices] == list(range(1, len(devices) + 1))
    assert tuple(device.block_size for device in devices) == row.target.block_sizes
    assert {device.size for device in devices} == {64 * block.MIB}
    listed = guest.run(["nvme", "list", "-o", "json"]).json()["Devices"]
    assert {device.path for device in devices} <= {entry["DevicePath"] for entry in listed}
    guest.run("nvme list-subsys")
    identify = guest.run(["nvme", "id-ctrl", controller.path, "-o", "json"]).json()
    assert identify["subnqn"] == row.target.nqn
    space = guest.run(["nvme", "id-ns", devices[0].path, "-o", "json"]).json()
    assert space["nsze"] == devices[0].size // devices[0].block_size


def test_questions(row: Row, guest: Guest) -> None:
    controller, refused = row.controller(), []
    for question in QUESTIONS:
        done = guest.run(f"nvme {question.format(c=controller.path)}", check=False, quiet=True)
        if done.status:
            refused.append(f"{question}: {done.output.strip()}")
    assert not refused, "\n".join(refused)


@pytest.mark.quick
@pytest.mark.feature("keyed-sgl", "in-capsule", "formats")
@pytest.mark.parametrize("nsid", [1, 2])
def test_verify(row: Row, guest: Guest, nsid: int) -> None:
    device = row.devices()[nsid - 1]
    thorough = nsid == 2 and row.cell.thorough(row.series)
    block.fio_verify(guest, device, block.loads(device.block_size, thorough=thorough))


def test_verify_file(row: Row, guest: Guest) -> None:
    """The last namespace is a file if the target is ours."""
    block.fio_verify(guest, row.devices()[-1], block.loads(4096, thorough=False)[1:])


def test_mixed(row: Row, guest: Guest) -> None:
    block.fio_mixed(guest, row.devices()[0])


@pytest.mark.feature("write-zeroes", "deallocate")
def test_write_zeroes_and_discard(row: Row, guest: Guest) -> None:
    first, second, *others = row.devices()
    for device in (first, others[0]) if row.cell.each(row.series) else (second,):
        promised = block.zeroing(guest, device)
        assert promised or isinstance(row.target, KernelTarget), device


def test_flush(row: Row, guest: Guest) -> None:
    for device in row.devices():
        block.flush(guest, device)


@pytest.mark.unclean(DRIVER)
def test_reset(row: Row, guest: Guest) -> None:
    """The host's controller reset connects again, and the data is unchanged."""
    device = row.devices()[1]
    block.pattern(guest, device, 0x5A, 0, block.MIB)
    guest.run(["nvme", "reset", row.controller().path])
    row.host.wait_live(row.target.nqn, len(row.target.block_sizes))
    block.expect(guest, device, 0x5A, 0, block.MIB)


@pytest.mark.quick
def test_disconnect_leaves_nothing(row: Row, guest: Guest) -> None:
    row.controller()
    row.disconnect()
    assert row.host.devices(row.target.nqn) == []
    assert guest.run("cat /sys/class/nvme/*/subsysnqn 2>/dev/null; true").stdout == ""


@pytest.mark.feature("connect")
def test_connect_options(row: Row, guest: Guest) -> None:
    """Queues of different sizes and numbers, also polled ones: a separate connection for each."""
    row.disconnect()
    count = len(row.target.block_sizes)
    for options in OPTIONS if row.cell.each(row.series) else OPTIONS[:1]:
        with row.host.connected(row.target.nqn, *options, namespaces=count):
            device = row.host.devices(row.target.nqn)[1]
            block.fio_verify(guest, device, [block.Load("4k-64k", 64, 2, size=block.MIB)])


@pytest.mark.feature("allow-list")
@pytest.mark.unclean(f"{DRIVER}|nvmet: connect request for invalid subsystem")
def test_refused(row: Row, guest: Guest) -> None:
    """A missing or forbidden subsystem is refused with the kernel's correct message."""
    unknown = row.target.nqn.replace("-00000000", "-99999999")
    said = _refused(row, unknown)
    assert f'Connect Invalid Data Parameter, subsysnqn "{unknown}"' in said
    if not isinstance(row.target, KernelTarget):
        said = _refused(row, PRIVATE_NQN)
        assert f"Connect for subsystem {PRIVATE_NQN} is not allowed, hostnqn: {HOSTNQN}" in said


def _refused(row: Row, nqn: str) -> str:
    """Return the kernel's messages about a connect that fails."""
    since = row.host.guest.mark(f"connect to {nqn}")
    assert row.host.try_connect(nqn).status
    row.host.guest.mark("refused")
    return row.host.guest.kernel_log(since)
