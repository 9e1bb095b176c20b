#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure what connections cost a target: ./dev bench --connections.

First, queues of depth 128 that are connected and idle, beside one that is busy: time to connect,
memory of both ends, processor while all idle, and rate, latency, processor and system calls of the
busy one's commands, beside the floor of the machine in the same minute.  Then queues that are all
busy: rate, latency, and the rates of the slowest and fastest, beside a floor with as many sockets.

The target is one process; the queues belong to one thread of another (many.c), with a poll group.
--tree measures the targets of other trees beside this one's, with the same host program, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.harness import HarnessError, floor, floor_many, machine
from bench.loads import (
    QUEUES_A_CONTROLLER,
    STORE_BYTES,
    Run,
    Tree,
    connected,
    idle_percent,
    measured,
    median,
    pss_kib,
    system_calls,
)

COUNTS = (1, 100, 1_000, 10_000)
BUSY = ((1, 1), (10, 1), (100, 1), (500, 1), (8, 16), (64, 2))
"""Queues, and commands outstanding on each."""
DEPTH = 128
DESCRIPTORS = 64
"""File descriptors of a host process in addition to those of its queues."""


@dataclass(frozen=True)
class Idle:
    """A row of the first table: a number of connected queues, one of them busy; medians of the
    runs.
    """

    tree: str
    queues: int
    connect_seconds: float
    kib_a_queue: float
    """Memory of the target per queue (PSS)."""
    host_kib_a_queue: float
    """Memory of the host program per queue (PSS)."""
    idle_percent: float
    """Percent of a processor that the target uses while no command is outstanding."""
    depth: int
    run: Run
    calls: float | None
    """System calls of the target for one command."""
    floor_iops: float
    """IOPS of the same bytes over one TCP connection, without NVMe and RDMA (floor.c)."""


@dataclass(frozen=True)
class Busy:
    """A row of the second table; medians of the runs."""

    tree: str
    queues: int
    depth: int
    run: Run
    floor_iops: float
    """IOPS of the same bytes over as many TCP connections, without NVMe and RDMA (floor_many.c)."""


def say(text: str) -> None:
    """Write progress to stderr; the results go to stdout."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def idle_rows(
    trees: Sequence[Tree], count: int, seconds: float, repeat: int, folder: Path
) -> Iterator[Idle]:
    """Measure, in turns, each tree's target with many connected queues, of which one is busy."""
    with ExitStack() as stack:
        targets = [stack.enter_context(tree.serving(folder)) for tree in trees]
        facts = []
        for tree, target in zip(trees, targets, strict=True):
            say(f"{tree.name}: connecting {count:,}")
            alone = pss_kib(target.pid)
            many = stack.enter_context(connected(target, count, DEPTH))
            grown = (pss_kib(target.pid) - alone) / count
            facts.append((many, grown, pss_kib(many.pid) / count, idle_percent(target)))
        for depth in (1, 32):
            runs: list[list[Run]] = [[] for _ in trees]
            floors = []
            for _ in range(repeat):
                floors.append(float(floor(False, 4096, depth, seconds, True)["iops"]))
                for at, target in enumerate(targets):
                    say(f"{trees[at].name}: {count:,} connected, depth {depth}")
                    runs[at].append(measured(target, facts[at][0], 1, depth, seconds))
            for at, target in enumerate(targets):
                many, grown, of_host, idle = facts[at]
                calls = system_calls(target, many, depth, min(seconds, 0.5))
                yield Idle(
                    trees[at].name,
                    count,
                    many.connect_seconds,
                    grown,
                    of_host,
                    idle,
                    depth,
                    median(runs[at]),
                    calls,
                    statistics.median(floors),
                )
        say("")


def busy_rows(
    trees: Sequence[Tree], queues: int, depth: int, seconds: float, repeat: int, folder: Path
) -> Iterator[Busy]:
    """Measure, in turns, each tree's target with many queues that are all busy."""
    with ExitStack() as stack:
        targets = [stack.enter_context(tree.serving(folder)) for tree in trees]
        hosts = [stack.enter_context(connected(target, queues, depth)) for target in targets]
        runs: list[list[Run]] = [[] for _ in trees]
        floors = []
        for _ in range(repeat):
            floors.append(float(floor_many(queues, depth, seconds, STORE_BYTES)["iops"]))
            for at, target in enumerate(targets):
                say(f"{trees[at].name}: {queues} queues of depth {depth}")
                runs[at].append(measured(target, hosts[at], queues, depth, seconds))
        for at, tree in enumerate(trees):
            yield Busy(tree.name, queues, depth, median(runs[at]), statistics.median(floors))
        say("")


IDLE_HEADER = (
    f"{'tree':<8} {'queues':>7} {'connect':>8} {'each':>6} {'target':>8} {'host':>7} {'idle':>6} │ "
    f"{'qd':>3} {'IOPS':>8} {'p50 µs':>8} {'p99 µs':>8} {'target':>7} {'host':>6} {'calls':>6} │ "
    f"{'floor':>8} {'of it':>5}"
)
IDLE_UNITS = (
    f"{'':<8} {'':>7} {'s':>8} {'µs':>6} {'KiB each':>8} {'':>7} {'%':>6} │ {'':>3} "
    f"{'':>8} {'':>8} {'':>8} {'CPU µs':>7} {'':>6} {'':>6} │ {'IOPS':>8} {'':>5}"
)
BUSY_HEADER = (
    f"{'tree':<8} {'queues':>7} {'depth':>5} │ {'IOPS':>8} {'p50 µs':>8} {'p99 µs':>8} "
    f"{'p99/p50':>7} │ {'slowest':>8} {'fastest':>8} │ {'target':>7} {'host µs':>7} │ "
    f"{'floor':>8} {'of it':>5}"
)


