# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof write-zeroes`, `verify`, `dsm`, `copy`, `compare`: commands on ranges of blocks."""

from __future__ import annotations

import argparse
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from nvmf.cli.base import (
    EXIT_DIFFERS,
    EXIT_OK,
    EXIT_TROUBLE,
    CliError,
    Command,
    Differs,
    Subparsers,
    UsageError,
    add_command,
    complain,
    number_argument,
    size_argument,
)
from nvmf.cli.common import (
    ONE_QUEUE,
    add_block_flags,
    add_target_arguments,
    check_size,
    options_of,
    run_async,
    where_of,
)
from nvmf.cli.identify import (
    EXAMPLE,
    add_fua,
    add_namespace_argument,
    add_start_argument,
    room_from,
    to_move,
)
from nvmf.cli.output import counted, print_json
from nvmf.cli.protect import add_protection, check_protection, print_latency
from nvmf.initiator import Namespace, NvmeError, connect
from nvmf.spec.status import Status

_AD = 4
"""Attribute Deallocate, in dword 11 of Dataset Management (NVM 1.0, 3.2.3)."""
_RANGES = 256
_LARGEST = 64 << 20
"""Maximum bytes that compare takes."""


def add_commands(subparsers: Subparsers) -> None:
    """Add the commands."""
    parser = _add(
        subparsers, "write-zeroes", zeroes, "set blocks to zeroes, without sending them", "-b 8"
    )
    parser.add_argument(
        "-d", "--deac", action="store_true", help="allow the target to deallocate the blocks"
    )
    add_fua(parser, "the command")
    add_protection(parser)
    parser = _add(
        subparsers, "verify", verify, "have the target read blocks, without sending them", "-b 8"
    )
    add_fua(parser, "the command: blocks are made stable first")
    add_protection(parser)
    parser = _add(
        subparsers,
        "dsm",
        dsm,
        "deallocate blocks: their data is no longer needed (TRIM)",
        "--ad --slbs 8,128 --blocks 64,8",
        lists=True,
    )
    parser.add_argument("-d", "--ad", action="store_true", help="deallocate; nothing else is done")
    parser.add_argument(
        "-c",
        "--cdw11",
        metavar="N",
        type=number_argument,
        default=0,
        help="dword 11 of the command, as in nvme-cli: 4, which is --ad",
    )
    parser = _add(
        subparsers,
        "copy",
        copy,
        "have the target copy blocks, without transferring them",
        "--sdlba 1000 --slbs 8,128 --blocks 7,63",
        "The ranges are copied one after the other. They must not overlap the destination.",
        lists=True,
        zero_based=True,
    )
    parser.add_argument(
        "-d",
        "--sdlba",
        metavar="LBA",
        type=number_argument,
        required=True,
        help="first logical block of the destination",
    )
    add_fua(parser, "the command")
    parser = _add(
        subparsers,
        "compare",
        compare,
        "compare blocks with a file, without reading them",
        "-b 8 -d block.bin",
        "Exit status 1 if the content differs, and 2 for other failures, as cmp has.",
        counts=False,
    )
    parser.add_argument(
        "-d", "--data", metavar="FILE", type=Path, required=True, help="the expected content"
    )
    parser.add_argument(
        "-c",
        "--block-count",
        dest="compared",
        metavar="N",
        type=number_argument,
        help="number of logical blocks, 0's based as in nvme-cli (default: all of the file)",
    )
    parser.add_argument(
        "-z",
        "--data-size",
        metavar="BYTES",
        type=size_argument,
        help="number of bytes of the file to compare (default: all)",
    )
    add_fua(parser, "the command: blocks are made stable first")
    add_protection(parser, latency=True)
    parser.set_defaults(trouble=EXIT_TROUBLE)


def _add(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    flags: str,
    more: str = "",
    *,
    counts: bool = True,
    lists: bool = False,
    zero_based: bool = False,
) -> Command:
    example = EXAMPLE.format(f"{name} {flags}")
    parser = add_command(subparsers, name, run, summary, more, examples=(example,))
    add_namespace_argument(parser)
    if lists:
        _add_lists(parser, zero_based=zero_based)
    else:
        add_start_argument(parser)
    add_block_flags(parser, count=counts and not lists)
    add_target_arguments(parser, blocks=True, **ONE_QUEUE)
    return parser


