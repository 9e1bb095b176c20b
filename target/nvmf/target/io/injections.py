# SPDX-License-Identifier: BSD-3-Clause
"""Faults on purpose: which are active, which queue pairs they concern, and when they end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from nvmf.config.faults import MAX_DELAY_US, FaultCommand, FaultConfig
from nvmf.config.wirefaults import PREFIX, PortWireFault
from nvmf.spec.opcodes import IoOpcode
from nvmf.target.command.engine import Address
from nvmf.target.io.connection import Connection
from nvmf.target.io.engine import Target
from nvmf.target.io.ports import Ports
from nvmf.target.io.stores import ServerError
from nvmf.target.model.queue import Queue

if TYPE_CHECKING:
    from nvmf.relay.fault import ActiveFault
    from nvmf.relay.owner import Owner

log = logging.getLogger("nvmf.target")

DELAYS = 256
"""Number of equally likely delays by which the engine represents a distribution."""
MAX_LOST = 32
"""Maximum number of lost paths."""
REMEMBERED = 16
"""Number of faults that are shown after their end."""
_OPCODES: dict[FaultCommand, IoOpcode] = {
    "read": IoOpcode.READ,
    "write": IoOpcode.WRITE,
    "flush": IoOpcode.FLUSH,
    "compare": IoOpcode.COMPARE,
    "verify": IoOpcode.VERIFY,
    "write-zeroes": IoOpcode.WRITE_ZEROES,
    "dsm": IoOpcode.DATASET_MANAGEMENT,
    "copy": IoOpcode.COPY,
}


def delays(config: FaultConfig) -> list[int]:
    """Return the quantiles of a fault's delay: DELAYS equally likely values in microseconds."""
    parts = [(index + 0.5) / DELAYS for index in range(DELAYS)]
    mean, spread = config.delay_us, config.spread_us
    match config.distribution:
        case "fixed":
            found: list[float] = [mean] * DELAYS
        case "uniform":
            found = [mean + spread * (2 * part - 1) for part in parts]
        case "normal":
            found = [NormalDist(mean, spread).inv_cdf(part) for part in parts]
        case "exponential":
            found = [-mean * math.log1p(-part) for part in parts]
    return [min(max(round(value), 0), MAX_DELAY_US) for value in found]


@dataclass(eq=False)
class Injection:
    """A fault on purpose, while it is active and afterwards."""

    number: int
    config: FaultConfig | PortWireFault
    began: float
    """Time of the loop."""
    slot: int | None = None
    """Slot of the engine; None: a lost path, which Python executes, a fault on the wire, or a fault
    that has ended."""
    wire: ActiveFault | None = None
    """The fault of the relays; None: a different fault."""
    timer: asyncio.TimerHandle | None = None
    matched: int = 0
    """Matching commands, as of its end; of a lost path: connections ended or refused."""
    hits: int = 0
    """The same for affected commands."""
    ended: float | None = None
    """Time of the loop."""
    end: str = ""
    """Why it ended."""

    def takes(self, queue: Queue) -> bool:
        """Whether it concerns commands of a queue after its Connect."""
        config, controller = self.config, queue.controller
        if isinstance(config, PortWireFault) or controller is None:
            return False
        if not self.takes_address(queue.local):
            return False
        if config.queue is not None:
            wanted = queue.qid == config.queue or (config.admin and not queue.qid)
        else:
            wanted = queue.qid > 0 or config.admin or config.kind == "lost"
        return (
            wanted
            and config.subsystem in (None, controller.subsystem.nqn)
            and config.host in (None, controller.hostnqn)
        )

    def takes_address(self, local: Address) -> bool:
        """Whether it concerns connections to an address of the target."""
        return self.config.traddr in (None, local[0]) and self.config.trsvcid in (None, local[1])

    @property
    def lost(self) -> bool:
        """Whether it is an active lost path."""
        return self.config.kind == "lost" and self.ended is None


