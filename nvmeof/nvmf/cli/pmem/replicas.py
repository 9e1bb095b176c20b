# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof pmem bench-replicas`: what a mirror and a log cost, against a single replica."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

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
from nvmf.cli.pmem.table import UNCONFIRMED, cpu_text
from nvmf.initiator import TransportId
from nvmf.pmem.figures import compared
from nvmf.pmem.logbench import LOG_METHODS
from nvmf.pmem.replicarows import LogRow, MirrorRow, ReplicaPlan, ReplicaResults, ResyncRow
from nvmf.pmem.replicated import LOADS, measure_all
from nvmf.replication import ReplicationError

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
        "measure a mirror, a log and a resynchronisation on several namespaces",
        "The mirror is compared with a single replica, the first one, at each size and depth:\n"
        "that is what replication costs; and both with the wire, the same bytes to as many\n"
        "targets at the same time by the engine, if the namespaces are exported to this host as\n"
        "memory.\n"
        "The log appends records of each size, from as many tasks as the depth says: records that\n"
        "wait at the same time travel together. Python begins and ends each operation: these are\n"
        "not figures of the engine. The mirror is also measured with write_many, one call for as\n"
        "many writes as the depth, unless there are reads. A resynchronisation is measured alone,\n"
        "and beside a load of writes, in slices that alternate with the load alone; of a\n"
        "namespace, 64 MiB are used. Writes have Force Unit Access set.\n\n"
        "The namespaces (NSID 1) are overwritten. They are reserved while they are measured, and\n"
        "stay so if the command fails or is interrupted: a next run ends that, or resv-register\n"
        "--nrkey 1 and then resv-release --rrela 1 --crkey 1.",
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
        default=LOADS,
        help=f"what to measure (default: {','.join(LOADS)})",
    )
    group.add_argument(
        "--quorum",
        metavar="N",
        type=int,
        help="replicas that have a write before it is acknowledged (default: the majority)",
    )
    group.add_argument(
        "--log-methods",
        metavar="M,M,...",
        type=_log_methods,
        default=("nvme-fua",),
        help=f"how the log's writes become persistent: {', '.join(LOG_METHODS)}; all but the first "
        "need namespaces that are exported to this host as memory (default: nvme-fua)",
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
    group.add_argument(
        "--ignore-assumptions",
        action="store_true",
        help="also measure methods of which a target does not confirm what they assume",
    )


def bench(args: argparse.Namespace) -> int:
    """Measure and print."""
    plan = _plan(args)
    results = ReplicaResults()

    async def work() -> int:
        try:
            await measure_all(plan, args.load, results, _say)
        except (OSError, ReplicationError) as error:
            raise CliError(getattr(error, "strerror", None) or str(error)) from None
        _print(args, plan, results)
        return EXIT_OK

    return run_async(work())


def _plan(args: argparse.Namespace) -> ReplicaPlan:
    count = len(args.urls)
    quorum = count // 2 + 1 if args.quorum is None else args.quorum
    if len(set(args.urls)) != count or count > 15:
        raise UsageError("expected 1 to 15 different replicas")
    if not 1 <= quorum <= count:
        raise UsageError(f"--quorum must be 1 to {count}, the number of replicas, not {quorum}")
    if not 0 <= args.rwmixread <= 100:
        raise UsageError(f"--rwmixread must be 0 to 100, not {args.rwmixread}")
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
        tuple(args.urls),
        quorum,
        args.bs,
        args.iodepth,
        args.runtime,
        args.rwmixread,
        processes,
        methods=args.log_methods,
        force=args.ignore_assumptions,
    )


def _log_methods(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(text.split(",")))
    if not set(found) <= set(LOG_METHODS):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(LOG_METHODS)}, not {text!r}")
    return found


def _loads(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(text.split(",")))
    if not set(found) <= set(LOADS):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(LOADS)}, not {text!r}")
    return found


def _say(what: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{what}")
        sys.stderr.flush()


def _print(args: argparse.Namespace, plan: ReplicaPlan, results: ReplicaResults) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if args.output_format == "json":
        print_json(
            {
                "urls": plan.urls,
                "quorum": plan.quorum,
                "seconds": plan.seconds,
                "read_percent": plan.read_percent,
                "mirror": plain(results.mirrors),
                "log": plain(results.logs),
                "resync": plain(results.resyncs),
            }
        )
        return
    print_replicas(results)


_MIRROR = ("system", "op", "size", "depth", "p50 us", "p99 us", "IOPS", "B/s", "host us",
           "target us", "x replica", "of wire")  # fmt: skip
_LOG = ("system", "method", "record", "tasks", "p50 us", "p99 us", "appends/s", "records/frame",
        "host us", "target us")  # fmt: skip
_RESYNC = ("system", "size", "depth", "IOPS alone", "IOPS beside", "loss", "B/s beside",
           "B/s alone", "of a copy")  # fmt: skip


def print_replicas(results: ReplicaResults) -> None:
    """Print the tables of what was measured."""
    mirrors = [line for row in results.mirrors for line in _mirror(row)]
    tables = (
        (_MIRROR, mirrors),
        (_LOG, [_log(row) for row in results.logs]),
        (_RESYNC, [_resync(row) for row in results.resyncs]),
    )
    first = True
    for header, lines in tables:
        if lines:
            if not first:
                print()
            print_table(header, lines)
            first = False
    if any(row["assumptions_unmet"] for row in results.logs):
        print(UNCONFIRMED)


def _mirror(row: MirrorRow) -> Iterator[tuple[str, ...]]:
    begin = (row["system"],)
    end = (size_text(row["size"]), str(row["depth"]))
    if row["figures"] is None:
        yield (*begin, "", *end, f"skipped: {row['skipped']}", *[""] * 7)
        return
    total = sum(part["ios"] for part in (row["figures"], row["reads"]) if part)
    told = compared(row["figures"], row["reads"])
    for word, part in (("write", row["figures"]), ("read", row["reads"])):
        if part is None or (not part["ios"] and part is not told):
            continue
        ratios = (row["times_replica"], row["of_wire"]) if part is told else (None, None)
        yield (
            *begin,
            word,
            *end,
            *(f"{part['percentiles_us'][p]:.0f}" for p in ("50", "99")),
            f"{part['iops']:.0f}",
            size_text(part["bytes_per_second"]),
            cpu_text(part["cpu_seconds"], total),
            cpu_text(row["target_cpu_seconds"], total),
            *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
        )


def _resync(row: ResyncRow) -> tuple[str, ...]:
    return (
        row["system"],
        size_text(row["size"]),
        str(row["depth"]),
        *(f"{row[key]:.0f}" for key in ("without_iops", "during_iops")),
        f"{row['loss']:.1%}",
        *(size_text(row[key]) for key in ("during_bytes_per_second", "idle_bytes_per_second")),
        f"{row['idle_bytes_per_second'] / row['copy_bytes_per_second']:.2f}",
    )


def _log(row: LogRow) -> tuple[str, ...]:
    figures = row["figures"]
    return (
        row["system"],
        row["method"] + ("*" if row["assumptions_unmet"] else ""),
        size_text(row["size"]),
        str(row["appenders"]),
        *(f"{figures['percentiles_us'][p]:.0f}" for p in ("50", "99")),
        f"{figures['iops']:.0f}",
        f"{row['records_per_frame']:.1f}",
        cpu_text(figures["cpu_seconds"], figures["ios"]),
        cpu_text(row["target_cpu_seconds"], figures["ios"]),
    )
