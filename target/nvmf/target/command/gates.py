# SPDX-License-Identifier: BSD-3-Clause
"""Gates: statuses with which I/O commands of a controller fail instead of being executed.

The engine has one gate per namespace of a controller.  Several parts of the target control it: ANA
state, reservations, masking.  Each part sets its own gate, and this module combines them: if more
than one refuses a group of commands, the reason that comes first in GateReason determines the
status.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from nvmf.spec.status import DNR, Status
from nvmf.target.command.engine import EngineGates, QueueHandle


class GateReason(IntEnum):
    """Why commands are refused, in order of precedence."""

    MASKED = 0
    """The host may not see the namespace."""
    ANA = 1
    RESERVATION = 2


@dataclass(frozen=True, slots=True)
class Gate:
    """A status (with DNR if it applies) for each group of commands; 0: they are executed."""

    read: int = 0
    """Read, Compare, Verify."""
    write: int = 0
    """Write, Write Zeroes, Write Uncorrectable, Dataset Management, Copy."""
    flush: int = 0


OPEN = Gate()
UNKNOWN = Gate(*[Status.NAMESPACE_NOT_READY | DNR] * 3)
"""The namespace's state is unknown, because its file is damaged: all commands are refused."""


class ControllerGates:
    """The gates of one controller.

    make is called for the first gate that refuses commands; until then the controller has no gates
    in the engine.
    """

    def __init__(self, make: Callable[[], EngineGates]) -> None:
        self._make = make
        self._engine: EngineGates | None = None
        self._wanted: dict[int, dict[GateReason, Gate]] = {}
        self._queues: list[QueueHandle] = []

    def set(self, nsid: int, reason: GateReason, gate: Gate) -> None:
        """Set the gate of a namespace for this reason, replacing its previous gate."""
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
        """Return the combined gate of a namespace."""
        return _combined(self._wanted.get(nsid, {}))

    def add(self, queue: QueueHandle) -> None:
        """Apply the gates to an I/O queue of the controller, before its first command."""
        self._queues.append(queue)
        if self._engine is not None:
            queue.gate(self._engine)

    def remove(self, queue: QueueHandle) -> None:
        """Remove a disconnected queue."""
        self._queues = [one for one in self._queues if one is not queue]

    def close(self) -> None:
        """Release the engine's gates when the controller ends; running commands keep theirs."""
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
    """Gates for a controller that has ended, or that has no engine."""

    def set(self, nsid: int, *, read: int, write: int, flush: int) -> None: ...

    def close(self) -> None: ...