def idle_line(row: Idle) -> str:
    calls = "" if row.calls is None else f"{row.calls:.1f}"
    return (
        f"{row.tree:<8} {row.queues:>7} {row.connect_seconds:>8.2f} "
        f"{row.connect_seconds * 1e6 / row.queues:>6.0f} {row.kib_a_queue:>8.1f} "
        f"{row.host_kib_a_queue:>7.1f} {row.idle_percent:>6.2f} │ {row.depth:>3} "
        f"{row.run.iops:>8.0f} {row.run.p50_us:>8.1f} {row.run.p99_us:>8.1f} "
        f"{row.run.target_cpu_us:>7.2f} {row.run.host_cpu_us:>6.2f} {calls:>6} │ "
        f"{row.floor_iops:>8.0f} {row.run.iops / max(row.floor_iops, 1):>5.2f}"
    )


def busy_line(row: Busy) -> str:
    run = row.run
    return (
        f"{row.tree:<8} {row.queues:>7} {row.depth:>5} │ {run.iops:>8.0f} {run.p50_us:>8.1f} "
        f"{run.p99_us:>8.1f} {run.p99_us / max(run.p50_us, 1e-3):>7.1f} │ "
        f"{run.queue_min_iops:>8.0f} {run.queue_max_iops:>8.0f} │ {run.target_cpu_us:>7.2f} "
        f"{run.host_cpu_us:>7.2f} │ {row.floor_iops:>8.0f} "
        f"{run.iops / max(row.floor_iops, 1):>5.2f}"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench --connections", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the rows to FILE")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs (default: 3)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one run (default: 1)")
    parser.add_argument(
        "--tree",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="measure the target of this tree, too, which ./dev build was run in",
    )
    parser.add_argument("--only", choices=("idle", "busy"), help="only this table")
    parser.add_argument(
        "--counts",
        metavar="N,N...",
        help=f"queues that are connected (default: {','.join(map(str, COUNTS))})",
    )
    args = parser.parse_args()
    if args.repeat < 1 or args.seconds < 0.1:
        parser.error("--repeat is at least 1 and --seconds at least 0.1")
    for tree in args.tree:
        if not (tree / ".venv" / "bin" / "python").exists():
            parser.error(f"{tree} has no .venv/bin/python: run ./dev build there")
    try:
        args.counts = [int(word) for word in args.counts.split(",")] if args.counts else COUNTS
    except ValueError:
        parser.error("--counts is numbers with commas between them")
    return args


def raise_descriptors() -> int:
    """To what this process may have; the programs that it starts inherit that."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def fits(count: int, most: int) -> bool:
    """Whether a process may have this many sockets, and what a host needs for its controllers."""
    need = count + 8 * (count // QUEUES_A_CONTROLLER + 1) + DESCRIPTORS
    if need > most:
        print(
            f"{count:,} queues take {need:,} descriptors, and the limit is {most:,}: raise it "
            "(ulimit -Hn) for this row"
        )
    return need <= most


def tables(args: argparse.Namespace) -> Iterator[Idle | Busy]:
    """Measure all rows, and print each at once."""
    trees = [Tree(None), *(Tree(path) for path in args.tree)]
    most = raise_descriptors()
    if args.only != "busy":
        print(
            f"Queues of depth {DEPTH}, {QUEUES_A_CONTROLLER} a controller, of which one has 4 KiB "
            f"random reads outstanding:\n\n{IDLE_HEADER}\n{IDLE_UNITS}"
        )
        for count in args.counts:
            if not fits(count, most):
                continue
            with tempfile.TemporaryDirectory(prefix="nvmeof-bench-") as folder:
                for idle in idle_rows(trees, count, args.seconds, args.repeat, Path(folder)):
                    print(idle_line(idle), flush=True)
                    yield idle
    if args.only != "idle":
        print(f"\nQueues that are all busy, 4 KiB random reads:\n\n{BUSY_HEADER}")
        for queues, depth in BUSY:
            with tempfile.TemporaryDirectory(prefix="nvmeof-bench-") as folder:
                for busy in busy_rows(
                    trees, queues, depth, args.seconds, args.repeat, Path(folder)
                ):
                    print(busy_line(busy), flush=True)
                    yield busy


def main() -> int:
    args = arguments()
    print(f"Machine: {machine()}, load {os.getloadavg()[0]:.1f}")
    print(
        "One reactor, one host thread with a poll group, loopback, embedded iWARP device, CRC off, "
        f"ram.\nMedians of {args.repeat} runs of {args.seconds:g} s; the target has max_queues = "
        f"65535 and max_io_queues = {QUEUES_A_CONTROLLER}.\n"
    )
    try:
        rows = [{"table": type(row).__name__.lower(), **asdict(row)} for row in tables(args)]
        if args.json:
            found = {"machine": machine(), "rows": rows}
            args.json.write_text(json.dumps(found, indent=2) + "\n")
    except (HarnessError, OSError) as error:
        say("")
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
