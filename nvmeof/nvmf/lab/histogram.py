# SPDX-License-Identifier: BSD-3-Clause
"""Latencies as fio counts them (json+): nanoseconds to number; histograms merge exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Bins = dict[int, int]
"""Latency in nanoseconds, as fio names a bin, to the number of I/Os."""
COARSENESS = 2
"""fio merges 1 << COARSENESS bins of its histogram log."""
_BITS = 6
"""fio's bins: 1 << _BITS for each power of two."""
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999)


def merged(parts: Iterable[Mapping[int, int]]) -> Bins:
    """Return the sum of histograms, in the order of the latencies."""
    total: Bins = {}
    for part in parts:
        for value, count in part.items():
            total[value] = total.get(value, 0) + count
    return dict(sorted(total.items()))


def percentile(bins: Mapping[int, int], percent: float) -> float | None:
    """Return the latency in nanoseconds that this percentage of I/Os does not exceed.

    None if there are too few I/Os: fewer than one is expected above the percentile.
    """
    total = sum(bins.values())
    if total * (100.0 - percent) / 100.0 < 1.0 - 1e-9:
        return None
    wanted, seen = total * percent / 100.0, 0
    for value, count in sorted(bins.items()):
        seen += count
        if seen >= wanted - 1e-9:
            return float(value)
    return None


def mean(bins: Mapping[int, int]) -> float | None:
    """Return the mean latency in nanoseconds, as exact as the bins (about 1 %)."""
    total = sum(bins.values())
    return sum(value * count for value, count in bins.items()) / total if total else None


def bin_value(index: int) -> int:
    """Return the latency in nanoseconds in the middle of a bin of fio's histogram log."""
    low = index << COARSENESS
    high = low + (1 << COARSENESS)
    return (_edge(low) + _edge(high)) // 2


def _edge(index: int) -> int:
    """Return the lowest latency in a bin of fio."""
    if index < 2 << _BITS:
        return index
    shift = (index >> _BITS) - 1
    return ((1 << _BITS) + index % (1 << _BITS)) << shift
