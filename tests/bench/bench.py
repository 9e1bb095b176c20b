#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure a target and a host of ours against the floor of this machine: ./dev bench.

A target in a second process and a polling host, one core each, over loopback on an embedded device.
Each workload is run in turns with a bare exchange of the same bytes, over TCP for iWARP (floor.c),
over UDP for RoCE (floor_udp.c), and what is printed is the median of the runs of each.  Each run is
compared with the exchanges right before and after it, since the speed of a shared machine changes
within minutes; the ratio that is printed is the median of these ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import lossy
from bench.harness import (
    MIB,
    NQN,
    Fio,
    HarnessError,
    Target,
    configuration,
    cpus,
    floor,
    floor_udp,
    machine,
)

STORE_BYTES = 256 * MIB
"""Bytes of the floor's own store."""


@dataclass(frozen=True)
class Workload:
    """A workload of the table."""

    workload: str
    block_size: int
    queue_depth: int

    @property
    def write(self) -> bool:
        return self.workload.endswith("write")

    @property
    def random(self) -> bool:
        return self.workload.startswith("rand")


@dataclass(frozen=True)
class Figures:
    """One run of a workload."""

    iops: float
    p50_us: float
    p99_us: float
    host_cpu_us: float
    """CPU time of the host for one command."""


@dataclass(frozen=True)
class Row:
    """A row as --json writes it: medians of the runs."""

    workload: str
    block_size: int
    queue_depth: int
    store: str
    device: str
    engine: str
    iops: float
    bytes_per_second: float
    p50_us: float
    p99_us: float
    host_cpu_us_per_io: float
    target_cpu_us_per_io: float
    floor_iops: float
    floor_bytes_per_second: float
    floor_p50_us: float
    floor_p99_us: float
    of_floor: float
    """Commands per second, as a multiple of the floor's: the median of the runs' ratios."""
    p50_of_floor: float
    """The same of the median latency."""
    runs: int


WORKLOADS = [
    *(Workload(w, 4096, d) for w in ("randread", "randwrite") for d in (1, 32, 128)),
    *(Workload(w, 131072, d) for w in ("read", "write") for d in (8, 32)),
]

ROCE_WORKLOADS = [
    *(Workload("randread", 4096, d) for d in (1, 32)),
    *(Workload("randread", 131072, d) for d in (8, 32)),
]
"""Workloads that floor_udp.c has."""

Device = Literal["iwarp", "roce"]
Runner = Callable[[Target, Workload, float], Figures]


def run_native(target: Target, work: Workload, seconds: float, device: Device = "iwarp") -> Figures:
    """The engine's own load: a polling C thread in this process."""
    from nvmf.engine import bench

    pair = cpus()
    result = bench(
        traddr=target.address,
        trsvcid=str(target.port),
        subnqn=NQN,
        rw=work.workload,
        block_size=work.block_size,
        queue_depth=work.queue_depth,
        seconds=seconds,
        cpu=pair[0] if pair else -1,
        kind=device,
    )
    ios = max(int(result["ios"]), 1)
    return Figures(
        result["iops"], result["p50_us"], result["p99_us"], result["cpu_seconds"] * 1e6 / ios
    )


def run_fio(target: Target, work: Workload, seconds: float) -> Figures:
    """fio with our engine; latencies from submission to completion, as fio counts them."""
    pair = cpus()
    job = Fio.find().run(
        target,
        f"--rw={work.workload}",
        f"--bs={work.block_size}",
        f"--iodepth={work.queue_depth}",
        f"--runtime={seconds}",
        "--time_based=1",
        "--norandommap=1",
        "--lat_percentiles=1",
        "--percentile_list=50:99",
        *([f"--cpus_allowed={pair[0]}"] if pair else []),
    )
    side = job["write" if work.write else "read"]
    percentiles = {float(k): v / 1000 for k, v in side["lat_ns"]["percentile"].items()}
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] * 1000
    ios = max(side["total_ios"], 1)
    return Figures(side["iops"], percentiles[50.0], percentiles[99.0], cpu / ios)


