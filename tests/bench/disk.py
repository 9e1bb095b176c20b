#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure a file of ours beside the file itself, both with direct I/O: ./dev bench --disk.

In turns: fio's io_uring engine on the file, with registered buffers and files, and fio with our
engine on a target that serves that file.  What is printed is the median of the runs of each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.harness import MIB, Fio, HarnessError, Target, configuration, cpus, machine

SIZE = 512 * MIB
WORKLOADS = (
    ("randread", 4096, 1),
    ("randread", 4096, 32),
    ("randread", 4096, 128),
    ("randwrite", 4096, 32),
    ("randwrite", 4096, 128),
    ("read", 131072, 8),
    ("read", 131072, 32),
    ("write", 131072, 8),
    ("write", 131072, 32),
)


def words(work: tuple[str, int, int], seconds: int) -> list[str]:
    """Return the options of both runs of fio."""
    pair = cpus()
    return [
        f"--rw={work[0]}",
        f"--bs={work[1]}",
        f"--iodepth={work[2]}",
        f"--runtime={seconds}",
        "--time_based=1",
        "--norandommap=1",
        "--lat_percentiles=1",
        "--percentile_list=50:99",
        *([f"--cpus_allowed={pair[0]}"] if pair else []),
    ]


def run_local(path: Path, work: tuple[str, int, int], seconds: int) -> dict[str, Any]:
    """Run fio on the file; return the job's part of its JSON."""
    done = subprocess.run(
        [
            os.environ.get("NVMF_FIO") or "fio",
            "--name=job",
            "--ioengine=io_uring",
            "--direct=1",
            "--fixedbufs=1",
            "--registerfiles=1",
            f"--filename={path}",
            f"--size={SIZE}",
            "--output-format=json",
            *words(work, seconds),
        ],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise HarnessError(f"fio failed with status {done.returncode}:\n{done.stderr}")
    job: dict[str, Any] = json.loads(done.stdout[done.stdout.find("{") :])["jobs"][0]
    return job


def figures(job: dict[str, Any]) -> tuple[float, float, float]:
    """Return IOPS, and p50 and p99 in microseconds."""
    side = job["read"] if job["read"]["total_ios"] else job["write"]
    percentiles = {float(k): v / 1000 for k, v in side["lat_ns"]["percentile"].items()}
    return side["iops"], percentiles[50.0], percentiles[99.0]


def measure(
    target: Target, path: Path, work: tuple[str, int, int], repeat: int, seconds: int
) -> dict[str, Any]:
    """Measure the target and the file in turns."""
    local, ours, used = [], [], []
    for _ in range(repeat):
        local.append(figures(run_local(path, work, seconds)))
        before = target.cpu_seconds()
        ours.append(figures(Fio.find().run(target, *words(work, seconds))))
        used.append((target.cpu_seconds() - before) * 1e6 / max(ours[-1][0] * seconds, 1))
    row: dict[str, Any] = {"workload": work[0], "block_size": work[1], "queue_depth": work[2]}
    for name, runs in (("file", local), ("target", ours)):
        for i, what in enumerate(("iops", "p50_us", "p99_us")):
            row[f"{name}_{what}"] = round(statistics.median(run[i] for run in runs), 1)
    row["target_cpu_us_per_io"] = round(statistics.median(used), 2)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench --disk", description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the rows to FILE")
    parser.add_argument("--repeat", type=int, metavar="N", default=3, help="runs of each (3)")
    parser.add_argument("--seconds", type=int, metavar="S", default=2, help="of one run (2)")
    parser.add_argument("--dir", metavar="DIR", type=Path, default=Path("/var/tmp"))
    args = parser.parse_args()
    rows = []
    print(f"Machine: {machine()}")
    print("workload      block  qd │ the file: IOPS   p50 µs   p99 µs │ through the target: IOPS")
    try:
        with tempfile.TemporaryDirectory(prefix="nvmeof-bench-", dir=args.dir) as name:
            path = Path(name) / "namespace.img"
            with path.open("wb") as file:
                for _ in range(SIZE // MIB):
                    file.write(b"\x5a" * MIB)
                os.fsync(file.fileno())
            text = configuration("file", SIZE, path) + "block_size = 4096\ndirect = true\n"
            with Target(Path(name), text) as target:
                for work in WORKLOADS:
                    row = measure(target, path, work, args.repeat, args.seconds)
                    rows.append(row)
                    print(
                        f"{work[0]:<10} {work[1] // 1024:>4} KiB {work[2]:>3} │ "
                        f"{row['file_iops']:>14.0f} {row['file_p50_us']:>8.1f} "
                        f"{row['file_p99_us']:>8.1f} │ {row['target_iops']:>14.0f} "
                        f"{row['target_p50_us']:>8.1f} {row['target_p99_us']:>8.1f}, "
                        f"{row['target_iops'] / max(row['file_iops'], 1):.2f} of the file, "
                        f"{row['target_cpu_us_per_io']:.2f} µs of the target's processor each",
                        flush=True,
                    )
        if args.json:
            args.json.write_text(json.dumps(rows, indent=2) + "\n")
    except (HarnessError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
