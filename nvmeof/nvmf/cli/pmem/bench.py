# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof pmem bench`: the methods of persistence, measured against the floor of the same run."""

from __future__ import annotations

import argparse
import asyncio
import sys

from nvmf.cli.base import (
    EXIT_OK,
    CliError,
    Subparsers,
    UsageError,
    add_command,
)
from nvmf.cli.common import (
    add_place_arguments,
    add_secret_arguments,
    options_of,
    run_async,
    where_of,
)
from nvmf.cli.connectflags import add_flags
from nvmf.cli.identify import EXAMPLE, add_namespace_argument
from nvmf.cli.output import plain, print_json
from nvmf.cli.pmem.arguments import (
    add_depths,
    add_processes,
    add_rounds,
    add_runtime,
    add_sizes,
    check_times,
    processes_of,
)
from nvmf.cli.pmem.table import facts_of, print_rows
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.client.bringup import device_kinds
from nvmf.pmem.bench import Plan, Results, measure
from nvmf.pmem.opening import Secrets
from nvmf.pmem.platform import ASSUMPTIONS, METHODS, MethodRefused

EXAMPLES = (
    EXAMPLE.format("pmem bench --force"),
    EXAMPLE.format("pmem bench --methods write-send,nvme-fua --bs 64,4k --iodepth 1,8 --force"),
    EXAMPLE.format("pmem bench --force --ignore-assumptions -o json"),
)


def add_commands(subparsers: Subparsers) -> None:
    """Add bench."""
    parser = add_command(
        subparsers,
        "bench",
        bench,
        "measure the methods of making a remote write persistent",
        "Each method is measured at each size and depth, after the floor: a bare exchange of the\n"
        "same bytes, an RDMA WRITE and a short message that the target answers at once. The\n"
        "namespace must be exported to this host as memory. Its content is overwritten.\n"
        "\n"
        "  nvme-fua          an NVMe Write with Force Unit Access\n"
        "  nvme-write-flush  an NVMe Write, then a Flush\n"
        "  write-read        an RDMA WRITE, and an RDMA READ behind it\n"
        "  write-flush       an RDMA WRITE, and an RDMA FLUSH of the same bytes (device roce)\n"
        "  write-flush-tail  the same, then an ATOMIC WRITE of a tail word, and its FLUSH\n"
        "  write-send        an RDMA WRITE, and a request behind it to the target's processor\n"
        "\n"
        "A method is refused if the target does not confirm what the method assumes of it;\n"
        "--ignore-assumptions measures it nevertheless, and marks the results. The processors of\n"
        "this machine poll: figures of a machine that has other work, or fewer than two\n"
        "processors for each end, are not those of the method.",
        examples=EXAMPLES,
    )
    add_namespace_argument(parser)
    group = parser.add_argument_group("load")
    group.add_argument(
        "--methods",
        metavar="M,M,...",
        type=_methods,
        default=METHODS,
        help=f"methods (default: {','.join(METHODS)})",
    )
    add_sizes(group)
    add_depths(group)
    add_runtime(group, 2.0)
    add_rounds(group)
    group.add_argument(
        "--rwmixread",
        metavar="PERCENT",
        type=int,
        default=0,
        help="share of reads, 0 to 100; the others write with the method (default: 0)",
    )
    add_processes(group)
    group.add_argument("--force", action="store_true", help="overwrite the namespace")
    group.add_argument(
        "--ignore-assumptions",
        action="store_true",
        help="also measure methods whose assumptions the target does not confirm",
    )
    add_place_arguments(parser)
    group = parser.add_argument_group("host")
    add_flags(group, ("hostnqn",))
    add_secret_arguments(parser)


def bench(args: argparse.Namespace) -> int:
    """Measure and print."""
    plan, results = _plan(args), Results()

    async def work() -> int:
        try:
            await measure(plan, results, _progress if _shown(args) else None)
        except asyncio.CancelledError:
            _print(args, plan, results)
            raise
        except MethodRefused as error:
            raise CliError(f"{error}; --ignore-assumptions measures it nevertheless") from None
        except OSError as error:
            raise CliError(error.strerror or str(error)) from None
        _print(args, plan, results)
        return EXIT_OK

    return run_async(work())


def _plan(args: argparse.Namespace) -> Plan:
    place = where_of(args)
    options = options_of(args, place, queues=1)
    check_times(args)
    if not 0 <= args.rwmixread <= 100:
        raise UsageError(f"--rwmixread must be 0 to 100, not {args.rwmixread}")
    processes = processes_of(args)
    if not args.force:
        raise UsageError(
            f"the load overwrites namespace {args.namespace_id} of {place.subnqn}: give --force"
        )
    return Plan(
        place=place,
        nsid=args.namespace_id,
        hostnqn=host_identity(options.hostnqn, options.hostid).nqn,
        device=device_kinds(options.device)[0],
        secrets=Secrets(*options.keys()),
        methods=args.methods,
        sizes=args.bs,
        depths=args.iodepth,
        seconds=args.runtime,
        rounds=args.rounds,
        read_percent=args.rwmixread,
        processes=processes,
        force=args.ignore_assumptions,
    )


def _methods(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(text.split(",")))
    for method in found:
        if method not in METHODS:
            raise argparse.ArgumentTypeError(f"{method!r} is not one of {', '.join(METHODS)}")
    return found


def _shown(args: argparse.Namespace) -> bool:
    return args.output_format != "json" and sys.stderr.isatty()


def _progress(done: int, total: int, what: str) -> None:
    sys.stderr.write(f"\r\x1b[K{done} of {total} done: {what}")
    sys.stderr.flush()


def _print(args: argparse.Namespace, plan: Plan, results: Results) -> None:
    if args.output_format == "json":
        print_json(_document(plan, results))
        return
    if _shown(args):
        sys.stderr.write("\r\x1b[K")
    known = [text for fact, text in ASSUMPTIONS.items() if fact in results.platform]
    print(f"The target of {plan.place.subnqn} at {plan.place.endpoint} confirms that")
    print("\n".join(f"- {text}" for text in known) or "- nothing")
    print_rows(results)


def _document(plan: Plan, results: Results) -> dict[str, object]:
    return {
        "url": str(plan.place),
        "nsid": plan.nsid,
        "device": plan.device,
        "seconds": plan.seconds,
        "rounds": plan.rounds,
        "read_percent": plan.read_percent,
        "platform": facts_of(results.platform),
        "results": plain(results.rows),
    }
