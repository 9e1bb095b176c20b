# SPDX-License-Identifier: BSD-3-Clause
"""The definition of a metric, and its values in a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nvmf.spec.status import Named
from nvmf.target.io.memorytally import MemorySample
from nvmf.target.metrics.sample import HostSample, ReactorSample, Sample

Labels = dict[str, str]
Point = tuple[Labels, float]


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that are constant while the target runs, and values that are not counters."""

    version: str
    pool_bytes: int
    """Memory of the transfer buffers of all reactors."""
    resources: Mapping[str, int]
    """nvmf.engine.resources()."""


@dataclass(frozen=True, slots=True)
class Source:
    """The data of a scrape; constant."""

    sample: Sample
    facts: Facts


@dataclass(frozen=True, slots=True)
class Family:
    """A metric."""

    name: str
    kind: str
    """counter or gauge."""
    help: str
    points: Callable[[Source], Iterable[Point]]


def one(value: Callable[[Source], float]) -> Points:
    """Define a metric without labels."""
    return lambda source: [({}, value(source))]


def namespaces(*parts: tuple[Labels, str]) -> Points:
    """Define one or several counters of each namespace; a label distinguishes these."""

    def points(source: Source) -> Iterator[Point]:
        for one in source.sample.namespaces:
            for label, key in parts:
                if key in one.stats:
                    labels = {"subsystem": one.nqn, "nsid": str(one.nsid), **label}
                    yield labels, one.stats[key]

    return points


Points: TypeAlias = "Callable[[Source], Iterable[Point]]"
"""Reads the values of a metric from a sample."""


def reactors(
    *parts: tuple[Labels, Callable[[ReactorSample], float]],
) -> Points:
    def points(source: Source) -> Iterator[Point]:
        for index, one in enumerate(source.sample.reactors):
            for label, value in parts:
                yield {"reactor": str(index), **label}, value(one)

    return points


def hosts(
    *parts: tuple[Labels, Callable[[HostSample], float]],
) -> Points:
    def points(source: Source) -> Iterator[Point]:
        for name, one in source.sample.hosts.items():
            for label, value in parts:
                yield {"host": name, **label}, value(one)

    return points


def memory(*parts: tuple[Labels, Callable[[MemorySample], float | None]]) -> Points:
    """Define one or several values of each namespace used as memory; None: there is none."""

    def points(source: Source) -> Iterator[Point]:
        for one in source.sample.memory:
            for label, get in parts:
                if (value := get(one)) is not None:
                    yield {"subsystem": one.nqn, "nsid": str(one.nsid), **label}, value

    return points


def total(name: str) -> Callable[[ReactorSample | HostSample], float]:
    return lambda one: one.totals.get(name, 0)


def by(label: str, counts: Callable[[Source], Mapping[str, float]]) -> Points:
    return lambda source: [({label: name}, count) for name, count in counts(source).items()]


def by_status(known: Iterable[Named], counts: Callable[[Source], Mapping[str, float]]) -> Points:
    """Define a counter by the name of a status; the known ones are 0 until they occur.

    A rate or an increase needs the value before the first event.
    """
    zeros: dict[str, float] = dict.fromkeys((status.title for status in known), 0)
    return by("status", lambda source: {**zeros, **counts(source)})


READ, WRITE = {"op": "read"}, {"op": "write"}
