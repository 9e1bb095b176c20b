# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof bench`: a load of the engine's own, without Python in its path."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import re
from typing import Any

from nvmf.cli.base import (
    EXIT_OK,
    CliError,
    Subparsers,
    UsageError,
    add_command,
    number_argument,
    size_argument,
)
from nvmf.cli.common import (
    URL_OPTIONS,
    add_identity_arguments,
    add_place_arguments,
    in_thread,
    options_of,
    run_async,
    seconds_argument,
    url_options_help,
    where_of,
)
from nvmf.cli.identify import EXAMPLE, add_namespace_argument
from nvmf.cli.output import print_fields, print_json, rate_text
from nvmf.engine import EngineError, bench_cancel, bench_threads
from nvmf.engine import bench as engine_bench
from nvmf.initiator import NvmeError
from nvmf.initiator.base.errors import status_hint
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.client.bringup import device_kinds

_OPTIONS = ("queues", "queue_depth", "hostnqn", "device", "remote_keys")
"""Options of a URL that the engine's load has a use for."""


def add_commands(subparsers: Subparsers) -> None:
    """bench."""
    parser = add_command(
        subparsers,
        "bench",
        bench,
        "measure a namespace: IOPS, bytes a second, latency",
        "A write load overwrites the namespace. -i is the number of queues, on as many\n"
        "controllers as it takes, and -Q the commands that each has outstanding. The queues are\n"
        "shared by --threads threads, each of which polls and so uses a CPU. The load has no\n"
        "keep-alive and does not reconnect.",
        examples=(
            EXAMPLE.format("bench --rw randread -z 4k -Q 32"),
            EXAMPLE.format("bench --rw write -z 128KiB -Q 8 -i 4 --runtime 30"),
        ),
    )
    add_namespace_argument(parser)
    parser.add_argument(
        "--rw",
        choices=("read", "write", "randread", "randwrite"),
        default="randread",
        help="the load (default: randread)",
    )
    parser.add_argument(
        "-z",
        "--data-size",
        metavar="BYTES",
        type=size_argument,
        default=4096,
        help="of one command (default: 4096)",
    )
    parser.add_argument(
        "--read-percent",
        metavar="N",
        type=number_argument,
        help="mix: this share of reads, 0 to 100 (default: what --rw says)",
    )
    parser.add_argument(
        "--runtime",
        metavar="SECONDS",
        type=seconds_argument,
        default=5.0,
        help="how long (default: 5)",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=number_argument,
        help="that poll the queues (default: one for each, but one less than there are CPUs)",
    )
    parser.add_argument(
        "--cpu",
        metavar="N",
        type=number_argument,
        help="pin the first thread to this CPU, the others to those after it",
    )
    add_place_arguments(parser)
    group = parser.add_argument_group("as whom, and how")
    add_identity_arguments(group)
    for short, long, what in (
        ("-i", "--nr-io-queues", "I/O queues (default: 1)"),
        ("-Q", "--queue-size", "commands outstanding on each (default: 32)"),
    ):
        group.add_argument(short, long, metavar="N", type=number_argument, help=what)
    parser.epilog = url_options_help(_OPTIONS)


