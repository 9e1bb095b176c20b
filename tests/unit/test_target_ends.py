# SPDX-License-Identifier: BSD-3-Clause
"""Ends of queues and controllers with commands in progress: reset, shutdown, Disconnect."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from nvmf.spec import commands
from nvmf.spec.opcodes import IoOpcode
from nvmf.spec.properties import Cap, Csts, Property, ready_timeout_seconds
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import DNR, Status
from nvmf.target.command.engine import Own
from nvmf.target.io.pystore import Store
from nvmf.target.model.controller import Controller
from nvmf.target.model.queue import Queue
from support.faketarget import ENABLED, Bench, FakeHandle

SEQUENCE = Status.COMMAND_SEQUENCE_ERROR | DNR
SHUTDOWN = ENABLED | 1 << 14
WRITE_UNCORRECTABLE = Sqe(IoOpcode.WRITE_UNCORRECTABLE, nsid=1).encode()


class Fence:
    """Commands in progress, which end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Sequence[Own], Callable[[], None]]] = []

    def __call__(
        self, qpairs: list[Own], nsid: int, then: Callable[[], None], /, *, abort: int = 0
    ) -> None:
        assert not abort
        self.waiting.append((qpairs, then))

    def end(self) -> None:
        waiting, self.waiting = self.waiting, []
        for _, then in waiting:
            then()


class Ends:
    """A host with an admin queue and an I/O queue that has a command in progress."""

    def __init__(self) -> None:
        self.fence = Fence()
        self.bench = Bench()
        self.bench.subsystem.fence = self.fence
        self.bench.add_namespace(1)
        self.admin = self.bench.admin()
        self.io = self.bench.io(self.admin)
        self.fence.end()

    @property
    def controller(self) -> Controller:
        assert self.admin.controller is not None
        return self.admin.controller

    def configure(self, value: int) -> None:
        assert self.bench.do(self.admin, commands.property_set(Property.CC, value)).status == 0

    def csts(self) -> Csts:
        return Csts.decode(self.bench.do(self.admin, commands.property_get(Property.CSTS)).dw0)

    def write(self, queue: Queue) -> int:
        return self.bench.do(queue, WRITE_UNCORRECTABLE, length=0).status


@pytest.mark.feature("connect")
def test_a_reset_ends_with_the_commands() -> None:
    """CSTS.RDY is 1 until the commands in progress have ended; then their QIDs are free."""
    one = Ends()
    one.configure(ENABLED & ~1)
    ((waited, _),) = one.fence.waiting
    assert waited == [one.io.handle]
    assert one.csts() == Csts(rdy=1)
    assert isinstance(one.io.handle, FakeHandle)
    assert one.io.handle.calls[-2:] == [("enable", False), ("disconnect",)]
    assert one.write(one.io) == SEQUENCE
    one.fence.end()
    assert one.csts() == Csts()
    one.configure(ENABLED)
    again = one.bench.io(one.admin)  # the connection of the deleted queue has not ended
    one.bench.core.closed(one.io)
    assert one.controller.connected_io_queues() == [again]
    assert one.write(again) == 0


@pytest.mark.feature("connect")
def test_a_host_that_does_not_wait_for_the_reset() -> None:
    one = Ends()
    one.configure(ENABLED & ~1)
    one.configure(ENABLED)
    assert not one.controller.ready
    assert one.bench.connect(one.bench.queue(1), cntlid=one.controller.cntlid).status == SEQUENCE
    one.fence.end()
    assert one.csts() == Csts(rdy=1)
    assert one.write(one.bench.io(one.admin)) == 0


@pytest.mark.feature("connect")
@pytest.mark.parametrize("reset", [False, True])
def test_a_shutdown_ends_with_the_commands(reset: bool) -> None:
    one = Ends()
    one.configure(SHUTDOWN)
    assert one.csts() == Csts(rdy=1, shst=1)
    assert one.controller.shut_down
    assert one.write(one.io) == SEQUENCE
    if reset:  # the host gave up
        one.configure(0)
    one.fence.end()
    assert one.csts() == (Csts() if reset else Csts(rdy=1, shst=2))


@pytest.mark.feature("connect")
def test_a_host_waits_long_enough_for_a_reset() -> None:
    """CAP.TO is more than the time that a store in Python has for a command."""
    one = Ends()
    done = one.bench.do(one.admin, commands.property_get(Property.CAP, 8))
    assert ready_timeout_seconds(Cap.decode(done.dw0 | done.dw1 << 32)) > Store.time_limit


@pytest.mark.feature("connect")
@pytest.mark.parametrize("enabled", [False, True])
def test_a_shutdown_during_a_reset(enabled: bool) -> None:
    """It ends, too: the host does not wait for CSTS.SHST in vain."""
    one = Ends()
    one.configure(ENABLED & ~1)
    one.configure(SHUTDOWN if enabled else SHUTDOWN & ~1)
    assert one.csts().shst == 1
    one.fence.end()
    assert one.csts() == Csts(rdy=int(enabled), shst=2)
    assert not one.controller.ready


@pytest.mark.feature("disconnect")
def test_a_disconnected_queue_executes_nothing() -> None:
    """Its QID is free before its connection has ended."""
    one = Ends()
    assert one.bench.do(one.io, commands.disconnect()).status == 0
    assert one.write(one.io) == SEQUENCE
    again = one.bench.io(one.admin)
    assert one.write(again) == 0
    one.configure(SHUTDOWN)  # a command of the first one may still be in progress
    ((waited, _),) = one.fence.waiting
    assert waited == [again.handle, one.io.handle]
    one.bench.core.closed(one.admin)
    for queue in (one.io, again):
        assert isinstance(queue.handle, FakeHandle)
        assert queue.handle.calls[-1] == ("disconnect",)
        assert one.bench.core.closed(queue) == []
