# SPDX-License-Identifier: BSD-3-Clause
"""Gates of a controller: several reasons, one gate in the engine."""

from __future__ import annotations

from typing import Any

from nvmf.spec.status import DNR, Status
from nvmf.target.command.gates import OPEN, ControllerGates, Gate, GateReason
from nvmf.target.model.queue import Queue
from support.faketarget import Bench, FakeHandle


class FakeGates:
    """nvmf.engine.Gates that records its values."""

    def __init__(self) -> None:
        self.now: dict[int, tuple[int, int, int]] = {}
        self.calls = 0
        self.closed = False

    def set(self, nsid: int, *, read: int, write: int, flush: int) -> None:
        self.now[nsid] = (read, write, flush)
        self.calls += 1

    def close(self) -> None:
        self.closed = True


INACCESSIBLE = Gate(*[Status.ANA_INACCESSIBLE] * 3)
CONFLICT = Gate(0, Status.RESERVATION_CONFLICT, Status.RESERVATION_CONFLICT)
HIDDEN = Gate(*[Status.INVALID_NAMESPACE_OR_FORMAT | DNR] * 3)


def test_first_reason_counts() -> None:
    made = FakeGates()
    gates = ControllerGates(lambda: made)
    gates.set(1, GateReason.RESERVATION, OPEN)
    assert made.calls == 0
    gates.set(1, GateReason.RESERVATION, CONFLICT)
    assert made.now[1] == (0, 0x83, 0x83)
    gates.set(1, GateReason.ANA, INACCESSIBLE)
    assert made.now[1] == (0x302, 0x302, 0x302)
    gates.set(1, GateReason.RESERVATION, Gate(write=Status.RESERVATION_CONFLICT))
    assert made.calls == 2
    gates.set(1, GateReason.ANA, Gate(read=Status.ANA_TRANSITION))
    assert made.now[1] == (0x303, 0x83, 0)
    assert gates.get(1) == Gate(Status.ANA_TRANSITION, Status.RESERVATION_CONFLICT)
    gates.set(1, GateReason.ANA, OPEN)
    gates.set(1, GateReason.RESERVATION, OPEN)
    assert made.now[1] == (0, 0, 0)
    assert gates.get(1) == OPEN


def test_queues_get_them_when_there_are_any() -> None:
    made = FakeGates()
    gates = ControllerGates(lambda: made)
    first, second, gone = FakeHandle(), FakeHandle(), FakeHandle()
    gates.add(first)
    gates.add(gone)
    gates.remove(gone)
    assert first.calls == []
    gates.set(2, GateReason.MASKED, HIDDEN)
    assert made.now == {2: (0x400B, 0x400B, 0x400B)}
    gates.add(second)
    assert first.calls == second.calls == [("gate", made)]
    assert gone.calls == []
    gates.close()
    assert made.closed
    gates.set(2, GateReason.MASKED, OPEN)
    assert made.calls == 1


def test_controller_has_them_and_takes_them_along() -> None:
    bench = Bench()
    made = FakeGates()
    bench.subsystem.make_gates = lambda: made
    bench.add_namespace()
    admin = bench.admin()
    io = bench.io(admin)
    controller = admin.controller
    assert controller is not None
    controller.gates.set(1, GateReason.ANA, INACCESSIBLE)
    assert ("gate", made) in handle_calls(io)
    called: list[str] = []
    bench.subsystem.when_ended([controller], 1, lambda: called.append("at once"))
    assert called == ["at once"]
    asked: list[Any] = []

    def fence(qpairs: list[Any], nsid: int, then: Any, /, *, abort: int = 0) -> None:
        asked.append((qpairs, nsid, then, abort))

    bench.subsystem.fence = fence
    bench.subsystem.when_ended([controller], 1, lambda: called.append("after all"))
    bench.subsystem.when_ended(
        [controller], 1, lambda: called.append("after aborts"), Status.ABORTED_PREEMPT
    )
    assert [(qpairs, nsid, abort) for qpairs, nsid, _, abort in asked] == [
        ([io.handle], 1, 0),
        ([io.handle], 1, 0x01B),
    ]
    assert called == ["at once"]
    asked[1][2]()
    asked[0][2]()
    assert called == ["at once", "after aborts", "after all"]
    bench.core.closed(admin)
    assert made.closed


def handle_calls(queue: Queue) -> list[tuple[Any, ...]]:
    handle = queue.handle
    assert isinstance(handle, FakeHandle)
    return handle.calls
