# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of mirrors: each series exists, with 0, from the start of its namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

from nvmf.rpc.mirror import LegWord, Mirror
from nvmf.target.metrics.points import Family, Point, Points, Source


def _each(value: Callable[[Mirror], float]) -> Points:
    def points(source: Source) -> Iterator[Point]:
        for one in source.sample.mirrors:
            yield {"subsystem": one["nqn"], "nsid": str(one["nsid"])}, value(one)

    return points


def _legs(source: Source) -> Iterator[Point]:
    for one in source.sample.mirrors:
        words = [leg["state"] for leg in one["legs"]]
        for word in get_args(LegWord):
            labels = {"subsystem": one["nqn"], "nsid": str(one["nsid"]), "state": word}
            yield labels, words.count(word)


MIRROR = (
    Family("nvmeof_mirror_legs", "gauge", "Legs of a mirror, by state.", _legs),
    Family(
        "nvmeof_mirror_degraded",
        "gauge",
        "1 if not all legs of a mirror are in sync.",
        _each(lambda one: one["state"] != "clean"),
    ),
    Family(
        "nvmeof_mirror_blocked",
        "gauge",
        "1 if commands to a mirror wait or fail: too few legs, or a different writer.",
        _each(lambda one: one["state"] not in ("clean", "degraded")),
    ),
    Family(
        "nvmeof_mirror_lagging_bytes",
        "gauge",
        "Data in which legs of a mirror are not in sync, of all legs together.",
        _each(lambda one: sum(leg["lagging_bytes"] for leg in one["legs"])),
    ),
    Family(
        "nvmeof_mirror_leg_losses",
        "counter",
        "Times that a leg of a mirror was lost or refused.",
        _each(lambda one: one["losses"]),
    ),
    Family(
        "nvmeof_mirror_leg_resyncs",
        "counter",
        "Times that a leg of a mirror was in sync again.",
        _each(lambda one: one["resyncs"]),
    ),
)
