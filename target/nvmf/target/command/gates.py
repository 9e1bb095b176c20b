# SPDX-License-Identifier: BSD-3-Clause
"""What the I/O commands of one controller end with instead of running, and who wants that.

Several parts of the target have a say about the same namespace of a controller (its ANA state, a
reservation, its being masked); the engine has one gate for it.  Each part says what it wants for
itself, here it is put together: where two refuse a group of commands the first reason counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from nvmf.spec.status import DNR, Status
from nvmf.target.command.engine import EngineGates, QueueHandle


class GateReason(IntEnum):
    """Why commands are refused: the first says so."""

    MASKED = 0
    """The host may not see the namespace."""
    ANA = 1
    RESERVATION = 2


@dataclass(frozen=True, slots=True)
class Gate:
    """A status (with DNR where it applies) for each group of commands; 0: they run."""

    read: int = 0
    """Read, Compare, Verify."""
    write: int = 0
    """Write, Write Zeroes, Write Uncorrectable, Dataset Management."""
    flush: int = 0


OPEN = Gate()
UNKNOWN = Gate(*[Status.NAMESPACE_NOT_READY | DNR] * 3)
"""What holds for the namespace is not known, because its file is damaged: nothing runs."""


class ControllerGates:
    """The gates of one controller.

    make is called when the first is closed: a controller none of whose namespaces was ever gated
    has none in the engine.
    """

    def __init__(self, make: Callable[[], EngineGates]) -> None:
        self._make = make
        self._engine: EngineGates | None = None
        self._wanted: dict[int, dict[GateReason, Gate]] = {}
        self._queues: list[QueueHandle] = []

    def set(self, nsid: int, reason: GateReason, gate: Gate) -> None:
        """Refuse commands on a namespace for this reason, in place of what it wanted before."""
        wanted = self._wanted.setdefault(nsid, {})
        before = _combined(wanted)
        if gate == OPEN:
            wanted.pop(reason, None)
        else:
            wanted[reason] = gate
        after = _combined(wanted)
        if not wanted:
            del self._wanted[nsid]
        if after != before:
            self._apply(nsid, after)

    def get(self, nsid: int) -> Gate:
        """What the namespace's commands meet."""
        return _combined(self._wanted.get(nsid, {}))

    def add(self, queue: QueueHandle) -> None:
        """Apply the gates to an I/O queue of the controller, before its first command."""
        self._queues.append(queue)
        if self._engine is not None:
            queue.gate(self._engine)

    def remove(self, queue: QueueHandle) -> None:
        """Forget a queue that was disconnected."""
        self._queues = [one for one in self._queues if one is not queue]

    def close(self) -> None:
        """The controller has gone; commands that still run keep the gates they have."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None
        self._make = NoGates

    def _apply(self, nsid: int, gate: Gate) -> None:
        if self._engine is None:
            self._engine = self._make()
            for queue in self._queues:
                queue.gate(self._engine)
        self._engine.set(nsid, read=gate.read, write=gate.write, flush=gate.flush)


def _combined(wanted: dict[GateReason, Gate]) -> Gate:
    gates = [wanted[reason] for reason in sorted(wanted)]
    return Gate(
        next((gate.read for gate in gates if gate.read), 0),
        next((gate.write for gate in gates if gate.write), 0),
        next((gate.flush for gate in gates if gate.flush), 0),
    )


class NoGates:
    """Of a controller that has gone, or has no engine."""

    def set(self, nsid: int, *, read: int, write: int, flush: int) -> None: ...

    def close(self) -> None: ...
