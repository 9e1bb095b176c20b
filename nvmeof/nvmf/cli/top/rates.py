# SPDX-License-Identifier: BSD-3-Clause
"""Rates, computed from two readings of a target's counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from nvmf.rpc.results import Counters, Latency, Mirror, NamespaceCounters

Record: TypeAlias = "dict[str, int | float | str]"
"""Names and rates, for JSON."""


@dataclass(slots=True)
class Rate:
    """Rates of a namespace, host, queue or reactor; per second, unless noted otherwise."""

    names: dict[str, int | str]
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

    def record(self) -> Record:
        """Return the rates for JSON."""
        found: Record = {**self.names}
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
    mirrors: list[Mirror] = field(default_factory=list)
    """Namespaces that are mirrors, with the states of their legs."""

    def record(self) -> dict[str, object]:
        """Return the rates for JSON."""
        return {
            "seconds": round(self.seconds, 6),
            **{
                kind: [rate.record() for rate in getattr(self, kind)]
                for kind in ("reactors", "namespaces", "hosts", "queues")
            },
            "mirrors": self.mirrors,
        }


SORTS = ("iops", "bytes", "outstanding", "errors")


def ranked(rates: Iterable[Rate], by: str) -> list[Rate]:
    """Sort the busiest first; equal ones keep their order."""
    return sorted(rates, key=lambda rate: getattr(rate, by) or 0, reverse=True)


def rates(before: Counters, after: Counters, mirrors: Sequence[Mirror] = ()) -> Rates:
    """Return the rates between two readings; counters of new objects start at zero."""
    seconds = after["seconds"] - before["seconds"]
    queues = _compare(before["queues"], after["queues"], _QUEUE, seconds)
    for rate, queue in zip(queues, after["queues"], strict=True):
        place = queue["peer_address"]
        rate.names["peer"] = _where(place["traddr"], place["trsvcid"])
    return Rates(
        seconds,
        reactors=_compare(before["reactors"], after["reactors"], ("reactor",), seconds),
        namespaces=_namespaces(before["namespaces"], after["namespaces"], seconds),
        hosts=_hosts(queues),
        queues=queues,
        mirrors=list(mirrors),
    )


_QUEUE = ("hostnqn", "subnqn", "cntlid", "qid", "reactor")
_PEER = "peer_address"
"""Distinguishes a queue from an earlier one with the same names."""


class _Growth:
    """The growth of the counters of one object, per second."""

    def __init__(
        self, before: Mapping[str, object] | None, after: Mapping[str, object], seconds: float
    ) -> None:
        self._before, self._after, self._seconds = before or {}, after, seconds

    def of(self, counter: str) -> float:
        """Return the rate of a counter."""
        grown = _count(self._after, counter) - _count(self._before, counter)
        # A lower count means a new object with the same name, or a restarted target.
        return max(grown, 0) / self._seconds if self._seconds > 0 else 0.0

    def rate(self, names: Sequence[str]) -> Rate:
        """Return the rates that all objects have."""
        named = {name: self._after[name] for name in names}
        return Rate(
            {name: value for name, value in named.items() if isinstance(value, int | str)},
            read_bytes=self.of("read_bytes"),
            write_bytes=self.of("write_bytes"),
            errors=self.of("errors"),
        )


def _count(counters: Mapping[str, object], name: str) -> int:
    value = counters.get(name, 0)
    return value if isinstance(value, int) else 0


def _compare(
    before: Sequence[Mapping[str, object]],
    after: Sequence[Mapping[str, object]],
    names: tuple[str, ...],
    seconds: float,
) -> list[Rate]:
    """Return the rates of queues or reactors."""
    known = {_key(one, names): one for one in before}
    found = []
    for one in after:
        growth = _Growth(known.get(_key(one, names)), one, seconds)
        made = growth.rate(names)
        made.iops = growth.of("commands")
        made.outstanding = _count(one, "outstanding")
        found.append(made)
    return found


def _namespaces(
    before: Sequence[NamespaceCounters], after: Sequence[NamespaceCounters], seconds: float
) -> list[Rate]:
    known = {(one["nqn"], one["nsid"]): one for one in before}
    found = []
    for one in after:
        was = known.get((one["nqn"], one["nsid"]))
        growth = _Growth(was, one, seconds)
        made = growth.rate(("nqn", "nsid"))
        made.read_iops, made.write_iops = growth.of("reads"), growth.of("writes")
        made.iops = made.read_iops + made.write_iops
        _add_latency(made, was.get("latency") if was is not None else None, one.get("latency"))
        found.append(made)
    return found


def _add_latency(made: Rate, was: Latency | None, now: Latency | None) -> None:
    """Add latencies from histograms, whose buckets end at powers of two in microseconds."""
    if now is None:
        return
    none = [0] * len(now["read"])
    reads, made.read_us = _operation(
        now["read"], now["read_ns"], was["read"] if was else none, was["read_ns"] if was else 0
    )
    writes, made.write_us = _operation(
        now["write"], now["write_ns"], was["write"] if was else none, was["write_ns"] if was else 0
    )
    grown = [a + b for a, b in zip(reads, writes, strict=True)]
    if total := sum(grown):
        upto = enumerate(accumulate(grown))
        made.p99_us = float(1 << next(index for index, seen in upto if seen >= 0.99 * total))


def _operation(
    now: list[int], now_ns: int, was: list[int], was_ns: int
) -> tuple[list[int], float | None]:
    """Return the growth of a histogram, and the average latency in microseconds."""
    counts = [max(b - a, 0) for a, b in zip(was, now, strict=True)]
    return counts, max(now_ns - was_ns, 0) / sum(counts) / 1000 if any(counts) else None


def _key(one: Mapping[str, object], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(one.get(name)) for name in (*names, _PEER))


def _hosts(queues: list[Rate]) -> list[Rate]:
    """Return the rates of hosts, as sums of their queues."""
    found: dict[str, Rate] = {}
    counts: dict[str, int] = {}
    for queue in queues:
        nqn = str(queue.names["hostnqn"])
        host = found.setdefault(nqn, Rate({"hostnqn": nqn, "queues": 0}, outstanding=0))
        counts[nqn] = counts.get(nqn, 0) + 1
        host.names["queues"] = counts[nqn]
        host.iops += queue.iops
        host.read_bytes += queue.read_bytes
        host.write_bytes += queue.write_bytes
        host.errors += queue.errors
        host.outstanding = (host.outstanding or 0) + (queue.outstanding or 0)
    return list(found.values())


def _where(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
