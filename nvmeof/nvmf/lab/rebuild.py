# SPDX-License-Identifier: BSD-3-Clause
"""Rebuilds results whose database is damaged, or of a different version, from fio's own JSON."""

from __future__ import annotations

from pathlib import Path

from nvmf.lab import fio as fio_module
from nvmf.lab.describe import from_dict
from nvmf.lab.errors import LabError
from nvmf.lab.plan import loads
from nvmf.lab.run import about, measurement
from nvmf.lab.store import Results

_DOUBT = (
    "The database was made again from fio's own results: what fio's JSON does not have, such as "
    "time series and the target's use of processors, is missing for the measurements before."
)


def rebuild(folder: Path) -> tuple[Results, int]:
    """Return the results of a directory with a new database, and its number of measurements.

    The old database is kept.  Time series and samples are lost.

    Raises:
        LabError: The description is damaged, too.
    """
    results = Results.replace(folder)
    try:
        lab = from_dict(results.description(), str(folder / "description.json"))
        results.machine()
        count = 0
        for number in range(1, lab.method.most_rounds + 1):
            for load in loads(lab):
                for system in lab.systems:
                    name = measurement(system.name, load, number)
                    try:
                        found = fio_module.check(folder / "fio", name, 0)
                        result = fio_module.read(found)
                    except LabError:
                        continue  # it is measured again
                    if not result.ios:
                        continue
                    row = {
                        **about(system.name, load, number),
                        "started": float(found.get("timestamp", 0)),
                        "seconds": 0,
                        **fio_module.columns(result),
                        "fio": f"fio/{name}.json",
                    }
                    results.add_round(row)
                    count += 1
        results.add_doubts([_DOUBT])
    except BaseException:
        results.__exit__()
        raise
    return results, count
