# SPDX-License-Identifier: BSD-3-Clause
"""Finding fio, writing its job file, running it, and reading its JSON.

One job file a measurement, in the results directory beside the JSON that fio wrote (json+, with the
whole histogram), so that anybody can repeat it with fio alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nvmf.children import bound
from nvmf.lab.errors import LabError
from nvmf.lab.histogram import COARSENESS, PERCENTILES, Bins, bin_value, merged, percentile
from nvmf.lab.model import OURS, MethodConfig, Options
from nvmf.lab.plan import Load
from nvmf.lab.tables import Table
from nvmf.paths import fio_engine_path

OLDEST = (3, 28)
"""Oldest supported version of fio."""


@dataclass(frozen=True)
class Fio:
    """The program, and our engine for it."""

    program: str
    version: str
    engine: Path | None
    """The ioengine for NVMe-oF, nvmeof-fio.so; None if there is none."""

    @classmethod
    def find(cls) -> Fio:
        """Find fio ($NVMF_FIO, else in the path) and the engine.

        The engine is $NVMF_FIO_ENGINE, else the tree's, else that of the Debian package.

        Raises:
            LabError: There is no fio, or it is too old.
        """
        program = os.environ.get("NVMF_FIO") or shutil.which("fio")
        if not program:
            raise LabError("fio is not installed: apt-get install fio, or name it with NVMF_FIO")
        try:
            said = subprocess.run(
                [program, "--version"], capture_output=True, text=True, timeout=30
            ).stdout.strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(f"cannot run {program}: {error}") from None
        found = re.fullmatch(r"fio-(\d+)\.(\d+).*", said)
        if found is None:
            raise LabError(f"{program} is not fio: to --version it answers {said[:80]!r}")
        if (int(found[1]), int(found[2])) < OLDEST:
            raise LabError(f"{program} is {said}: the lab needs {OLDEST[0]}.{OLDEST[1]} or later")
        named = os.environ.get("NVMF_FIO_ENGINE")
        built = Path(__file__).resolve().parents[3] / "build" / "dev" / "nvmeof-fio.so"
        packaged = Path(sys.prefix) / "nvmeof-fio.so"
        places = (Path(named),) if named else (built, packaged, fio_engine_path(said))
        return cls(program, said, next((one for one in places if one.exists()), None))

    def need_engine(self) -> Path:
        """Return our engine; raise LabError if there is none."""
        if self.engine is None:
            raise LabError(
                "there is no fio engine for NVMe-oF: nvmeof fio-engine build makes it for the "
                "installed fio, as ./dev build does; or name it with NVMF_FIO_ENGINE"
            )
        return self.engine


@dataclass(frozen=True)
class Result:
    """The results of fio, for all of its jobs together."""

    ios: int
    iops: float
    bytes_per_second: float
    mean_ns: float | None
    read_iops: float
    write_iops: float
    bins: Bins
    cpu_seconds: float
    """Processor time of fio's jobs."""
    context_switches: int


def job_text(load: Load, system: Sequence[str], options: Options, method: MethodConfig) -> str:
    """Return the job file of a measurement.

    system: fio's lines for the system, ioengine and filename.  options: the system's own.
    """
    timing = [f"runtime={max(1, round(method.runtime * 1000))}ms", "time_based=1"]
    if method.ramp:
        timing.append(f"ramp_time={round(method.ramp * 1000)}ms")
    defaults = [
        *system,
        *timing,
        "group_reporting=1",
        "lat_percentiles=1",
        "clat_percentiles=0",
        "norandommap=1",
        "percentile_list=50:90:99:99.9:99.99:99.999",
        "write_iops_log=log",
        "write_lat_log=log",
        f"log_avg_msec={method.series_ms}",
        "write_hist_log=log",
        f"log_hist_msec={method.series_ms}",
        f"log_hist_coarseness={COARSENESS}",
        "per_job_logs=0",
        "thread=1",
    ]
    lines = ["[global]", *defaults, *_option_lines(options)]
    work = load.workload
    if work.job_file is not None:
        lines += [*_option_lines(work.options), *_user_lines(work.job_file)]
        return "\n".join(lines) + "\n"
    lines += ["", "[work]", f"iodepth={load.iodepth}"]
    if work.trace is not None:
        lines += _trace_lines(work.trace, system)
        return "\n".join([*lines, *_option_lines(work.options)]) + "\n"
    lines += [f"rw={work.rw}", f"bs={load.bs}", f"numjobs={load.numjobs}"]
    if load.rwmixread is not None:
        lines.append(f"rwmixread={load.rwmixread}")
    return "\n".join([*lines, *_option_lines(work.options)]) + "\n"


def fill_text(system: Sequence[str], options: Options, times: float, size: int) -> str:
    """Return the job file that writes the whole size sequentially."""
    lines = ["[global]", *system, *_option_lines(options), "", "[fill]", "rw=write", "bs=131072"]
    lines += ["iodepth=16", "thread=1", f"io_size={int(size * times) // 131072 * 131072}"]
    return "\n".join([*lines, "refill_buffers=1"]) + "\n"


def _trace_lines(path: Path, system: Sequence[str]) -> list[str]:
    """Return the lines that replay a trace on the system's file, whatever the trace names."""
    name = next(line for line in system if line.startswith("filename=")).removeprefix("filename=")
    trace = str(path).replace(":", "\\:")
    return [f"read_iolog={trace}", "replay_redirect=" + name.replace("\\:", ":")]


def _option_lines(options: Options) -> list[str]:
    return [f"{k}={int(v) if isinstance(v, bool) else v}" for k, v in options.items()]


