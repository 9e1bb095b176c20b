# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's host (nvme-rdma) against every target: nvmet-rdma as the control, and ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lab import block, network
from lab.cells import Cell, use_device
from lab.guest import Guest
from lab.kernel_host import BlockDevice, Controller, KernelHost
from lab.network import Network
from lab.nvmet import KernelTarget
from lab.ours import PRIVATE_NQN, OursInside, OursOutside

CELLS = (
    Cell("kernel", "siw"),
    Cell("kernel", "rxe"),
    Cell("ours_outside", "siw"),
    Cell("ours", "siw"),
    Cell("ours", "rxe"),
)

# What a host administrator asks a controller: all of it is mandatory, or nvmet has it too.
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


@dataclass(frozen=True)
class Row:
    """A cell that is set up."""

    cell: Cell
    target: KernelTarget | OursInside | OursOutside
    host: KernelHost


@pytest.fixture(scope="module", params=CELLS, ids=str)
def row(
    request: pytest.FixtureRequest,
    vm: Guest,
    cable: Network,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Row]:
    cell: Cell = request.param
    use_device(vm, cell.device)
    target: KernelTarget | OursInside | OursOutside
    match cell.target:
        case "kernel":
            target = KernelTarget(vm, network.GUEST)
        case "ours":
            request.getfixturevalue("need_product")
            target = OursInside(vm, network.GUEST)
        case _:
            request.getfixturevalue("need_product")
            target = OursOutside(cable, tmp_path_factory.mktemp("target"), network.HOST)
    host = KernelHost(vm, target.address, target.service)
    yield Row(cell, target, host)
    if not vm.dead:
        host.disconnect_all()
    target.close()


@pytest.fixture(autouse=True)
def unharmed(row: Row, guest: Guest) -> Iterator[None]:
    """The target lives on after every test, and says nothing strange."""
    yield
    if not isinstance(row.target, KernelTarget):
        row.target.check()


@pytest.fixture
def controller(row: Row, guest: Guest) -> Iterator[Controller]:
    sizes = row.target.block_sizes
    with row.host.connected(row.target.nqn, "-i", "2", namespaces=len(sizes)) as one:
        yield one


@pytest.fixture
def devices(row: Row, controller: Controller) -> list[BlockDevice]:
    return row.host.devices(row.target.nqn)


def test_discover(row: Row, guest: Guest) -> None:
    records = row.host.discover()
    wanted = {
        "trtype": "rdma",
        "adrfam": "ipv4",
        "subtype": "nvme subsystem",
        "subnqn": row.target.nqn,
        "traddr": row.target.address,
        "trsvcid": str(row.target.service),
    }
    found = [{key: record[key].strip() for key in wanted} for record in records]
    assert wanted in found, records
    assert PRIVATE_NQN not in [record["subnqn"] for record in found]


def test_connect_and_identify(
    row: Row, guest: Guest, controller: Controller, devices: list[BlockDevice]
) -> None:
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


def test_questions(row: Row, guest: Guest, controller: Controller) -> None:
    refused = []
    for question in QUESTIONS:
        done = guest.run(f"nvme {question.format(c=controller.path)}", check=False, quiet=True)
        if done.status:
            refused.append(f"{question}: {done.output.strip()}")
    assert not refused, "\n".join(refused)


@pytest.mark.parametrize("nsid", [1, 2, 3])
def test_verify(row: Row, guest: Guest, devices: list[BlockDevice], nsid: int) -> None:
    if nsid > len(devices):
        pytest.skip("this target has fewer namespaces")
    device = devices[nsid - 1]
    loads = block.LOADS if device.block_size > 512 else block.SMALL + block.LOADS
    block.fio_verify(guest, device, loads)


def test_mixed(row: Row, guest: Guest, devices: list[BlockDevice]) -> None:
    block.fio_mixed(guest, devices[0])


def test_zeroing(row: Row, guest: Guest, devices: list[BlockDevice]) -> None:
    for device in devices:
        block.zeroing(guest, device)


def test_flush(row: Row, guest: Guest, devices: list[BlockDevice]) -> None:
    for device in devices:
        block.flush(guest, device)


def test_disconnect_leaves_nothing(row: Row, guest: Guest) -> None:
    for _ in range(3):
        with row.host.connected(row.target.nqn, namespaces=len(row.target.block_sizes)):
            pass
    assert row.host.devices(row.target.nqn) == []
    assert guest.run("cat /sys/class/nvme/*/subsysnqn 2>/dev/null; true").stdout == ""


@pytest.mark.parametrize(
    "options",
    [
        ("-i", "1", "-Q", "16"),
        ("-i", "4", "-Q", "128"),
        ("-i", "2", "-Q", "1024"),
        ("-i", "1", "-W", "1", "-P", "1"),
        ("-k", "1"),
        ("-D",),
    ],
    ids=" ".join,
)
def test_connect_options(row: Row, guest: Guest, options: tuple[str, ...]) -> None:
    count = len(row.target.block_sizes)
    with row.host.connected(row.target.nqn, *options, namespaces=count):
        device = row.host.devices(row.target.nqn)[1]
        block.fio_verify(guest, device, [block.Load("4k-64k", 64, 2)])


@pytest.mark.unclean("nvme")
def test_reset(row: Row, guest: Guest, controller: Controller, devices: list[BlockDevice]) -> None:
    """The host's controller reset connects anew, and the data is where it was."""
    block.pattern(guest, devices[1], 0x5A, 0, block.MIB)
    guest.run(["nvme", "reset", controller.path])
    row.host.wait_live(row.target.nqn, len(devices))
    block.expect(guest, devices[1], 0x5A, 0, block.MIB)


@pytest.mark.unclean("nvme")
def test_refused(row: Row, guest: Guest) -> None:
    """What is not there, or not for this host, is refused with the kernel's own right words."""
    result = row.host.try_connect(row.target.nqn.replace("-00000000", "-99999999"))
    assert result.status != 0
    if not isinstance(row.target, KernelTarget):
        result = row.host.try_connect(PRIVATE_NQN)
        assert result.status != 0
        log = guest.kernel_log()
        assert "Connect for subsystem" in log
        assert "is not allowed" in log