def _add_lists(parser: Command, *, zero_based: bool) -> None:
    parser.add_argument(
        "--slbs",
        "--start-block",
        dest="start_block",
        metavar="LBA,...",
        type=_numbers,
        default=(),
        help="first logical blocks of the ranges (default: 0)",
    )
    parser.add_argument(
        "-b",
        "--blocks",
        dest="block_count",
        metavar="N,...",
        type=_numbers,
        default=(),
        help="numbers of logical blocks of the ranges, "
        + ("0's based as in nvme-cli (default: 0)" if zero_based else "not 0's based (default: 1)"),
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(number_argument(one) for one in text.split(","))


def zeroes(args: argparse.Namespace) -> int:
    """Execute Write Zeroes."""

    async def work(namespace: Namespace) -> None:
        lba, count = args.start_block, args.block_count
        await namespace.write_zeroes(lba, count, deallocate=args.deac, fua=args.force_unit_access)

    return _run(args, work, "set to zeroes")


def verify(args: argparse.Namespace) -> int:
    """Execute Verify."""

    async def work(namespace: Namespace) -> None:
        await namespace.verify(args.start_block, args.block_count, fua=args.force_unit_access)

    return _run(args, work, "can be read")


def dsm(args: argparse.Namespace) -> int:
    """Execute Dataset Management."""
    if args.cdw11 not in (0, _AD):
        raise UsageError(f"--cdw11 {args.cdw11:#x}: only {_AD} is supported, which is --ad")
    if not (args.ad or args.cdw11):
        raise UsageError("say what is to be done with the blocks: --ad deallocates them")
    place = where_of(args)
    ranges = _ranges(args, 1)
    if min(blocks for _, blocks in ranges) < 1:
        raise UsageError("a range has at least 1 block")
    options = options_of(args, place, **ONE_QUEUE)

    async def run() -> int:
        async with connect(place, options) as controller:
            namespace = to_move(controller, args.namespace_id)
            for start, count in ranges:
                room_from(namespace, start, count * namespace.block_size)
            await namespace.deallocate(ranges)
        if args.output_format == "json":
            found = [{"slba": slba, "blocks": n} for slba, n in ranges]
            print_json({"nsid": args.namespace_id, "ranges": found, "result": "deallocated"})
            return EXIT_OK
        for start, count in ranges:
            blocks = counted(count, "block")
            print(f"namespace {args.namespace_id}: {blocks} from {start}: deallocated")
        return EXIT_OK

    return run_async(run())


def copy(args: argparse.Namespace) -> int:
    """Execute Copy."""
    place = where_of(args)
    ranges = [(start, count + 1) for start, count in _ranges(args, 0)]
    total = sum(blocks for _, blocks in ranges)
    options = options_of(args, place, **ONE_QUEUE)

    async def run() -> int:
        async with connect(place, options) as controller:
            namespace = to_move(controller, args.namespace_id)
            for start, blocks in [*ranges, (args.sdlba, total)]:
                room_from(namespace, start, blocks * namespace.block_size)
            try:
                await namespace.copy(args.sdlba, ranges, fua=args.force_unit_access)
            except ValueError as error:
                raise CliError(str(error)) from None
        if args.output_format == "json":
            print_json({
                "nsid": args.namespace_id,
                "sdlba": args.sdlba,
                "ranges": [{"slba": slba, "blocks": n} for slba, n in ranges],
                "result": "copied",
            })  # fmt: skip
        else:
            copied = counted(total, "block")
            print(f"namespace {args.namespace_id}: {copied} copied to {args.sdlba}")
        return EXIT_OK

    return run_async(run())


def _ranges(args: argparse.Namespace, one: int) -> list[tuple[int, int]]:
    """Return (first block, number) of each range; one: the number of a range without one."""
    starts = args.start_block or (0,)
    counts = args.block_count or (one,) * len(starts)
    if len(starts) != len(counts):
        raise UsageError(
            f"there are {counted(len(starts), 'first block')} and {counted(len(counts), 'number')} "
            "of blocks: each range needs both"
        )
    if len(starts) > _RANGES:
        raise UsageError(f"a command has 1 to {_RANGES} ranges")
    return list(zip(starts, counts, strict=True))


def compare(args: argparse.Namespace) -> int:
    """Execute Compare."""
    with args.data.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise CliError(f"{args.data}: more than {_LARGEST} bytes cannot be compared at once")

    async def work(namespace: Namespace) -> None:
        nonlocal data
        size = namespace.block_size
        wanted = args.data_size
        if args.compared is not None:
            check_size(wanted, args.compared + 1, size)
            wanted = (args.compared + 1) * size
        if wanted is not None:
            if wanted > len(data):
                raise CliError(f"{args.data} has {len(data)} bytes, fewer than {wanted}")
            data = data[:wanted]
        if not data or len(data) % size:
            raise CliError(f"{args.data} has {len(data)} bytes, which are not blocks of {size}")
        args.block_count = len(data) // size
        room_from(namespace, args.start_block, len(data))
        try:
            await namespace.compare(args.start_block, data, fua=args.force_unit_access)
        except NvmeError as error:
            if error.status == Status.COMPARE_FAILURE:
                raise Differs(str(error)) from None
            raise

    args.block_count = 1
    try:
        return _run(args, work, "equal")
    except Differs as error:
        return complain(args.parser.prog, str(error), EXIT_DIFFERS)


def _run(args: argparse.Namespace, work: Callable[[Namespace], Awaitable[None]], done: str) -> int:
    """Run work on the namespace, and print the result."""
    place = where_of(args)
    check_protection(args)
    options = options_of(args, place, **ONE_QUEUE)

    async def run() -> int:
        async with connect(place, options) as controller:
            namespace = to_move(controller, args.namespace_id)
            size = args.block_count * namespace.block_size
            room_from(namespace, args.start_block, size)
            began = time.perf_counter()
            await work(namespace)
            spent = time.perf_counter() - began
        print_latency(args, spent)
        start, count = args.start_block, args.block_count
        if args.output_format == "json":
            print_json({"nsid": args.namespace_id, "slba": start, "blocks": count, "result": done})
        else:
            print(f"namespace {args.namespace_id}: {counted(count, 'block')} from {start}: {done}")
        return EXIT_OK

    return run_async(run())
