# SPDX-License-Identifier: BSD-3-Clause
"""Faults on purpose in the storage lab, disks that fill, and reports of many measurements."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvmf.lab import describe, store
from nvmf.lab.errors import LabError
from nvmf.lab.machine import facts
from nvmf.lab.report import Report
from nvmf.lab.store import Results
from support.storagelab import NULL, RAM, READS, SHORT, lab, rounds, started, wait_for_rounds

FAULTS = """
[[system.fault]]
kind = "delay"
delay_us = 300
commands = ["read"]

[[system.fault]]
kind = "error"
status = "Unrecovered Read Error"
begin = 0.1
rate = 0.000001

[[system.fault]]
kind = "hang"
begin = 1.5
seconds = 1
"""


def write(folder: Path, *parts: str) -> Path:
    path = folder / "lab.toml"
    path.write_text("\n".join(parts))
    return path


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(folder / "results.sqlite")
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def test_faults_are_kept_and_marked(tmp_path: Path, fio: Path, fio_engine: Path) -> None:
    method = "[method]\nruntime = 3\nrounds = 1\ntimeout = 120\n"
    path = write(tmp_path, RAM, FAULTS, READS, method)
    done = lab("run", path, "-d", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    events = rows(out, "SELECT said, begin_ms, end_ms, hits FROM event ORDER BY round_id, said")
    assert len(events) == 4
    hangs = [event for event in events if event[0] == "commands hang"]
    for _, begin, end, hits in hangs:
        assert isinstance(begin, int)
        assert isinstance(end, int)
        assert isinstance(hits, int)
        assert 1500 <= begin < end
        assert hits >= 1, (events, rows(out, "SELECT * FROM sample"), done.stderr)
    assert all(end is None for said, _, end, _ in events if said != "commands hang")
    (counted,) = rows(out, "SELECT target_counters FROM round LIMIT 1")
    assert set(json.loads(str(counted[0]))) == {"errors", "media_errors", "throttled", "flushes"}
    assert rows(out, "SELECT 1 FROM sample WHERE target_context_switches IS NOT NULL")
    made = lab("report", out)
    assert made.returncode == 0, made.stderr
    text = (out / "report.html").read_text()
    assert "fault: commands hang" in text
    assert "Fault on purpose, system ram: commands are delayed, by 300 us, only read." in text


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ('kind = "delay"', "a delay needs delay_us or bandwidth"),
        ('kind = "hang"\nseconds = 1', "seconds needs begin"),
        ('kind = "hung"', "hung"),
    ],
)
def test_impossible_faults(tmp_path: Path, lines: str, complaint: str) -> None:
    with pytest.raises(LabError, match=complaint):
        describe.load(write(tmp_path, RAM, "[[system.fault]]", lines, READS))


# ---- a disk that fills ----


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=96m", "nvmf-lab-test", str(folder)]
    if os.geteuid() or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("mounting a file system needs privileges")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_ends_the_run_and_it_continues(small_disk: Path, tmp_path: Path) -> None:
    out = small_disk / "out"
    path = write(tmp_path, NULL, READS, SHORT.replace("rounds = 2", "rounds = 12"))
    running = started("run", path, "-d", out)
    wait_for_rounds(out, 1, running)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(1 << 20))
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 1, said
    assert "make room, then continue with nvmeof lab run --resume" in " ".join(said.split())
    assert "Traceback" not in said
    kept = _measured(out)
    assert 1 <= kept < 24
    filler.unlink()
    done = lab("run", "--resume", out)
    assert done.returncode == 0, done.stderr
    assert _measured(out) == 24


def _measured(out: Path) -> int:
    return sum(row["error"] is None for row in rounds(out))


# ---- a large report ----


def large(folder: Path) -> Results:
    """Results of 500 points (2 systems, 50 loads, 5 rounds) and 1,000,000 latencies."""
    random.seed(1)
    description = {
        "lab": {"name": "large"},
        "method": {"runtime": 10},
        "system": [{"name": name, "kind": "target"} for name in ("a", "b")],
    }
    machine = {**facts(), "fio": "fio-3.33", "nvmeof": "0"}
    results = Results.create(folder, json.dumps(description), machine)
    for number in range(1, 6):
        for index in range(50):
            size, depth = 512 << index % 5, 1 << index // 5
            for system in ("a", "b"):
                bins: dict[int, int] = {}
                for _ in range(2000):
                    ns = int(random.lognormvariate(11, 0.5)) & ~0x3FF
                    bins[ns] = bins.get(ns, 0) + 1
                iops = random.gauss(10000, 100)
                row = {
                    "system": system,
                    "load": f"l{index}",
                    "round": number,
                    "workload": "w",
                    "title": f"load {index}",
                    "rw": "randread",
                    "bs": size,
                    "iodepth": depth,
                    "numjobs": 1,
                    "started": 0,
                    "seconds": 10,
                    "iops": iops,
                    "ios": 2000,
                    "bytes_per_second": iops * size,
                    "mean_ns": 6e4,
                    "p50_ns": 6e4,
                    "p99_ns": 2e5,
                    "host_cpu_us_per_io": 9,
                    "bins": json.dumps(bins),
                }
                times = range(250, 10001, 250)
                series = [(ms, iops, 6e4) for ms in times]
                samples = [(ms, 0.5, 0.5, 9.0) for ms in times]
                results.add_round(row, series, samples, latencies=[(250, {60_000: 9})])
    results.set_meta("ended", "1")
    results.add_doubts(["it was made up"])
    return results


def test_a_large_report_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a look at the directory takes few steps of SQLite, although no event was recorded."""
    large(tmp_path / "large").__exit__()
    connected = store._connected

    def limited(folder: Path, *, write: bool) -> sqlite3.Connection:
        database = connected(folder, write=write)
        database.set_progress_handler(lambda: 1, 1000)  # ends a query that takes more steps
        return database

    with monkeypatch.context() as during:
        during.setattr(store, "_connected", limited)
        Results.open(tmp_path / "large").__exit__()
    with Results.open(tmp_path / "large") as results:
        html = Report(results).html()
    assert len(html.encode()) < 10 * 10**6
    assert html.count("<figure") > 50
