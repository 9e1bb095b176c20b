# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof pmem bench-replicas`: what a mirror and a log cost, against a single replica."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, UsageError, add_command
from nvmf.cli.common import run_async
from nvmf.cli.output import plain, print_json, print_table, size_text
from nvmf.cli.pmem.arguments import (
    add_depths,
    add_processes,
    add_runtime,
    add_sizes,
    processes_of,
)
from nvmf.cli.pmem.table import cpu_text
from nvmf.initiator import TransportId
from nvmf.pmem.replicated import LogRow, MirrorRow, ReplicaPlan, measure_all
from nvmf.replication import ReplicationError

_LOADS = ("mirror", "log")
_URL = "nvme+rdma://192.0.2.{}/nqn.2026-11.io.example:disk"
_URLS = " ".join(_URL.format(number) for number in (10, 11, 12))
_TWO = " ".join(_URL.format(number) for number in (10, 11))
EXAMPLES = (
    f"nvmeof pmem bench-replicas --force {_URLS}",
    f"nvmeof pmem bench-replicas --force --load log --bs 64,512 {_TWO}",
)


def add_commands(subparsers: Subparsers) -> None:
    """Add bench-replicas."""
    parser = add_command(
        subparsers,
        "bench-replicas",
        bench,
        "measure a mirror and a log on several namespaces",
        "The mirror is compared with a single replica, the first one, at each size and depth:\n"
        "that is what replication costs. The log appends records of each size, from as many\n"
        "tasks as the depth says: records that wait at the same time travel together. Python\n"
        "begins and ends each operation: these are not figures of the engine. The mirror is also\n"
        "measured with write_many, one call for as many writes as the depth, unless there are\n"
        "reads. Writes have Force Unit Access set. The namespaces (NSID 1) are overwritten, and\n"
        "stay reserved for this host.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "urls", metavar="URL", nargs="+", help="a replica: nvme+rdma://HOST:PORT/NQN"
    )
    group = parser.add_argument_group("load")
    group.add_argument(
        "--load",
        metavar="WHAT,...",
        type=_loads,
        default=_LOADS,
        help=f"what to measure (default: {','.join(_LOADS)})",
    )
    group.add_argument(
        "--quorum",
        metavar="N",
        type=int,
        help="replicas that have a write before it is acknowledged (default: the majority)",
    )
    add_sizes(group)
    add_depths(group)
    group.add_argument(
        "--rwmixread",
        metavar="PERCENT",
        type=int,
        default=0,
        help="share of reads of the mirror's load (default: 0)",
    )
    add_runtime(group, 2.0)
    add_processes(group)
    group.add_argument("--force", action="store_true", help="overwrite the namespaces")


def bench(args: argparse.Namespace) -> int:
    """Measure and print."""
    plan = _plan(args)
    mirrors: list[MirrorRow] = []
    logs: list[LogRow] = []

    async def work() -> int:
        try:
            await measure_all(plan, args.load, mirrors, logs, _say)
        except* (OSError, ReplicationError) as group:
            error = _first(group)
            raise CliError(getattr(error, "strerror", None) or str(error)) from None
        _print(args, plan, mirrors, logs)
        return EXIT_OK

    return run_async(work())


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _plan(args: argparse.Namespace) -> ReplicaPlan:
    count = len(args.urls)
    quorum = count // 2 + 1 if args.quorum is None else args.quorum
    if len(set(args.urls)) != count or count > 15:
        raise UsageError("expected 1 to 15 different replicas")
    if not 1 <= quorum <= count:
        raise UsageError(f"--quorum must be 1 to {count}, the number of replicas, not {quorum}")
    if not 0 <= args.rwmixread <= 99:
        raise UsageError(f"--rwmixread must be 0 to 99, not {args.rwmixread}")
    if args.runtime <= 0:
        raise UsageError(f"--runtime must be more than 0 seconds, not {args.runtime:g}")
    for url in args.urls:
        try:
            TransportId.of(url)
        except ValueError as error:
            raise UsageError(str(error)) from None
    processes = processes_of(args)
    if not args.force:
        raise UsageError(f"the load overwrites {count} namespaces: give --force")
    return ReplicaPlan(
        tuple(args.urls), quorum, args.bs, args.iodepth, args.runtime, args.rwmixread, processes
    )


def _loads(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(text.split(",")))
    if not set(found) <= set(_LOADS):
        raise argparse.ArgumentTypeError(f"expected {' or '.join(_LOADS)}, not {text!r}")
    return found


def _say(what: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{what}")
        sys.stderr.flush()


def _print(
    args: argparse.Namespace, plan: ReplicaPlan, mirrors: list[MirrorRow], logs: list[LogRow]
) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if args.output_format == "json":
        print_json(
            {
                "urls": plan.urls,
                "quorum": plan.quorum,
                "seconds": plan.seconds,
                "read_percent": plan.read_percent,
                "mirror": plain(mirrors),
                "log": plain(logs),
            }
        )
        return
    print_replicas(mirrors, logs)


def print_replicas(mirrors: Sequence[MirrorRow], logs: Sequence[LogRow]) -> None:
    """Print the tables of what was measured."""
    if mirrors:
        print_table(
            ("system", "op", "size", "depth", "p50 us", "p99 us", "IOPS", "B/s", "host us",
             "target us", "x replica"),
            [line for row in mirrors for line in _mirror(row)],
        )  # fmt: skip
    if mirrors and logs:
        print()
    if logs:
        print_table(
            ("system", "record", "tasks", "p50 us", "p99 us", "appends/s", "records/frame",
             "host us", "target us"),
            [_log(row) for row in logs],
        )  # fmt: skip


def _mirror(row: MirrorRow) -> Iterator[tuple[str, ...]]:
    begin = (row["system"],)
    end = (size_text(row["size"]), str(row["depth"]))
    if row["figures"] is None:
        yield (*begin, "", *end, f"skipped: {row['skipped']}", *[""] * 6)
        return
    total = sum(part["ios"] for part in (row["figures"], row["reads"]) if part)
    for word, part in (("write", row["figures"]), ("read", row["reads"])):
        if part is None:
            continue
        ratio = row["times_replica"] if word == "write" else None
        yield (
            *begin,
            word,
            *end,
            *(f"{part['percentiles_us'][p]:.0f}" for p in ("50", "99")),
            f"{part['iops']:.0f}",
            size_text(part["bytes_per_second"]),
            cpu_text(part["cpu_seconds"], total),
            cpu_text(row["target_cpu_seconds"], total),
            "" if ratio is None else f"{ratio:.2f}",
        )


def _log(row: LogRow) -> tuple[str, ...]:
    figures = row["figures"]
    return (
        row["system"],
        size_text(row["size"]),
        str(row["appenders"]),
        *(f"{figures['percentiles_us'][p]:.0f}" for p in ("50", "99")),
        f"{figures['iops']:.0f}",
        f"{row['records_per_frame']:.1f}",
        cpu_text(figures["cpu_seconds"], figures["ios"]),
        cpu_text(row["target_cpu_seconds"], figures["ios"]),
    )
