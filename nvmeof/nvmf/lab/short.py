# SPDX-License-Identifier: BSD-3-Clause
"""A short form of a description, to try it: everything runs once, and the figures are
meaningless.
"""

from __future__ import annotations

from nvmf.lab.tables import Table

RUNTIME = 0.3
"""Seconds of a measurement."""
_SIZE = 16 << 20
"""Maximum bytes of a system."""
_LISTS = ("bs", "iodepth", "numjobs", "rwmixread")


def shortened(data: Table) -> Table:
    """Return a description of which each part runs: one short round, and of each list of a workload
    its first and its last value.  Faults have the same share of a measurement as before.

    data: a whole description, with the keys of a file.
    """
    method = dict(data.get("method", {}))
    before = float(method.get("runtime", 10)) + float(method.get("ramp", 0))
    factor = RUNTIME / before if before > RUNTIME else 1.0
    method.update(
        runtime=RUNTIME,
        ramp=0,
        rounds=1,
        until_steady=False,
        series_ms=50,
        fill=min(float(method.get("fill", 1)), 1.0),
        size=min(int(method.get("size") or _SIZE), _SIZE),
    )
    systems = [_system(dict(one), factor) for one in data["system"]]
    workloads = [_workload(dict(one)) for one in data["workload"]]
    return {**data, "method": method, "system": systems, "workload": workloads}


def _system(system: Table, factor: float) -> Table:
    if system.get("size") is not None:
        system["size"] = min(int(system["size"]), _SIZE)
    for table in ("fault", "wire"):
        faults = [dict(one) for one in system.get(table, ())]
        for one in faults:
            for key in ("begin", "seconds"):
                if one.get(key) is not None:
                    one[key] = float(one[key]) * factor
        if faults:
            system[table] = faults
    return system


def _workload(workload: Table) -> Table:
    for key in _LISTS:
        values = workload.get(key)
        if isinstance(values, list | tuple) and len(values) > 2:
            workload[key] = [values[0], values[-1]]
    return workload
