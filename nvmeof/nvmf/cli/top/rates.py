# SPDX-License-Identifier: BSD-3-Clause
"""Rates, computed from two readings of a target's counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

Counters = Mapping[str, Any]
"""The result of target_get_counters, or a part of it."""


@dataclass(slots=True)
class Rate:
    """Rates of a namespace, host, queue or reactor; per second, unless noted otherwise."""

    names: dict[str, Any]
    """Names that identify it."""
    read_iops: float | None = None
    write_iops: float | None = None
    """For namespaces only."""
    iops: float = 0.0
    """Commands, including those of the admin queue, if any."""
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    read_us: float | None = None
    write_us: float | None = None
    p99_us: float | None = None
    """For namespaces: average latency of reads and of writes, and the upper bound of the latency of
    99 % of both.  None if there were none."""
    errors: float = 0.0
    outstanding: int | None = None
    """Outstanding commands now; None for namespaces."""

    @property
    def bytes(self) -> float:
        """Bytes read and written."""
        return self.read_bytes + self.write_bytes

    def record(self) -> dict[str, Any]:
        """Return the rates for JSON."""
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
    """All rates, unsorted."""

    seconds: float
    """Time between the two readings."""
    reactors: list[Rate] = field(default_factory=list)
    namespaces: list[Rate] = field(default_factory=list)
    hosts: list[Rate] = field(default_factory=list)
    queues: list[Rate] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """Return the rates for JSON."""
        return {
            "seconds": round(self.seconds, 6),
            **{
                kind: [rate.record() for rate in getattr(self, kind)]
                for kind in ("reactors", "namespaces", "hosts", "queues")
            },
        }


SORTS = ("iops", "bytes", "outstanding", "errors")


def ranked(rates: Iterable[Rate], by: str) -> list[Rate]:
    """Sort the busiest first; equal ones keep their order."""
    return sorted(rates, key=lambda rate: getattr(rate, by) or 0, reverse=True)


def rates(before: Counters, after: Counters) -> Rates:
    """Return the rates between two readings; counters of new objects start at zero."""
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
            # A lower count means a new object with the same name, or a restarted target.
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
    """Add latencies from histograms, whose buckets end at powers of two in microseconds."""
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
    """Return the rates of hosts, as sums of their queues."""
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
