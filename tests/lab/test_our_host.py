# SPDX-License-Identifier: BSD-3-Clause
"""Our host (the command, the Python client, the fio engine) with nvmet-rdma and our target."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pytest

from lab import block
from lab.cells import OUR_HOST, Cell, use_device
from lab.guest import Guest
from lab.network import Network
from lab.nvmet import KernelTarget
from lab.our_host import OurHost, Outside
from lab.ours import OursInside
from lab.running import Result
from lab.waiting import until

EVERY_KERNEL = True
# A kernel target's log lines about a host that requests something that does not exist.
pytestmark = pytest.mark.unclean("invalid subsystem")


@dataclass
class Row:
    """A cell that is set up."""

    cell: Cell
    series: str
    target: KernelTarget | OursInside
    host: OurHost
    created: int = 0
    """Number of controllers that a kernel target logged for the cases."""

    @cached_property
    def cases(self) -> dict[str, Result]:
        """Run the command's and the client's cases, once for all tests."""
        if isinstance(self.target, OursInside):
            return self.host.cases()
        since = self.target.guest.mark("our cases")
        found = self.host.cases()
        log = self.target.guest.kernel_log(since)
        self.created = log.count(f" for subsystem {self.target.nqn} for NQN ")
        return found


@pytest.fixture(scope="module", params=OUR_HOST, ids=str)
def row(
    request: pytest.FixtureRequest, vm: Guest, kernel_series: str, cable: Network,
    need_product: None,
) -> Iterator[Row]:  # fmt: skip
    cell: Cell = request.param
    use_device(vm, cell.kind)
    target: KernelTarget | OursInside
    target = (KernelTarget if cell.target == "kernel" else OursInside)(vm, cell.address)
    outside = cell.host == "ours_outside"
    place = Outside(cable) if outside else vm
    host = OurHost(place, cell.embedded if outside else "system", cell.address, target.nqn)
    yield Row(cell, kernel_series, target, host)
    target.close()


@pytest.fixture(autouse=True)
def unharmed(row: Row, guest: Guest) -> Iterator[None]:
    """The target continues to run after every test, and logs no errors."""
    yield
    if isinstance(row.target, OursInside):
        row.target.check()


def test_discover(row: Row) -> None:
    log = row.cases["discover"].check().json()
    assert row.target.nqn in json.dumps(log)
    assert row.target.address in json.dumps(log)


@pytest.mark.quick
def test_connect_and_identify(row: Row) -> None:
    controller = row.cases["id-ctrl"].check().json()
    assert controller["subnqn"] == row.target.nqn
    namespace = row.cases["id-ns"].check().json()
    assert namespace["nsze"] == 64 * block.MIB // row.target.block_sizes[1]


def test_write_and_read(row: Row) -> None:
    """The command writes and reads, and flushes at the end."""
    for name in ("write", "read", "compare"):
        row.cases[name].check()


def test_client(row: Row) -> None:
    """The Python client's cases: FUA, Flush, Write Zeroes, Deallocate, and 200 commands at once."""
    row.cases["client"].check()


def test_refused(row: Row) -> None:
    """Requests for missing objects are refused with an error message."""
    result = row.cases["refused"]
    assert result.status == 1
    assert "Traceback" not in result.output
    assert "Invalid" in result.output, result.output


LATE = """\
import sys
from nvmf.engine import set_iwarp_options
from nvmf.initiator.sync import connect
set_iwarp_options(first_fpdu_delay_us=1_500_000)
with connect(sys.argv[1]) as controller:
    controller.namespace(2).read(0, 1)
"""
"""A host whose first message on each queue comes 1.5 s after the reply to its MPA request."""


def test_late_connect(row: Row) -> None:
    """Our target on siw sends nudges to a silent host, in case siw has missed its Connect; they do
    no harm to a host that has not sent it yet.
    """
    if not isinstance(row.target, OursInside) or str(row.cell) != "ours-ours_outside-siw":
        pytest.skip("about our target on siw, and a host on the embedded device")
    row.host.python(LATE, row.host.url(row.target.nqn)).check()


@pytest.mark.quick
@pytest.mark.parametrize("nsid", [1, 2])
def test_verify(row: Row, nsid: int) -> None:
    size = row.target.block_sizes[nsid - 1]
    thorough = nsid == 2 and row.cell.thorough(row.series)
    row.host.fio_verify(nsid, block.loads(size, thorough=thorough))


@pytest.mark.quick
def test_disconnect_leaves_nothing(row: Row) -> None:
    """Every connection ended in order, and our target logs it; nvmet has none left."""
    row.cases["client"].check()
    if isinstance(row.target, OursInside):
        row.target.wait_no_connections()
        lost = [line for line in row.target.log.splitlines() if "connection was lost" in line]
        assert not lost, "\n".join([*lost, row.target.log])
        return
    target = row.target
    assert row.created, "nvmet told of no controller"
    until(lambda: target.queue_pairs == 0, "nvmet has no queue pair left")
