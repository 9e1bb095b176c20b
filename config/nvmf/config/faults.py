# SPDX-License-Identifier: BSD-3-Clause
"""Faults on purpose: which commands of which hosts they concern, and what happens to those."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from pydantic import Field, StrictBool, StrictInt, field_validator, model_validator

from nvmf.config.base import FaultError, Model
from nvmf.config.units import Nqn, Size
from nvmf.spec.status import NvmStatus, Status, status_called

FaultKind: TypeAlias = Literal["delay", "error", "full", "torn", "hang", "drop", "cut", "lost"]
FaultCommand: TypeAlias = Literal[
    "read", "write", "flush", "compare", "verify", "write-zeroes", "dsm", "copy"
]
Distribution: TypeAlias = Literal["fixed", "uniform", "normal", "exponential"]

MAX_DELAY_US = 3_600_000_000
_SPREADS = ("uniform", "normal")
_DELAYED = ("delay", "error", "full", "torn")
_ENDING: dict[FaultKind, Status] = {
    "error": Status.INTERNAL_ERROR,
    "full": Status.CAPACITY_EXCEEDED,
    "torn": Status.WRITE_FAULT,
}
"""Kinds whose commands end with a status, and the default."""
_WRITES: dict[FaultKind, tuple[FaultCommand, ...]] = {
    "full": ("write", "write-zeroes"),
    "torn": ("write",),
}


class FaultConfig(Model):
    """A fault on purpose; omitted conditions do not restrict it."""

    kind: FaultKind
    """delay: commands start later.  error: they end with a status.  full: writes end with Capacity
    Exceeded, as if the store had no space left.  torn: of writes of several blocks only the first
    ones are written, then they end with a status.  hang: they start when the fault ends.  drop:
    they never start and get no response.  cut: they end their connection.  lost: connections end,
    and new ones are refused, as if the path were lost."""
    subsystem: Nqn | None = None
    """NQN of the subsystem."""
    nsid: StrictInt | None = Field(None, ge=1, le=0xFFFFFFFE)
    """The namespace."""
    host: Nqn | None = None
    """NQN of the host."""
    traddr: str | None = None
    """Address of the target that the host is connected to: a path."""
    trsvcid: StrictInt | None = Field(None, ge=1, le=65535)
    """Port number of the target that the host is connected to."""
    queue: StrictInt | None = Field(None, ge=0, le=65535)
    """Number of the queue, 0 for the admin queue; default: all I/O queues."""
    admin: StrictBool = False
    """Also commands of the admin queue, such as Keep Alive, but not Asynchronous Event Request."""
    commands: tuple[FaultCommand, ...] | None = None
    """Commands of I/O queues; default: all except Fabrics commands."""
    first_block: StrictInt | None = Field(None, ge=0, lt=1 << 63)
    """First logical block of a range; commands without a range do not match then."""
    blocks: StrictInt | None = Field(None, ge=1, lt=1 << 63)
    """Number of blocks of the range; default: 1."""
    rate: float = Field(1.0, gt=0, le=1)
    """Probability that a command is affected."""
    after: StrictInt = Field(0, ge=0, lt=1 << 63)
    """Number of matching commands that pass first."""
    count: StrictInt | None = Field(None, ge=1, lt=1 << 63)
    """Number of affected commands after which the fault ends."""
    seconds: float | None = Field(None, gt=0, le=30 * 86400)
    """Seconds after which the fault ends."""
    seed: StrictInt = Field(0, ge=0, lt=1 << 63)
    """With the number of a matching command, determines whether and how it is affected."""
    status: str | None = None
    """error and torn: the NVMe status, by the specification's name or number; default: Internal
    Error, for torn Write Fault."""
    dnr: StrictBool = False
    """error, full and torn: set Do Not Retry."""
    crash: StrictBool = False
    """torn: the connection ends instead of a response, as if the target had lost its power."""
    delay_us: StrictInt = Field(0, ge=0, le=MAX_DELAY_US)
    """delay, error, full and torn: microseconds; the mean, if a distribution other than fixed is
    set."""
    distribution: Distribution = "fixed"
    """Distribution of the delay."""
    spread_us: StrictInt = Field(0, ge=0, le=MAX_DELAY_US)
    """uniform: half the width; normal: the standard deviation."""
    bandwidth: Size | None = Field(None, ge=1)
    """delay: bytes per second of all matching commands together; further ones are delayed."""

    @field_validator("status")
    @classmethod
    def _status(cls, value: str | None) -> str | None:
        return None if value is None else status_called(value).title

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.kind not in _DELAYED and (self.delay_us or self.spread_us):
            raise FaultError(f"a fault of the kind {self.kind} has no delay", "delay_us")
        if self.kind not in ("error", "torn") and self.status is not None:
            raise FaultError(f"a fault of the kind {self.kind} has no status", "status")
        if self.kind not in _ENDING and self.dnr:
            raise FaultError(f"a fault of the kind {self.kind} has no status", "dnr")
        self._writes()
        if self.kind != "delay" and self.bandwidth is not None:
            raise FaultError(f"a fault of the kind {self.kind} has no bandwidth", "bandwidth")
        if self.kind == "delay" and not self.delay_us and self.bandwidth is None:
            raise FaultError("a delay needs delay_us or bandwidth", "delay_us")
        if self.spread_us and self.distribution not in _SPREADS:
            raise FaultError(f"the distribution {self.distribution} has no spread", "spread_us")
        if self.distribution in _SPREADS and not self.spread_us:
            raise FaultError(f"the distribution {self.distribution} needs spread_us", "spread_us")
        if self.blocks is not None and self.first_block is None:
            raise FaultError("blocks needs first_block", "blocks")
        if self.kind == "lost":
            self._lost()
        return self

    def _writes(self) -> None:
        """Check what concerns full and torn, whose commands are writes."""
        if self.kind != "torn" and self.crash:
            raise FaultError(f"a fault of the kind {self.kind} has no crash", "crash")
        if self.crash and (self.status is not None or self.dnr):
            raise FaultError("after a crash there is no status", "crash")
        if self.kind in _WRITES and self.commands is not None:
            wrong = sorted(set(self.commands) - set(_WRITES[self.kind]))
            if wrong:
                raise FaultError(f"a fault of the kind {self.kind} has no {wrong[0]}", "commands")
        if self.kind in _WRITES and (self.admin or self.queue == 0):
            raise FaultError(f"a fault of the kind {self.kind} concerns I/O queues", "queue")

    @property
    def affected(self) -> tuple[FaultCommand, ...] | None:
        """The commands of I/O queues; None for all."""
        return self.commands or _WRITES.get(self.kind)

    def _lost(self) -> None:
        fixed = {"kind", "subsystem", "host", "traddr", "trsvcid", "seconds"}
        for key in sorted((self.model_fields_set & set(FaultConfig.model_fields)) - fixed):
            if getattr(self, key) != FaultConfig.model_fields[key].default:
                raise FaultError(f"a lost path has no {key}: it concerns connections", key)

    @property
    def code(self) -> int:
        """The status that affected commands end with; 0: they run."""
        if self.kind not in _ENDING or self.crash:
            return 0
        found: NvmStatus | Status = (
            _ENDING[self.kind] if self.status is None else status_called(self.status)
        )
        return found.value

    def summary(self) -> str:
        """Return the fault as text for people."""
        default = _ENDING.get(self.kind, Status.INTERNAL_ERROR)
        status = self.status or default.title
        after = "a crash follows" if self.crash else f"then {status}"
        what = {
            "delay": "commands are delayed",
            "error": f"commands fail with {status}",
            "full": f"writes fail with {status}",
            "torn": f"only the first blocks of writes are written, {after}",
            "hang": "commands hang",
            "drop": "commands get no response",
            "cut": "commands end their connection",
            "lost": "the path is lost",
        }[self.kind]
        return ", ".join([what, *self._amounts(), *self._conditions()])

    def _amounts(self) -> list[str]:
        found: list[str] = []
        if self.delay_us:
            around = f" +- {self.spread_us} us" if self.spread_us else ""
            kind = "" if self.distribution == "fixed" else f" ({self.distribution})"
            found.append(f"by {self.delay_us} us{around}{kind}")
        if self.bandwidth is not None:
            found.append(f"to {self.bandwidth} bytes/s")
        return found

    def _conditions(self) -> list[str]:
        names = ("subsystem", "nsid", "host", "traddr", "trsvcid", "queue", "first_block", "blocks")
        found = [f"{name} {value}" for name in names if (value := getattr(self, name)) is not None]
        if self.commands is not None:
            found.append("only " + " and ".join(self.commands))
        if self.admin:
            found.append("also admin commands")
        if self.rate != 1:
            found.append(f"rate {self.rate:g}")
        if self.after:
            found.append(f"after {self.after}")
        return found