class Injections:
    """The faults of a target.  They end with it: none is saved."""

    def __init__(self, target: Target, connections: Callable[[], Iterable[Connection]]) -> None:
        self.ports: Ports | None = None
        """The ports, some of which may have relays."""
        self._target = target
        self._connections = connections
        self._active: dict[int, Injection] = {}
        self._ended: deque[Injection] = deque(maxlen=REMEMBERED)
        self._number = 0
        self._hits: dict[str, int] = {}
        """Hits of faults that have ended, by kind."""

    def listed(self) -> list[Injection]:
        """Return the last faults that have ended, then the active ones, with their counts."""
        for one in self._active.values():
            self._count(one)
        return [*self._ended, *self._active.values()]

    def active(self) -> list[Injection]:
        """Return the active faults, with their counts."""
        return [one for one in self.listed() if one.ended is None]

    def hits(self) -> dict[str, int]:
        """Return the affected commands since the target started, by the kind of the fault."""
        found = dict(self._hits)
        for one in self.active():
            found[one.config.kind] = found.get(one.config.kind, 0) + one.hits
        return found

    def begin(self, config: FaultConfig | PortWireFault) -> Injection:
        """Start a fault; raise ServerError if there are too many, or it cannot be there."""
        loop = asyncio.get_running_loop()
        one = Injection(self._number + 1, config, loop.time())
        if isinstance(config, PortWireFault):
            one.wire = self._relay(one, config)
        elif config.kind != "lost":
            one.slot = self._inject(one, config)
        elif sum(other.lost for other in self._active.values()) == MAX_LOST:
            raise ServerError(f"there can be {MAX_LOST} lost paths at a time: remove one")
        self._number = one.number
        self._active[one.number] = one
        self._apply_all()
        if config.seconds is not None:
            one.timer = loop.call_later(config.seconds, self._end, one, "its time is over")
        # last: a log on a slow disk may take longer than the fault
        log.warning("fault %d begins, on purpose: %s", one.number, config.summary())
        return one

    def _relay(self, one: Injection, config: PortWireFault) -> ActiveFault:
        relays = self.ports.relays if self.ports is not None else None
        opened = self.ports.open_ports if self.ports is not None else []
        behind = [
            port for port in opened if port.relayed and one.takes_address(port.listening.address)
        ]
        if relays is None or not behind:
            raise ServerError(
                f"a fault of the kind {config.kind} needs a port with wire_faults = true (target "
                "port add --wire-faults)"
            )
        if config.effect == "cut" and any(port.config.device == "roce" for port in behind):
            raise ServerError(f"RoCEv2 has no reset: use {PREFIX}half-open")
        loop = asyncio.get_running_loop()

        def takes(owner: Owner) -> bool:
            return owner.port is not None and one.takes_address(owner.port)

        def spent() -> None:
            with contextlib.suppress(RuntimeError):  # the target has ended
                loop.call_soon_threadsafe(self.spent, one.number)

        return relays.begin(config, takes, spent)

    def _inject(self, one: Injection, config: FaultConfig) -> int:
        affected = config.affected
        opcodes = set(range(256)) if affected is None else set(_codes(affected))
        try:
            return self._target.inject(
                "delay" if config.kind in ("error", "full") else config.kind,
                opcodes=sorted(opcodes),
                number=one.number,
                status=config.code | (0x4000 if config.dnr else 0),
                nsid=config.nsid or 0,
                blocks=_blocks(config),
                rate=config.rate,
                after=config.after,
                count=config.count or 0,
                seed=config.seed,
                bandwidth=config.bandwidth or 0,
                delays=delays(config) if config.delay_us else (),
            )
        except OSError as error:
            raise ServerError(f"{error}: remove one (target fault remove)") from None

    def remove(self, number: int) -> Injection:
        """End a fault; raise ServerError if there is none with this number."""
        one = self._active.get(number)
        if one is None:
            raise ServerError(f"no active fault has the number {number}")
        self._end(one, "removed")
        return one

    def spent(self, number: int) -> None:
        """End a fault that has affected the last command of its count."""
        one = self._active.get(number)
        if one is not None:
            self._end(one, "its count is reached")

    def stop(self) -> None:
        """End all faults."""
        for one in list(self._active.values()):
            self._end(one, "the target stops")

    def _end(self, one: Injection, why: str) -> None:
        self._count(one)
        if one.timer is not None:
            one.timer.cancel()
        del self._active[one.number]
        slot, one.slot = one.slot, None
        one.ended, one.end = asyncio.get_running_loop().time(), why
        self._ended.append(one)
        self._hits[one.config.kind] = self._hits.get(one.config.kind, 0) + one.hits
        if slot is not None:
            self._apply_all()
            self._target.end_injection(slot)
        if one.wire is not None and self.ports is not None and self.ports.relays is not None:
            self.ports.relays.end(one.wire)
        log.warning(
            "fault %d ends: %s; it affected %d of %d", one.number, why, one.hits, one.matched
        )

    def _count(self, one: Injection) -> None:
        if one.wire is not None:
            one.matched, one.hits = one.wire.matched, one.wire.hits
        elif one.slot is not None and isinstance(one.config, FaultConfig):
            one.matched, hits = self._target.injected(one.slot)
            one.hits = min(hits, one.config.count or hits)

    # ---- connections ----

    def _apply_all(self) -> None:
        for connection in self._connections():
            self.joined(connection)

    def joined(self, connection: Connection) -> None:
        """Set the faults of a connection, at its Connect or after a change."""
        taken = [one for one in self._active.values() if one.takes(connection.queue)]
        lost = [one for one in taken if one.lost]
        slots = sum(1 << one.slot for one in taken if one.slot is not None)
        if connection.closed:
            return
        if slots != connection.injected:
            connection.qpair.inject(slots)
            connection.injected = slots
        if lost and not connection.cut:
            connection.cut = True
            for one in lost:
                one.hits += 1
                one.matched += 1
            connection.qpair.disconnect()

    def refuses(self, local: Address) -> bool:
        """Whether connections to an address are refused, because its path is lost for all hosts."""
        for one in self._active.values():
            every = one.config.host is None and one.config.subsystem is None
            if one.lost and every and one.takes_address(local):
                one.hits += 1
                one.matched += 1
                return True
        return False


def _codes(commands: Iterable[FaultCommand]) -> Iterable[int]:
    return (int(_OPCODES[command]) for command in commands)


def _blocks(config: FaultConfig) -> tuple[int, int] | None:
    return None if config.first_block is None else (config.first_block, config.blocks or 1)