def _user_lines(path: Path) -> list[str]:
    """Return a user's job file without the options that a run sets."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"cannot read the job file {path}: {error}") from None
    kept = []
    for line in text.splitlines():
        name = line.split("=", 1)[0].strip()
        if name == "include":
            raise LabError(f"{path}: include is not supported in a job file of the lab")
        if name not in OURS:
            kept.append(line)
    if not any(re.match(r"\s*\[(?!global\])", line) for line in kept):
        raise LabError(f"{path} has no job: a section such as [reads]")
    return kept


def start(fio: Fio, folder: Path, name: str) -> subprocess.Popen[bytes]:
    """Start fio with NAME.fio of a folder; it writes NAME.json, and its messages to NAME.err.

    It does not receive an interrupt of the terminal.
    """
    with (folder / f"{name}.err").open("wb") as messages:
        return subprocess.Popen(
            bound([fio.program, "--output-format=json+", f"--output={name}.json", f"{name}.fio"]),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=messages,
            start_new_session=True,
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    """End fio and its jobs."""
    for number, patience in ((signal.SIGINT, 3.0), (signal.SIGKILL, 10.0)):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        deadline = time.monotonic() + patience
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)


def check(folder: Path, name: str, status: int) -> Table:
    """Return fio's JSON.

    Raises:
        LabError: fio failed, was killed, or wrote no valid JSON; with its own words.
    """
    said = _words(folder, name)
    if status < 0:
        raise LabError(f"fio was killed by {signal.Signals(-status).name}{said}")
    if status:
        raise LabError(f"fio failed with status {status}{said}")
    try:
        text = (folder / f"{name}.json").read_text()
        found = json.loads(text[text.index("{") :])
        jobs = found["jobs"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"fio wrote no valid JSON ({error}){said}") from None
    for job in jobs:
        if job.get("error"):
            raise LabError(f"fio's job {job['jobname']} ended with error {job['error']}{said}")
    return dict(found)


def _words(folder: Path, name: str) -> str:
    """Return the last messages of fio, for the end of a sentence."""
    try:
        lines = (folder / f"{name}.err").read_text(errors="replace").split("\n")
    except OSError:
        return ""
    words = [line.strip() for line in lines if line.strip()][-3:]
    return ": " + "; ".join(words) if words else ""


def read(found: Table) -> Result:
    """Return the figures in fio's JSON; raise LabError if some are missing."""
    try:
        sides = [job[side] for job in found["jobs"] for side in ("read", "write", "trim")]
        parts = [{int(k): int(v) for k, v in s["lat_ns"].get("bins", {}).items()} for s in sides]
        ios = [int(s["total_ios"]) for s in sides]
        total = sum(ios)
        latency = sum(s["lat_ns"]["mean"] * n for s, n in zip(sides, ios, strict=True))
        return Result(
            ios=total,
            iops=sum(s["iops"] for s in sides),
            bytes_per_second=float(sum(s["bw_bytes"] for s in sides)),
            mean_ns=latency / total if total else None,
            read_iops=sum(job["read"]["iops"] for job in found["jobs"]),
            write_iops=sum(job["write"]["iops"] for job in found["jobs"]),
            bins=merged(parts),
            cpu_seconds=sum(
                (j["usr_cpu"] + j["sys_cpu"]) / 100 * j["job_runtime"] / 1000 for j in found["jobs"]
            ),
            context_switches=sum(int(job["ctx"]) for job in found["jobs"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LabError(f"fio's JSON lacks what is expected there: {error!r}") from None


def columns(result: Result) -> Table:
    """Return the columns of the table round that fio alone determines."""
    return {
        "iops": result.iops,
        "bytes_per_second": result.bytes_per_second,
        "mean_ns": result.mean_ns,
        **{
            f"p{percent:g}_ns".replace(".", "_"): percentile(result.bins, percent)
            for percent in PERCENTILES
        },
        "read_iops": result.read_iops,
        "write_iops": result.write_iops,
        "ios": result.ios,
        "host_cpu_us_per_io": result.cpu_seconds * 1e6 / result.ios,
        "context_switches_per_io": result.context_switches / result.ios,
        "bins": json.dumps(result.bins, separators=(",", ":")),
    }


def series(folder: Path) -> list[tuple[int, float, float | None]]:
    """Return fio's logs as (milliseconds, IOPS, mean latency in ns); remove the log files."""
    rates: dict[int, float] = {}
    times: dict[int, list[float]] = {}
    for path in sorted(folder.glob("log_*.log")):
        for line in path.read_text(errors="replace").splitlines():
            words = line.split(",")
            if len(words) < 3 or not (words[0] + words[1].strip()).isdigit():
                continue
            ms, value = int(words[0]) // 50 * 50, float(words[1])
            if path.name.startswith("log_iops"):
                rates[ms] = rates.get(ms, 0.0) + value
            elif path.name.startswith("log_lat"):
                times.setdefault(ms, []).append(value)
        path.unlink()
    return [
        (ms, rate, sum(times[ms]) / len(times[ms]) if ms in times else None)
        for ms, rate in sorted(rates.items())
    ]


def latencies(folder: Path) -> list[tuple[int, Bins]]:
    """Return fio's histogram log as (milliseconds, latencies since the time before); remove it."""
    found: dict[int, Bins] = {}
    for path in sorted(folder.glob("log_clat_hist*.log")):
        for line in path.read_text(errors="replace").splitlines():
            words = line.replace(" ", "").rstrip(",").split(",")
            if len(words) < 4 or not all(word.isdigit() for word in words):
                continue
            bins = found.setdefault(int(words[0]) // 50 * 50, {})
            for index, word in enumerate(words[3:]):
                if word != "0":
                    value = bin_value(index)
                    bins[value] = bins.get(value, 0) + int(word)
        path.unlink()
    return sorted(found.items())
