# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof write-uncor`, `compare-and-write`: commands on a few blocks."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from nvmf.cli.base import (
    EXIT_OK,
    CliError,
    Subparsers,
    UsageError,
    add_command,
    number_argument,
)
from nvmf.cli.common import add_target_arguments, options_of, run_async, where_of
from nvmf.cli.identify import EXAMPLE, add_namespace_argument, add_start_argument, room_from
from nvmf.cli.output import print_json
from nvmf.initiator import Namespace, NvmeError, connect
from nvmf.spec.status import Status

_LARGEST = 1 << 20
"""Bytes; no namespace has blocks so large."""
_DEFAULTS: dict[str, Any] = {"queues": 1, "ctrl_loss_tmo": 0}


def add_commands(subparsers: Subparsers) -> None:
    """write-uncor, compare-and-write."""
    parser = add_command(
        subparsers,
        "write-uncor",
        write_uncor,
        "mark blocks as invalid, so that reading them fails",
        "Write Uncorrectable: what the blocks had is lost. Writing them, zeroes too, or "
        "deallocating them makes them readable again.",
        examples=(EXAMPLE.format("write-uncor -b 8"),),
    )
    add_namespace_argument(parser)
    add_start_argument(parser)
    parser.add_argument(
        "--block-count",
        metavar="N",
        type=number_argument,
        default=1,
        help="how many logical blocks, not less one (default: 1)",
    )
    add_target_arguments(parser, **_DEFAULTS)
    parser = add_command(
        subparsers,
        "compare-and-write",
        compare_and_write,
        "write a block if it is as expected, as one",
        "Fused Compare and Write: exit status 1, and nothing was written, where the block is "
        "another.",
        examples=(EXAMPLE.format("compare-and-write --expected old.bin -d new.bin"),),
    )
    add_namespace_argument(parser)
    add_start_argument(parser)
    parser.add_argument(
        "--expected", metavar="FILE", type=Path, required=True, help="what the block has to be"
    )
    parser.add_argument(
        "-d", "--data", metavar="FILE", type=Path, required=True, help="what to write"
    )
    add_target_arguments(parser, **_DEFAULTS)


def write_uncor(args: argparse.Namespace) -> int:
    """Write Uncorrectable."""
    if not args.block_count:
        raise UsageError("--block-count is at least 1")

    async def work(namespace: Namespace) -> str:
        # Several commands may be needed: none is sent where the last of them must fail.
        room_from(namespace, args.start_block, args.block_count * namespace.block_size)
        await namespace.write_uncorrectable(args.start_block, args.block_count)
        if args.block_count == 1:
            return f"block {args.start_block} is invalid"
        return f"{args.block_count} blocks from {args.start_block} on are invalid"

    return run_async(_with(args, work, block_count=args.block_count))


def compare_and_write(args: argparse.Namespace) -> int:
    """Fused Compare and Write."""
    expected, new = _block(args.expected), _block(args.data)

    async def work(namespace: Namespace) -> str:
        try:
            await namespace.compare_and_write(args.start_block, expected, new)
        except NvmeError as error:
            if error.status == Status.INVALID_FIELD and (error.blocks or 0) > 1:
                raise CliError(f"{error}; acwu of id-ctrl says how many can be as one") from None
            raise
        return f"block {args.start_block} was as expected, and is written"

    return run_async(_with(args, work, bytes=len(new)))


def _block(path: Path) -> bytes:
    """What is in a file; CliError where that is no block, as what a device gives without end."""
    with path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise CliError(f"{path}: more than {_LARGEST} bytes are no block")
    return data


async def _with(
    args: argparse.Namespace, work: Callable[[Namespace], Awaitable[str]], **facts: object
) -> int:
    place = where_of(args)
    async with connect(place, options_of(args, place, **_DEFAULTS)) as controller:
        try:
            said = await work(controller.namespace(args.namespace_id))
        except ValueError as error:
            raise CliError(str(error)) from None
    if args.output_format == "json":
        print_json({"nsid": args.namespace_id, "slba": args.start_block, **facts})
    else:
        print(f"namespace {args.namespace_id}: {said}")
    return EXIT_OK
