# SPDX-License-Identifier: BSD-3-Clause
"""The results of a load, as text and as JSON."""

from __future__ import annotations

import os
import platform
import socket
import statistics
from collections.abc import Callable
from datetime import datetime

from nvmf.cli.app import version
from nvmf.cli.bench.running import Load, Run, rates
from nvmf.cli.bench.words import MIXED
from nvmf.cli.output import counted, print_fields, rate_text

_RATES: dict[str, Callable[[Run], float]] = {
    "iops": lambda run: run.figures["iops"],
    "bytes_per_second": lambda run: run.figures["bytes_per_second"],
    "mean_us": lambda run: run.figures["mean_us"],
}
"""Figures that are compared between runs."""


def document(load: Load, runs: list[Run]) -> dict[str, object]:
    """Return the results for JSON: time, version, host, target, load, runs and their summary.

    A size of null is the rest of the namespace. Times are in seconds, latencies in microseconds;
    the summary has min, max, mean and stddev of the runs.
    """
    place = load.place
    return {
        "time": _time(runs[0].began),
        "version": version(),
        "host": {
            "name": socket.gethostname(),
            "kernel": platform.release(),
            "cpus": len(os.sched_getaffinity(0)),
            "hostnqn": load.hostnqn,
        },
        "target": {
            "traddr": place.traddr,
            "trsvcid": place.trsvcid,
            "subnqn": place.subnqn,
            "nsid": load.nsid,
            "device": load.kind,
            "remote_keys": load.remote_keys,
        },
        "load": {
            "rw": load.rw,
            "bs": load.bs,
            "rwmixread": load.rwmixread,
            "iodepth": load.iodepth,
            "numjobs": load.numjobs,
            "threads": load.threads,
            "runtime": load.runtime,
            "ramp_time": load.ramp,
            "offset": load.offset,
            "size": load.size or None,
            "loops": load.loops,
        },
        "runs": [_record(load, run) for run in runs],
        "summary": {name: _spread([get(run) for run in runs]) for name, get in _RATES.items()},
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds")


def _record(load: Load, run: Run) -> dict[str, object]:
    found: dict[str, object] = {"time": _time(run.began), **run.figures}
    return found | {"series": run.series} if load.interval is not None else found


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "min": min(values),
        "max": max(values),
        "mean": statistics.fmean(values),
        "stddev": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


def show(load: Load, runs: list[Run]) -> None:
    """Print the results as text."""
    mix = f" with {50 if load.rwmixread is None else load.rwmixread} % reads"
    print_fields(
        {
            "load": f"{load.rw}{mix if load.rw in MIXED else ''}, {load.bs} bytes, queue depth "
            f"{load.iodepth}, {counted(load.numjobs, 'queue')}, {counted(load.threads, 'thread')}"
        }
    )
    for number, run in enumerate(runs, 1):
        if load.loops > 1:
            print(f"run {number} of {load.loops}:")
        _show_run(load, run)
    if len(runs) > 1:
        iops, rate = (_spread([_RATES[n](run) for run in runs]) for n in list(_RATES)[:2])
        print(
            f"{len(runs)} runs: IOPS mean {iops['mean']:.0f}, min {iops['min']:.0f}, max "
            f"{iops['max']:.0f}, deviation {iops['stddev']:.0f}; bandwidth mean "
            f"{rate_text(rate['mean'], 1)}"
        )


def _show_run(load: Load, run: Run) -> None:
    figures = run.figures
    ios = figures["ios"]
    for row in run.series:
        print(f"{row['seconds']:8.1f} s  read {rates(row, 'read')}  write {rates(row, 'write')}")
    print_fields(
        {
            "commands": f"{ios} in {figures['seconds']:.2f} s",
            "IOPS": f"{figures['iops']:.0f}",
            "each queue": f"{figures['queue_min_iops']:.0f} to {figures['queue_max_iops']:.0f} IOPS"
            if load.numjobs > 1
            else None,
            "bandwidth": rate_text(figures["bytes_per_second"], 1),
            "CPU": f"{1e6 * figures['cpu_seconds'] / ios:.2f} µs per command" if ios else None,
        }
    )
    for name, part in (("read", figures["read"]), ("write", figures["write"])):
        if not part["ios"]:
            continue
        print(
            f"{name}: {part['iops']:.0f} IOPS, {rate_text(part['bytes_per_second'], 1)}, "
            f"{counted(part['ios'], 'command')}"
        )
        print(
            f"  latency     : min {part['min_us']:.1f} µs, mean {part['mean_us']:.1f} µs, max "
            f"{part['max_us']:.1f} µs, deviation {part['stddev_us']:.1f} µs"
        )
        listed = ", ".join(f"p{p} {us:.1f} µs" for p, us in part["percentiles_us"].items())
        print(f"  percentiles : {listed}")
