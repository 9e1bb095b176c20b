# SPDX-License-Identifier: BSD-3-Clause
"""Ratios of two systems or two runs, with confidence intervals by bootstrap over rounds.

Rounds are the sample: two rounds of one run differ for the same reasons as two runs do.  With few
rounds a percentile interval is too narrow; it is expanded as Hesterberg describes ("What Teachers
Should Know About the Bootstrap", 2015), which gives it the coverage of a t interval.

A comparison has many rows: with 95 % confidence, one of twenty equal ones would be reported as
different.  A verdict therefore also needs to be significant among all rows of the same figure, with
a false discovery rate of 5 % (Benjamini and Hochberg, 1995; by Welch's t test).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit  # scipy.stats takes half a second to import

from nvmf.lab.errors import LabError
from nvmf.lab.tidy import Row

Verdict = Literal["better", "worse", "no difference shown", "too few rounds"]
METRICS = {
    "iops": ("IOPS", True),
    "mean_ns": ("mean latency", False),
    "p50_ns": ("p50", False),
    "p99_ns": ("p99", False),
}
"""Columns that can be compared: their names, and whether more is better."""
_RESAMPLES = 4000
_FEWEST = 3


@dataclass(frozen=True)
class Ratio:
    """B as a multiple of A, for one load and metric."""

    load: str
    title: str
    metric: str
    a: float
    """Geometric mean of A's rounds."""
    b: float
    ratio: float
    low: float
    high: float
    verdict: Verdict
    p: float = 1.0
    """Probability of such a difference between equal systems (Welch's t test)."""


def interval(
    a: Sequence[float], b: Sequence[float], confidence: float = 0.95, seed: int = 1
) -> tuple[float, float, float]:
    """Return the ratio of the geometric means of b and a, and its confidence interval.

    The values must be positive; the same values and seed give the same interval.
    """
    random = np.random.default_rng(seed)
    first, second = np.log(np.asarray(a, float)), np.log(np.asarray(b, float))
    difference = float(second.mean() - first.mean())
    # The expansion for n values: t / z, and sqrt(n / (n - 1)) for the bootstrap's smaller spread.
    deviations = np.zeros(_RESAMPLES)
    for sample, sign in ((second, 1.0), (first, -1.0)):
        n = len(sample)
        means = random.choice(sample, (_RESAMPLES, n)).mean(axis=1) - sample.mean()
        deviations += sign * means * np.sqrt(n / (n - 1))
    freedom = _freedom(first, second)
    tail = float(ndtr(stdtrit(freedom, (1 - confidence) / 2)))
    low, high = np.quantile(deviations, [tail, 1 - tail])
    return tuple(np.exp([difference, difference + low, difference + high]).tolist())


def _freedom(first: np.ndarray, second: np.ndarray) -> float:
    """Return the degrees of freedom of the difference of two means (Welch)."""
    parts = [float(one.var(ddof=1)) / len(one) for one in (first, second)]
    below = sum(p * p / (len(one) - 1) for p, one in zip(parts, (first, second), strict=True))
    return sum(parts) ** 2 / below if below else float(len(first) + len(second) - 2)


def _probability(a: np.ndarray, b: np.ndarray) -> float:
    """Return the probability that the means of logarithms differ this much by chance."""
    first, second = np.log(a), np.log(b)
    difference = float(second.mean() - first.mean())
    error = float(np.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second)))
    if not error:
        return 0.0 if difference else 1.0
    return float(2 * stdtr(_freedom(first, second), -abs(difference) / error))


def significant(ps: Sequence[float], rate: float) -> list[bool]:
    """Return which of several differences are significant, with this false discovery rate."""
    ordered = sorted(ps)
    passed = [p for n, p in enumerate(ordered, 1) if p <= rate * n / len(ordered)]
    return [bool(passed) and p <= passed[-1] for p in ps]


def ratio(a: Row, b: Row, metric: str, margin: float, confidence: float = 0.95) -> Ratio | None:
    """Compare two rows; None if one of them has no values.

    margin: the smallest difference that is reported, as a part of A.
    """
    one, two = (np.array([v for v in row.values(metric) if v > 0]) for row in (a, b))
    if not len(one) or not len(two):
        return None
    geometric = [float(np.exp(np.log(values).mean())) for values in (one, two)]
    verdict: Verdict = "no difference shown"
    p = 1.0
    if min(len(one), len(two)) < _FEWEST:
        ratio_ = geometric[1] / geometric[0]
        low, high, verdict = 0.0, float("inf"), "too few rounds"
    else:
        ratio_, low, high = interval(one.tolist(), two.tolist(), confidence)
        p = _probability(one, two)
        more_is_better = METRICS[metric][1]
        if low > 1 and ratio_ > 1 + margin:
            verdict = "better" if more_is_better else "worse"
        elif high < 1 and ratio_ < 1 - margin:
            verdict = "worse" if more_is_better else "better"
    values = (geometric[0], geometric[1], ratio_, low, high)
    return Ratio(b.load, b.title, metric, *values, verdict, p)


def paired(a: Sequence[Row], b: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return the pairs of rows of two runs with the same system and load.

    If no system is in both, and each has one (apart from fio alone), these are compared.

    Raises:
        LabError: Nothing belongs together.
    """
    names_a, names_b = ({row.system for row in rows if row.kind != "null"} for rows in (a, b))
    names = {name: name for name in names_a & names_b}
    if not names and len(names_a) == len(names_b) == 1:
        names = {names_b.pop(): names_a.pop()}
    before = {(row.system, row.load): row for row in a}
    found = [
        (before[names[row.system], row.load], row)
        for row in b
        if row.system in names and (names[row.system], row.load) in before
    ]
    if not found:
        alone = any(row.kind == "null" for row in (*a, *b))
        raise LabError(
            "the runs have no load on the same system in common"
            + (" (fio alone, a system of kind null, is not compared)" if alone else "")
        )
    return found


def of_systems(rows: Sequence[Row]) -> tuple[str, dict[str, list[tuple[Row, Row]]]]:
    """Return the first system of a run, and for each other one the pairs of rows with it.

    fio alone is not compared.
    """
    measured = [row for row in rows if row.kind != "null"]
    names = list(dict.fromkeys(row.system for row in measured))
    first = {row.load: row for row in measured if row.system == names[0]} if names else {}
    found = {
        name: [(first[r.load], r) for r in measured if r.system == name and r.load in first]
        for name in names[1:]
    }
    return names[0] if names else "", found


def compared(
    pairs: Sequence[tuple[Row, Row]], metrics: Sequence[str], margin: float, confidence: float
) -> list[Ratio]:
    """Return the ratios of all pairs and metrics; verdicts consider all rows of a metric."""
    every = [ratio(a, b, metric, margin, confidence) for a, b in pairs for metric in metrics]
    made = [one for one in every if one is not None]
    for metric in metrics:
        places = [n for n, one in enumerate(made) if one.metric == metric]
        judged = [n for n in places if made[n].verdict != "too few rounds"]
        found = significant([made[n].p for n in judged], 1 - confidence)
        for n, real in zip(judged, found, strict=True):
            if not real:
                made[n] = replace(made[n], verdict="no difference shown")
    return made