def say(text: str) -> None:
    """Write progress to stderr; the results go to stdout."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


@contextmanager
def serving(store: str, folder: Path, device: Device) -> Iterator[Target]:
    """Yield a target whose namespace was written once, so that no run allocates pages."""
    path = folder / "namespace.img" if store == "file" else None
    if path is not None:
        with path.open("wb") as file:
            file.truncate(STORE_BYTES)
    with Target(folder, configuration(store, STORE_BYTES, path, device)) as target:
        say(f"{store}: writing it once")
        written = 0.0
        fill = Workload("write", 131072, 8)
        while written < STORE_BYTES:
            written += run_native(target, fill, 0.5, device).iops * 0.5 * fill.block_size
        yield target


def median(values: list[float]) -> float:
    return round(statistics.median(values), 3)


def measure(
    target: Target,
    store: str,
    work: Workload,
    device: Device,
    engine: str,
    seconds: float,
    repeat: int,
    promises: bool = False,
) -> Row:
    """Measure the floor and the load in turns; return the median of each.

    promises: the floor has the cost of what RDMA and NVMe promise, as --icrc and --whole say.
    """
    runner: Runner = run_fio if engine == "fio" else partial(run_native, device=device)

    def bare() -> dict[str, Any]:
        if device == "roce":
            return floor_udp(work.block_size, work.queue_depth, seconds, promises)
        return floor(work.write, work.block_size, work.queue_depth, seconds, work.random, promises)

    floors = [bare()]
    runs = []
    target_cpu = []
    for _ in range(repeat):
        before = target.cpu_seconds()
        figures = runner(target, work, seconds)
        used = target.cpu_seconds() - before
        runs.append(figures)
        target_cpu.append(used * 1e6 / max(figures.iops * seconds, 1))
        floors.append(bare())
    beside = list(zip(runs, floors, floors[1:], strict=False))
    iops = median([r.iops for r in runs])
    floor_iops = median([f["iops"] for f in floors])
    return Row(
        work.workload,
        work.block_size,
        work.queue_depth,
        store,
        device,
        engine,
        iops,
        round(iops * work.block_size, 1),
        median([r.p50_us for r in runs]),
        median([r.p99_us for r in runs]),
        median([r.host_cpu_us for r in runs]),
        median(target_cpu),
        floor_iops,
        round(floor_iops * work.block_size, 1),
        median([f["p50_us"] for f in floors]),
        median([f["p99_us"] for f in floors]),
        median([2 * r.iops / max(a["iops"] + b["iops"], 1) for r, a, b in beside]),
        median([2 * r.p50_us / max(a["p50_us"] + b["p50_us"], 1e-3) for r, a, b in beside]),
        repeat,
    )


HEADER = (
    f"{'store':<5} {'workload':<9} {'block':>7} {'qd':>3} │ {'IOPS':>8} {'GB/s':>6} "
    f"{'p50 µs':>8} {'p99 µs':>8} {'host':>6} {'target':>6} │ {'IOPS':>8} {'GB/s':>6} "
    f"{'p50 µs':>8} │ {'IOPS':>5} {'p50':>6}"
)
ABOVE = (
    f"{'':<27} │ {'measured':>8} {'':>6} {'':>8} {'':>8} {'CPU µs a command':>13} │ "
    f"{'floor':>8} {'':>6} {'':>8} │ {'of the floor':>12}"
)


def line(row: Row) -> str:
    """Return a row of the table as text."""
    block = f"{row.block_size // 1024} KiB"
    return (
        f"{row.store:<5} {row.workload:<9} {block:>7} {row.queue_depth:>3} │ {row.iops:>8.0f} "
        f"{row.bytes_per_second / 1e9:>6.2f} {row.p50_us:>8.1f} {row.p99_us:>8.1f} "
        f"{row.host_cpu_us_per_io:>6.2f} {row.target_cpu_us_per_io:>6.2f} │ "
        f"{row.floor_iops:>8.0f} {row.floor_bytes_per_second / 1e9:>6.2f} "
        f"{row.floor_p50_us:>8.1f} │ {row.of_floor:>5.2f} {row.p50_of_floor:>5.2f}x"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the rows to FILE")
    parser.add_argument("--quick", action="store_true", help="one short run of each workload")
    parser.add_argument("--repeat", type=int, metavar="N", help="runs of each (default: 3)")
    parser.add_argument("--seconds", type=float, metavar="S", help="of one run (default: 1)")
    parser.add_argument(
        "--engine", choices=("native", "fio"), default="native", help="the load (default: native)"
    )
    parser.add_argument(
        "--device",
        choices=("iwarp", "roce"),
        default="iwarp",
        help="embedded device (default: iwarp); roce: reads only, on RAM, with the native engine",
    )
    parser.add_argument(
        "--loss",
        action="store_true",
        help="with --device roce: reads over a path with delay and loss, beside one without loss",
    )
    parser.add_argument(
        "--icrc",
        action="store_true",
        help="with --device roce: the floor computes the CRC of its data, as RoCE does",
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="with --device iwarp: the floor copies a write into the store when it has arrived as "
        "a whole, as the promise of whole blocks needs",
    )
    parser.add_argument(
        "--store", choices=("ram", "file"), action="append", help="only this one (default: both)"
    )
    parser.add_argument(
        "--dir", metavar="DIR", type=Path, default=Path("/var/tmp"), help="where the file is"
    )
    args = parser.parse_args()
    args.repeat = args.repeat or (1 if args.quick else 3)
    args.seconds = args.seconds or (0.3 if args.quick else 1.0)
    if args.repeat < 1 or args.seconds < 0.1:
        parser.error("--repeat is at least 1 and --seconds at least 0.1")
    if args.device == "roce" and (args.engine == "fio" or args.store not in (None, ["ram"])):
        parser.error("--device roce has --engine native and --store ram only")
    for option, given, device in (
        ("--loss", args.loss, "roce"),
        ("--icrc", args.icrc, "roce"),
        ("--whole", args.whole, "iwarp"),
    ):
        if given and args.device != device:
            parser.error(f"{option} needs --device {device}")
    if args.engine == "fio":
        args.seconds = max(round(args.seconds), 1)  # fio counts whole seconds
    return args


def run(args: argparse.Namespace) -> list[Row]:
    """Measure every workload on every store, and print each result at once."""
    rows: list[Row] = []
    print(f"Machine: {machine()}")
    roce = args.device == "roce"
    over = "UDP" if roce else "TCP"
    over += " with their CRC" if args.icrc else ""
    over += " and a copy of writes" if args.whole else ""
    kind = "RoCEv2 device" if roce else "iWARP device, CRC off"
    print(
        f"One reactor, one polling host thread ({args.engine}), loopback, embedded {kind}.\n"
        f"Medians of {args.repeat} runs of {args.seconds:g} s; the floor is a bare exchange of the "
        f"same bytes over {over} right before and after each; the ratio is the median of theirs.\n"
    )
    print(f"{ABOVE}\n{HEADER}")
    for store in args.store or (["ram"] if roce else ["ram", "file"]):
        with (
            tempfile.TemporaryDirectory(prefix="nvmeof-bench-", dir=args.dir) as name,
            serving(store, Path(name), args.device) as target,
        ):
            for work in ROCE_WORKLOADS if roce else WORKLOADS:
                say(f"{store}: {work.workload} {work.block_size} at {work.queue_depth}")
                row = measure(
                    *(target, store, work, args.device, args.engine, args.seconds, args.repeat),
                    promises=args.icrc or args.whole,
                )
                say("")
                rows.append(row)
                print(line(row), flush=True)
    return rows


def lossy_rate(target: Target, seconds: float) -> float:
    """Return the commands per second of the load of lossy.py."""
    return run_native(target, Workload("read", lossy.BLOCK, lossy.DEPTH), seconds, "roce").iops


def main() -> int:
    args = arguments()
    try:
        rows: list[Row] | list[lossy.Row]
        if args.loss:
            rows = lossy.run(lossy_rate, args.dir, args.seconds, args.repeat)
        else:
            rows = run(args)
        if args.json:
            args.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    except (HarnessError, OSError) as error:
        say("")
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
