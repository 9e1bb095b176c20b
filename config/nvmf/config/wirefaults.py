# SPDX-License-Identifier: BSD-3-Clause
"""Faults on the wire: which frames of which hosts they concern, and what happens to those."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, StrictInt, model_validator

from nvmf.config.base import FaultError, Model
from nvmf.config.faults import MAX_DELAY_US, Distribution
from nvmf.config.units import Nqn, Size

WireKind: TypeAlias = Literal[
    "delay", "drop", "duplicate", "reorder", "corrupt", "cut", "half-open", "stall"
]
PortWireKind: TypeAlias = Literal[
    "wire-delay",
    "wire-drop",
    "wire-duplicate",
    "wire-reorder",
    "wire-corrupt",
    "wire-cut",
    "wire-half-open",
    "wire-stall",
]
Way: TypeAlias = Literal["to-target", "to-host"]

_WORDS: dict[str, str] = {
    "delay": "frames are delayed",
    "drop": "frames are dropped",
    "duplicate": "frames are duplicated",
    "reorder": "frames are swapped with the next one",
    "corrupt": "a bit of frames is inverted",
    "cut": "connections are reset",
    "half-open": "connections are half-open",
    "stall": "frames wait for the end of the fault",
}
WHOLE = ("half-open", "stall")
"""Kinds that concern all frames while they are active."""
PREFIX = "wire-"
Duration = Annotated[float, Field(ge=0, le=30 * 86400, allow_inf_nan=False)]


class WireRule(Model, ABC):
    """Conditions and effects of a fault between hosts and a target, which a relay makes.

    A frame is an FPDU of iWARP or a packet of RoCEv2.  Omitted conditions do not restrict it.
    """

    direction: Literal["both", "to-target", "to-host"] = "both"
    """Direction of the frames."""
    host: Nqn | None = None
    """NQN of the host; the frames before the end of its Connect do not match."""
    subsystem: Nqn | None = None
    """NQN of the subsystem; the same."""
    queue: StrictInt | None = Field(None, ge=0, le=65535)
    """Number of the queue, 0 for the admin queue; default: all."""
    nsid: StrictInt | None = Field(None, ge=1, le=0xFFFFFFFE)
    """Only frames that carry a command of this namespace, its data or its response."""
    rate: float = Field(1.0, gt=0, le=1)
    """Probability that a frame is affected."""
    count: StrictInt | None = Field(None, ge=1, lt=1 << 63)
    """Number of affected frames after which the fault ends; in a lab, in each measurement."""
    seed: StrictInt = Field(0, ge=0, lt=1 << 63)
    """The same seed and the same order of frames give the same faults."""
    delay_us: StrictInt = Field(0, ge=0, le=MAX_DELAY_US)
    """delay: microseconds; the mean, if a distribution other than fixed is set."""
    distribution: Distribution = "fixed"
    """Distribution of the delay.  Frames of a direction keep their order."""
    spread_us: StrictInt = Field(0, ge=0, le=MAX_DELAY_US)
    """uniform: half the width; normal: the standard deviation."""
    bandwidth: Size | None = Field(None, ge=1)
    """delay: bytes per second of each direction of all connections together."""
    seconds: Duration | None = Field(None, gt=0)
    """Seconds after which the fault ends."""

    @property
    @abstractmethod
    def effect(self) -> str:
        """The kind, a WireKind."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        kind = self.effect
        if kind != "delay":
            for key in ("delay_us", "spread_us", "bandwidth"):
                if getattr(self, key):
                    raise FaultError(f"a fault of the kind {kind} has no delay", key)
        elif not self.delay_us and self.bandwidth is None:
            raise FaultError("a delay needs delay_us or bandwidth", "delay_us")
        if (self.distribution in ("uniform", "normal")) != bool(self.spread_us):
            needs = "needs" if not self.spread_us else "has no"
            raise FaultError(f"the distribution {self.distribution} {needs} spread_us", "spread_us")
        if kind in WHOLE:
            for key in ("rate", "count", "nsid"):
                if getattr(self, key) != WireRule.model_fields[key].default:
                    raise FaultError(f"{kind} concerns connections: it has no {key}", key)
        if kind == "half-open" and self.direction != "both":
            raise FaultError("half-open concerns both directions", "direction")
        return self

    def summary(self) -> str:
        """Return the fault as text for people."""
        found = [f"on the wire: {_WORDS[self.effect]}"]
        if self.delay_us:
            around = f" +- {self.spread_us} us" if self.spread_us else ""
            kind = "" if self.distribution == "fixed" else f" ({self.distribution})"
            found.append(f"by {self.delay_us} us{around}{kind}")
        if self.bandwidth is not None:
            found.append(f"to {self.bandwidth} bytes/s")
        if self.direction != "both":
            found.append(self.direction.replace("-", " the "))
        names = ("host", "subsystem", "queue", "nsid")
        found += [f"{name} {value}" for name in names if (value := getattr(self, name)) is not None]
        if self.rate != 1:
            found.append(f"rate {self.rate:g}")
        return ", ".join(found)


class PortWireFault(WireRule):
    """A fault on the wire of a target's ports with wire_faults = true."""

    kind: PortWireKind
    """wire-delay: frames arrive later.  wire-drop, wire-duplicate, wire-reorder, wire-corrupt: of
    single frames.  wire-cut: the connection is reset.  wire-half-open: the target's end of a
    connection is closed, and the host is not told.  wire-stall: frames wait until the fault
    ends."""
    traddr: str | None = None
    """Address of the port."""
    trsvcid: StrictInt | None = Field(None, ge=1, le=65535)
    """Number of the port."""

    @property
    def effect(self) -> str:
        """The kind, a WireKind."""
        return self.kind.removeprefix(PREFIX)

    def summary(self) -> str:
        """Return the fault as text for people."""
        names = ("traddr", "trsvcid")
        found = [f"{name} {value}" for name in names if (value := getattr(self, name)) is not None]
        return ", ".join([super().summary(), *found])
