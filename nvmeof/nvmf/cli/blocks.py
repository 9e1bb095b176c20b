# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof write-uncor`, `compare-and-write`: commands on a few blocks."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from pathlib import Path

from nvmf.cli.base import (
    EXIT_DIFFERS,
    EXIT_OK,
    EXIT_TROUBLE,
    CliError,
    Differs,
    Subparsers,
    add_command,
    complain,
)
from nvmf.cli.common import (
    ONE_QUEUE,
    add_block_flags,
    add_target_arguments,
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
)
from nvmf.cli.output import print_json
from nvmf.initiator import Namespace, NvmeError, connect
from nvmf.spec.status import Status

_LARGEST = 1 << 20
"""Upper limit of a block's size in bytes."""


def add_commands(subparsers: Subparsers) -> None:
    """Add write-uncor and compare-and-write."""
    parser = add_command(
        subparsers,
        "write-uncor",
        write_uncor,
        "mark blocks as invalid, so that reading them fails",
        "Write Uncorrectable: data in the blocks are lost. Writing or zeroing them, or "
        "deallocating them makes them readable again.",
        examples=(EXAMPLE.format("write-uncor -b 8"),),
    )
    add_namespace_argument(parser)
    add_start_argument(parser)
    add_block_flags(parser)
    add_target_arguments(parser, blocks=True, **ONE_QUEUE)
    parser = add_command(
        subparsers,
        "compare-and-write",
        compare_and_write,
        "write a block if it has the expected content, atomically",
        "Fused Compare and Write: if the block has different content, nothing is written and the "
        "exit status is 1.",
        examples=(EXAMPLE.format("compare-and-write --expected old.bin -d new.bin"),),
    )
    add_namespace_argument(parser)
    add_start_argument(parser)
    parser.add_argument(
        "--expected",
        metavar="FILE",
        type=Path,
        required=True,
        help="the expected content of the block",
    )
    parser.add_argument(
        "-d", "--data", metavar="FILE", type=Path, required=True, help="the new content"
    )
    add_fua(parser, "the Write")
    add_block_flags(parser, count=False)
    add_target_arguments(parser, blocks=True, **ONE_QUEUE)
    parser.set_defaults(trouble=EXIT_TROUBLE)


def write_uncor(args: argparse.Namespace) -> int:
    """Execute Write Uncorrectable."""

    async def work(namespace: Namespace) -> str:
        # Several commands may be needed: send none if the last would fail.
        room_from(namespace, args.start_block, args.block_count * namespace.block_size)
        await namespace.write_uncorrectable(args.start_block, args.block_count)
        if args.block_count == 1:
            return f"block {args.start_block} is invalid"
        return f"{args.block_count} blocks starting at {args.start_block} are invalid"

    return run_async(_with(args, work, block_count=args.block_count))


def compare_and_write(args: argparse.Namespace) -> int:
    """Execute fused Compare and Write."""
    expected, new = _block(args.expected), _block(args.data)

    async def work(namespace: Namespace) -> str:
        try:
            await namespace.compare_and_write(
                args.start_block, expected, new, fua=args.force_unit_access
            )
        except NvmeError as error:
            if error.status == Status.COMPARE_FAILURE:
                raise Differs(str(error)) from None
            if error.status == Status.INVALID_FIELD and (error.blocks or 0) > 1:
                raise CliError(f"{error}; acwu of id-ctrl is the maximum") from None
            raise
        return f"block {args.start_block} had the expected content and was written"

    try:
        return run_async(_with(args, work, bytes=len(new)))
    except Differs as error:
        return complain(args.parser.prog, str(error), EXIT_DIFFERS)


def _block(path: Path) -> bytes:
    """Return the content of a file; raise CliError if it is too large or endless."""
    with path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise CliError(f"{path}: a block cannot have more than {_LARGEST} bytes")
    return data


async def _with(
    args: argparse.Namespace, work: Callable[[Namespace], Awaitable[str]], **facts: object
) -> int:
    place = where_of(args)
    async with connect(place, options_of(args, place, **ONE_QUEUE)) as controller:
        try:
            said = await work(controller.namespace(args.namespace_id))
        except ValueError as error:
            raise CliError(str(error)) from None
    if args.output_format == "json":
        print_json({"nsid": args.namespace_id, "slba": args.start_block, **facts})
    else:
        print(f"namespace {args.namespace_id}: {said}")
    return EXIT_OK