def bench(args: argparse.Namespace) -> int:
    """Run the load and print what it did."""
    place = where_of(args)
    for name in place.options:
        if name in URL_OPTIONS and name not in _OPTIONS:
            raise UsageError(f"bench has no use for the option {name} of the URL: leave it out")
    depth = args.queue_size
    if depth is None:
        depth = place.options.get("queue_depth", 32)
    if not 1 <= depth <= 65534:
        raise UsageError(f"--queue-size is 1 to 65534 commands outstanding, not {depth}")
    args.queue_size = depth + 1  # entries of a queue that so many fit into
    options = options_of(args, place, queues=1)
    if not 0 < args.data_size < 1 << 32:
        raise UsageError(f"--data-size is more than 0 and less than 4GiB, not {args.data_size}")
    if args.runtime <= 0:
        raise UsageError(f"--runtime is more than 0 seconds, not {args.runtime:g}")
    if args.read_percent is not None and not 0 <= args.read_percent <= 100:
        raise UsageError(f"--read-percent is 0 to 100, not {args.read_percent}")
    if args.threads is not None and not 1 <= args.threads <= options.queues:
        raise UsageError(
            f"--threads is 1 to the number of queues (-i), {options.queues}, not {args.threads}"
        )
    threads = args.threads or bench_threads(options.queues)
    cpu = _cpu(args.cpu, threads)

    def run() -> dict[str, Any]:
        return engine_bench(
            traddr=place.traddr,
            trsvcid=place.trsvcid,
            subnqn=place.subnqn,
            rw=args.rw,
            block_size=args.data_size,
            queue_depth=depth,
            seconds=args.runtime,
            queues=options.queues,
            threads=threads,
            nsid=args.namespace_id,
            read_percent=-1 if args.read_percent is None else args.read_percent,
            cpu=cpu,
            kind=device_kinds(options.device)[0],
            hostnqn=host_identity(options.hostnqn, options.hostid).nqn,
            remote_keys=options.remote_keys,
        )

    async def work() -> int:
        load = asyncio.ensure_future(in_thread(run))
        try:
            result = await asyncio.shield(load)
        except asyncio.CancelledError:
            bench_cancel()
            await asyncio.wait({load}, timeout=1)  # for the target to see the host off
            if load.done():
                load.exception()  # whatever it is, an interrupt was asked for
            raise
        except EngineError as error:
            raise CliError(_sentence(error)) from None
        result = {
            "workload": args.rw,
            "block_size": args.data_size,
            "queue_depth": depth,
            "queues": options.queues,
            "threads": threads,
            **result,
        }
        if args.output_format == "json":
            print_json(result)
            return EXIT_OK
        ios = int(result["ios"])
        spread = {
            "each queue": f"{result['queue_min_iops']:.0f} to {result['queue_max_iops']:.0f} IOPS"
        }
        print_fields(
            {
                "load": f"{args.rw}, {args.data_size} bytes, queue depth {depth}, "
                f"{_some(options.queues, 'queue')}, {_some(threads, 'thread')}",
                "commands": f"{ios} in {result['seconds']:.2f} s",
                "IOPS": f"{result['iops']:.0f}",
                **(spread if options.queues > 1 else {}),
                "bandwidth": rate_text(int(result["bytes"]), result["seconds"]),
                "latency": f"mean {result['mean_us']:.1f} µs, p50 {result['p50_us']:.1f} µs, "
                f"p99 {result['p99_us']:.1f} µs, p99.9 {result['p999_us']:.1f} µs",
                "CPU": f"{1e6 * result['cpu_seconds'] / max(ios, 1):.2f} µs a command",
            }
        )
        return EXIT_OK

    return run_async(work())


def _some(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _cpu(first: int | None, threads: int) -> int:
    """The first CPU as the engine has it; UsageError if a thread would find none."""
    if first is None:
        return -1
    usable = os.sched_getaffinity(0)
    for cpu in range(first, first + threads):
        if cpu not in usable:
            raise UsageError(
                f"--cpu {first} with {_some(threads, 'thread')} takes CPU {cpu}, "
                f"which this process may not use: it has {', '.join(map(str, sorted(usable)))}"
            )
    return first


def _sentence(error: EngineError) -> str:
    """The engine's words, with the status as other commands have it, and what to do."""
    said = str(error)
    if error.errno == errno.EMFILE:
        return f"{said}: ask for fewer with -i"
    status = re.search(r"\(status 0x([0-9a-f]+)\)", said)
    if status is None:
        return said
    told = NvmeError.from_wire(int(status[1], 16))
    hint = status_hint(told.status)
    return said.replace(status[0], told.code_text) + (f"; {hint}" if hint else "")
