# SPDX-License-Identifier: BSD-3-Clause
"""Steady state, by the criteria of SNIA's Solid State Storage Performance Test Specification.

In the last rounds (the window), the range of the figures is at most 20 % of their average, and the
best linear fit changes by at most 10 % of the average over the window.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

FIGURE = {"iops": "iops", "throughput": "bytes_per_second", "latency": "mean_ns"}
"""The figure that must be steady, as the description names it, to its column in the results."""


@dataclass(frozen=True)
class Steady:
    """The judgement of the rounds of one load on one system."""

    reached: bool
    window: tuple[int, int] | None
    """First and last round of the window, from 1; None if there are too few rounds."""
    average: float
    excursion: float
    """Range in the window, as a part of the average."""
    slope: float
    """Change of the best linear fit over the window, as a part of the average; with sign."""

    def __str__(self) -> str:
        if self.window is None:
            return "not reached: too few rounds"
        figures = f"range {self.excursion:.1%}, slope {self.slope:+.1%}"
        if self.reached:
            return f"reached in rounds {self.window[0]} to {self.window[1]} ({figures})"
        return f"not reached ({figures} in rounds {self.window[0]} to {self.window[1]})"


def judge(
    figures: Sequence[float], window: int = 5, excursion: float = 0.20, slope: float = 0.10
) -> Steady:
    """Judge the last rounds; figures are those of all rounds, in their order."""
    if len(figures) < window:
        average = statistics.fmean(figures) if figures else 0.0
        return Steady(False, None, average, 0.0, 0.0)
    last = figures[-window:]
    average = statistics.fmean(last)
    where = (len(figures) - window + 1, len(figures))
    if average <= 0:
        return Steady(False, where, average, 0.0, 0.0)
    fit = statistics.linear_regression(range(window), last)
    spread = (max(last) - min(last)) / average
    drift = fit.slope * (window - 1) / average
    return Steady(spread <= excursion and abs(drift) <= slope, where, average, spread, drift)
