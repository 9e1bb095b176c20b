# SPDX-License-Identifier: BSD-3-Clause
"""What two readings of a target's counters say about the time between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

Counters = Mapping[str, Any]
"""What target_get_counters gives, or a part of it."""


@dataclass(slots=True)
class Rate:
    """A namespace, a host, a queue or a reactor; all but the names are per second."""

    names: dict[str, Any]
    """Which one it is."""
    read_iops: float | None = None
    write_iops: float | None = None
    """Of namespaces alone."""
    iops: float = 0.0
    """Commands; those of the admin queue too, where it has one."""
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    read_us: float | None = None
    write_us: float | None = None
    p99_us: float | None = None
    """Of namespaces: how long reads and writes took on average; and how long 99 of 100 did at
    most, of both.  None where there was none."""
    errors: float = 0.0
    outstanding: int | None = None
    """Commands now; namespaces do not know it."""

    @property
    def bytes(self) -> float:
        """Both ways."""
        return self.read_bytes + self.write_bytes

    def record(self) -> dict[str, Any]:
        """For programs."""
        found = dict(self.names)
        if self.outstanding is not None:
            found["outstanding"] = self.outstanding
        for name in ("read_iops", "write_iops", "iops"):
            value = getattr(self, name)
            if value is not None:
                found[name] = round(value, 1)
        for name in ("read_bytes", "write_bytes", "errors"):
            found[f"{name}_per_second"] = round(getattr(self, name), 1)
        for name in ("read_us", "write_us", "p99_us"):
            value = getattr(self, name)
            if value is not None:
                found[name] = round(value, 1)
        return found


@dataclass(frozen=True, slots=True)
class Rates:
    """Everything, unsorted."""

    seconds: float
    """Between the two readings."""
    reactors: list[Rate] = field(default_factory=list)
    namespaces: list[Rate] = field(default_factory=list)
    hosts: list[Rate] = field(default_factory=list)
    queues: list[Rate] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """For programs."""
        return {
            "seconds": round(self.seconds, 6),
            **{
                kind: [rate.record() for rate in getattr(self, kind)]
                for kind in ("reactors", "namespaces", "hosts", "queues")
            },
        }


SORTS = ("iops", "bytes", "outstanding", "errors")


def ranked(rates: Iterable[Rate], by: str) -> list[Rate]:
    """The busiest first; those that are equal as they came."""
    return sorted(rates, key=lambda rate: getattr(rate, by) or 0, reverse=True)


def rates(before: Counters, after: Counters) -> Rates:
    """From one reading to the next.  What was not there before has begun at zero."""
    seconds = after["seconds"] - before["seconds"]
    reactors = _compare(before, after, "reactors", ("reactor",), seconds)
    queues = _compare(before, after, "queues", _QUEUE, seconds)
    for rate in queues:
        place = rate.names.pop("peer_address")
        rate.names["peer"] = _where(place["traddr"], place["trsvcid"])
    return Rates(
        seconds,
        reactors=reactors,
        namespaces=_compare(before, after, "namespaces", ("nqn", "nsid"), seconds),
        hosts=_hosts(queues),
        queues=queues,
    )


_QUEUE = ("hostnqn", "subnqn", "cntlid", "qid", "reactor", "peer_address")


def _compare(
    before: Counters, after: Counters, kind: str, names: tuple[str, ...], seconds: float
) -> list[Rate]:
    known = {_key(one, names): one for one in before[kind]}
    found = []
    for one in after[kind]:
        was = known.get(_key(one, names), {})

        def rate(*counters: str, one: Counters = one, was: Counters = was) -> float:
            grown = sum(one.get(name, 0) - was.get(name, 0) for name in counters)
            # Less than before is another one by the same name, or another target.
            return max(grown, 0) / seconds if seconds > 0 else 0.0

        made = Rate(
            {name: one[name] for name in names},
            read_bytes=rate("read_bytes"),
            write_bytes=rate("write_bytes"),
            errors=rate("errors"),
        )
        if kind == "namespaces":
            made.read_iops, made.write_iops = rate("reads"), rate("writes")
            made.iops = made.read_iops + made.write_iops
            _add_latency(made, was.get("latency"), one.get("latency"))
        else:
            made.iops = rate("commands")
            made.outstanding = one.get("outstanding", 0)
        found.append(made)
    return found


def _add_latency(made: Rate, was: Counters | None, now: Counters | None) -> None:
    """From histograms, whose buckets end at powers of two of a microsecond (1, 2, 4, ...)."""
    if now is None:
        return
    grown: list[int] = []
    for operation in ("read", "write"):
        before = was[operation] if was is not None else [0] * len(now[operation])
        counts = [max(b - a, 0) for a, b in zip(before, now[operation], strict=True)]
        spent = now[f"{operation}_ns"] - (was[f"{operation}_ns"] if was is not None else 0)
        if any(counts):
            setattr(made, f"{operation}_us", max(spent, 0) / sum(counts) / 1000)
        grown = [a + b for a, b in zip(grown, counts, strict=True)] if grown else counts
    if total := sum(grown):
        upto = enumerate(accumulate(grown))
        made.p99_us = float(1 << next(index for index, seen in upto if seen >= 0.99 * total))


def _key(one: Counters, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(one[name]) for name in names)


def _hosts(queues: list[Rate]) -> list[Rate]:
    """The sums of their queues."""
    found: dict[str, Rate] = {}
    for queue in queues:
        nqn = queue.names["hostnqn"]
        host = found.setdefault(nqn, Rate({"hostnqn": nqn, "queues": 0}, outstanding=0))
        host.names["queues"] += 1
        host.iops += queue.iops
        host.read_bytes += queue.read_bytes
        host.write_bytes += queue.write_bytes
        host.errors += queue.errors
        host.outstanding = (host.outstanding or 0) + (queue.outstanding or 0)
    return list(found.values())


def _where(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
