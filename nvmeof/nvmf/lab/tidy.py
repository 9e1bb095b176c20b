# SPDX-License-Identifier: BSD-3-Clause
"""The results of a run as one row for each load on each system, over all rounds."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nvmf.lab.errors import LabError
from nvmf.lab.histogram import PERCENTILES, Bins, merged, percentile
from nvmf.lab.steady import FIGURE, Steady, judge
from nvmf.lab.store import Results
from nvmf.lab.tables import Table, View


@dataclass(frozen=True)
class Row:
    """A load on a system."""

    system: str
    kind: str
    load: str
    title: str
    workload: str
    bs: int | None
    iodepth: int | None
    numjobs: int | None
    rwmixread: int | None
    rounds: tuple[View, ...]
    """The measurements that succeeded, in their order, with the columns of the table round."""
    bins: Bins
    """Latencies of all rounds."""
    steady: Steady

    def median(self, column: str) -> float | None:
        """Return the median of a column over the rounds; None without values."""
        found = self.values(column)
        return statistics.median(found) if found else None

    def values(self, column: str) -> list[float]:
        """Return a column of the rounds, without missing values."""
        return [float(one[column]) for one in self.rounds if one[column] is not None]

    def percentiles(self) -> dict[float, float | None]:
        """Return latencies in nanoseconds, of all rounds together."""
        return {percent: percentile(self.bins, percent) for percent in PERCENTILES}


def rows(results: Results) -> list[Row]:
    """Return the rows of a run, in the order of its measurements.

    Raises:
        LabError: The results are damaged.
    """
    description = results.description()
    method = description.get("method", {})
    kinds = {str(one["name"]): str(one["kind"]) for one in description["system"]}
    groups: dict[tuple[str, str], list[Table]] = {}
    for one in results.rows("SELECT * FROM round WHERE error IS NULL ORDER BY round, id"):
        groups.setdefault((one["load"], one["system"]), []).append(one)
    found = []
    column = FIGURE[method.get("steady", "iops")]
    for (load, system), rounds in groups.items():
        first = rounds[0]
        found.append(
            Row(
                system=system,
                kind=kinds.get(system, "?"),
                load=load,
                rounds=tuple(rounds),
                bins=merged(map(_bins, rounds)),
                steady=judge(
                    [float(one[column]) for one in rounds if one[column] is not None],
                    method.get("window", 5),
                    method.get("excursion", 0.20),
                    method.get("slope", 0.10),
                ),
                **{k: first[k] for k in ("title", "workload", "bs", "iodepth", "numjobs")},
                rwmixread=first["rwmixread"],
            )
        )
    return found


def _bins(one: View) -> Bins:
    try:
        return {int(value): int(count) for value, count in json.loads(one["bins"]).items()}
    except (ValueError, TypeError, AttributeError):
        raise LabError(
            f"the histogram of {one['system']}, {one['load']}, round {one['round']} is damaged; "
            f"fio's own results are in {one['fio']}"
        ) from None


def by_system(found: Iterable[Row], wanted: Callable[[Row], bool]) -> dict[str, list[Row]]:
    """Return the wanted rows of each system."""
    made: dict[str, list[Row]] = {}
    for row in found:
        if wanted(row):
            made.setdefault(row.system, []).append(row)
    return made


def doubts(results: Results, found: Iterable[Row]) -> list[str]:
    """Return what makes the figures doubtful, as sentences."""
    said = results.doubts()
    found = list(found)
    measured = [row for row in found if row.kind != "null"]
    unsteady = [row for row in measured if not row.steady.reached]
    if unsteady:
        said.append(
            f"{len(unsteady)} of {len(measured)} rows did not reach steady state (see the table)."
        )
    loose = [
        row
        for row in measured
        if len(row.rounds) > 1
        and statistics.stdev(row.values("iops")) > 0.1 * statistics.fmean(row.values("iops"))
    ]
    if loose:
        said.append(
            f"The rounds of {len(loose)} of {len(measured)} rows differ by more than 10 % "
            "(standard deviation of the IOPS)."
        )
    runtime = float(results.description().get("method", {}).get("runtime", 10))
    if runtime < 10:
        said.append(f"A measurement took {runtime:g} s: slower effects of a device are missed.")
    floors = {row.load: row.median("iops") or 0.0 for row in found if row.kind == "null"}
    near = [
        row for row in measured if (row.median("iops") or 0) > 0.5 * floors.get(row.load, math.inf)
    ]
    if near:
        said.append(f"{len(near)} rows are at more than half of fio's own limit on this machine.")
    failed = results.rows("SELECT count(*) AS n FROM round WHERE error IS NOT NULL")[0]["n"]
    if failed:
        said.append(f"{failed} measurements failed; they are not in the figures.")
    return said
