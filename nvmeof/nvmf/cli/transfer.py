# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof read`, `write`, `flush`: transfers between a namespace and a file or pipe."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import BinaryIO

from nvmf.cli.base import (
    EXIT_OK,
    CliError,
    Failures,
    Subparsers,
    add_command,
    size_argument,
)
from nvmf.cli.common import (
    add_block_flags,
    add_target_arguments,
    check_size,
    in_thread,
    options_of,
    run_async,
    where_of,
)
from nvmf.cli.datafile import get_data, length_of, open_data, put_data
from nvmf.cli.identify import (
    EXAMPLE,
    add_fua,
    add_namespace_argument,
    add_start_argument,
    room_from,
    to_move,
)
from nvmf.cli.output import Progress, print_json
from nvmf.cli.protect import add_protection, check_protection, print_latency
from nvmf.engine import EngineError, HostMemory
from nvmf.initiator import ConnectionLost, Controller, Namespace, NvmeError, connect

CHUNK = 4 << 20
"""Bytes per read or write; two chunks are in progress at once."""


def add_commands(subparsers: Subparsers) -> None:
    """Add read, write and flush."""
    parser = add_command(
        subparsers,
        "read",
        read,
        "copy blocks of a namespace to a file or to stdout",
        examples=(
            EXAMPLE.format("read -z 1MiB -d first.img"),
            EXAMPLE.format("read --blocks 1") + " | hexdump -C",
        ),
    )
    _add_range(parser, "to the end of the namespace")
    parser.add_argument(
        "-d", "--data", metavar="FILE", default="-", help="destination (default: -, stdout)"
    )
    add_fua(parser, "each read")
    add_target_arguments(parser, blocks=True)
    add_protection(parser, latency=True)
    parser = add_command(
        subparsers,
        "write",
        write,
        "copy a file or stdin to blocks of a namespace, and flush",
        examples=(
            EXAMPLE.format("write -d disk.img"),
            "echo hello | " + EXAMPLE.format("write -b 8 --pad"),
        ),
    )
    _add_range(parser, "all of the input")
    parser.add_argument(
        "-d", "--data", metavar="FILE", default="-", help="source (default: -, stdin)"
    )
    add_fua(parser, "each write")
    parser.add_argument(
        "--pad", action="store_true", help="pad an incomplete last block with zeroes"
    )
    parser.add_argument("--no-flush", action="store_true", help="do not flush at the end")
    add_target_arguments(parser, blocks=True)
    add_protection(parser, latency=True)
    parser = add_command(
        subparsers,
        "flush",
        flush,
        "commit written data of a namespace to non-volatile media",
        examples=(EXAMPLE.format("flush"),),
    )
    add_namespace_argument(parser)
    add_target_arguments(parser)


def _add_range(parser: argparse.ArgumentParser, default: str) -> None:
    add_namespace_argument(parser)
    add_start_argument(parser)
    parser.add_argument(
        "-z",
        "--data-size",
        metavar="BYTES",
        type=size_argument,
        help=f"size, such as 4096 or 1MiB (default: {default})",
    )
    add_block_flags(parser, default=None, meaning=default)


def read(args: argparse.Namespace) -> int:
    """Copy from namespace to file."""
    if args.data == "-":
        Failures.as_json = False  # stdout has the data
    return run_async(_read(args))


def write(args: argparse.Namespace) -> int:
    """Copy from file to namespace."""
    return run_async(_write(args))


def flush(args: argparse.Namespace) -> int:
    """Flush."""

    async def run() -> int:
        place = where_of(args)
        async with connect(place, options_of(args, place)) as controller:
            namespace = controller.namespace(args.namespace_id)
            await namespace.flush()
        if args.output_format == "json":
            print_json({"nsid": namespace.nsid, "flushed": True})
        else:
            print(f"namespace {namespace.nsid} flushed")
        return EXIT_OK

    return run_async(run())


@contextlib.asynccontextmanager
async def _controller(args: argparse.Namespace) -> AsyncIterator[Controller]:
    place = where_of(args)
    check_protection(args)
    async with connect(place, options_of(args, place)) as controller:
        yield controller


def _wanted(args: argparse.Namespace, namespace: Namespace) -> int | None:
    """Return the requested bytes; None: everything."""
    size: int | None = args.data_size
    if args.block_count is not None:
        check_size(size, args.block_count, namespace.block_size)
        size = args.block_count * namespace.block_size
    room_from(namespace, args.start_block, size)
    return size


async def _read(args: argparse.Namespace) -> int:
    async with _controller(args) as controller:
        namespace = to_move(controller, args.namespace_id)
        size = _wanted(args, namespace)
        if size is None:
            size = room_from(namespace, args.start_block)
        with open_data(args.data, "wb") as out, _Chunks(controller, namespace, size) as chunks:
            progress = Progress("read", size, show=_show(args))
            lba, left = args.start_block, size

            async def fetch(view: memoryview, lba: int, count: int) -> None:
                blocks = -(-count // namespace.block_size)
                with view[: blocks * namespace.block_size] as part:
                    await namespace.readinto(lba, part, fua=args.force_unit_access)

            ready: tuple[memoryview, int] | None = None
            try:
                while left or ready:
                    count = min(left, chunks.size)
                    view = chunks.next()
                    fetching = asyncio.create_task(fetch(view, lba, count)) if count else None
                    try:
                        if ready:
                            await in_thread(put_data, out, *ready)
                            progress.add(ready[1])
                    finally:
                        if fetching:
                            await fetching
                    ready = (view, count) if count else None
                    lba, left = lba + count // namespace.block_size, left - count
            except BrokenPipeError:
                raise
            except NvmeError:
                with contextlib.suppress(ConnectionLost):
                    await _put_before_error(out, view, count, lba, fetch, namespace, progress)
                _tell_valid(args, progress, also_none=True)
                raise
            except BaseException:
                _tell_valid(args, progress)
                raise
    return _report(args, progress, to_stdout=args.data == "-")


async def _put_before_error(
    out: BinaryIO,
    view: memoryview,
    size: int,
    lba: int,
    fetch: Callable[[memoryview, int, int], Coroutine[object, None, None]],
    namespace: Namespace,
    progress: Progress,
) -> None:
    """Copy the blocks of a chunk that are before the first one that cannot be read."""
    done, step = 0, size
    while done < size:
        # Half of the blocks that failed together, down to one block.
        if not (step := step // 2 // namespace.block_size * namespace.block_size):
            return
        with contextlib.suppress(NvmeError):
            while done < size:
                count = min(step, size - done)
                await fetch(view, lba + done // namespace.block_size, count)
                await in_thread(put_data, out, view, count)
                progress.add(count)
                done += count


def _tell_valid(args: argparse.Namespace, progress: Progress, *, also_none: bool = False) -> None:
    """Print on stderr how much of the destination is valid after a failure or an interrupt.

    also_none: print it if nothing is, too.
    """
    progress.end()
    where = "the output" if args.data == "-" else args.data
    if also_none and not progress.done:
        print(f"nothing was copied to {where}", file=sys.stderr)
    if progress.done:
        print(f"the first {progress.done} bytes of {where} are valid", file=sys.stderr)


async def _write(args: argparse.Namespace) -> int:
    async with _controller(args) as controller:
        namespace = to_move(controller, args.namespace_id)
        limit = _wanted(args, namespace)
        with open_data(args.data, "rb") as source:
            total = limit if limit is not None else length_of(source)
            room = room_from(namespace, args.start_block)
            if total is not None and total > room:
                raise CliError(
                    f"{args.data} has {total} bytes, but only {room} remain in namespace "
                    f"{namespace.nsid} from block {args.start_block} on; use -z to write part of it"
                )
            there = length_of(source)
            if limit is not None and there is not None and there < limit:
                raise CliError(
                    f"{args.data} has {there} bytes, fewer than --data-size{_padded(args)}"
                )
            if total is not None and total % namespace.block_size and not args.pad:
                raise CliError(_short(total % namespace.block_size, namespace, "nothing was"))
            progress = Progress("write", total, show=_show(args))
            with _Chunks(controller, namespace, total) as chunks:
                try:
                    await _pump(args, namespace, source, limit, chunks, progress)
                except asyncio.CancelledError:
                    print(f"{progress.end()}, at most; not flushed", file=sys.stderr)
                    raise
        if not args.no_flush:
            await namespace.flush()
    return _report(args, progress, to_stdout=False)


async def _pump(
    args: argparse.Namespace,
    namespace: Namespace,
    source: BinaryIO,
    limit: int | None,
    chunks: _Chunks,
    progress: Progress,
) -> None:
    """Read a chunk while writing the previous one."""
    lba, left = args.start_block, limit

    async def put(view: memoryview, lba: int, length: int) -> None:
        with view[:length] as part:
            await namespace.write(lba, part, fua=args.force_unit_access)

    writing: asyncio.Task[None] | None = None
    try:
        while True:
            view = chunks.next()
            most = chunks.size if left is None else min(left, chunks.size)
            count = await in_thread(get_data, source, view, most) if most else 0
            if writing:
                await writing
                writing = None
            if not count:
                break
            length = _whole_blocks(args, namespace, view, count, progress.done)
            if lba + length // namespace.block_size > namespace.blocks:
                raise CliError(
                    f"namespace {namespace.nsid} is full: {progress.done} bytes were written"
                )
            writing = asyncio.create_task(put(view, lba, length))
            progress.add(count)
            lba += length // namespace.block_size
            if left is not None:
                left -= count
    finally:
        if writing:
            await asyncio.gather(writing, return_exceptions=True)
    if left:
        raise CliError(f"{args.data} ended {left} bytes before --data-size{_padded(args)}")


def _padded(args: argparse.Namespace) -> str:
    """Return a hint for a source that is shorter than --data-size."""
    return "; --pad completes its last block only: omit --data-size" if args.pad else ""


def _short(rest: int, namespace: Namespace, written: str) -> str:
    return (
        f"the last block is incomplete: {rest} bytes of {namespace.block_size}, and {written} "
        "written; use --pad to pad it with zeroes"
    )


def _whole_blocks(
    args: argparse.Namespace, namespace: Namespace, view: memoryview, count: int, done: int
) -> int:
    """Return count rounded up to whole blocks, after padding with zeroes."""
    rest = count % namespace.block_size
    if not rest:
        return count
    if not args.pad:
        raise CliError(_short(rest, namespace, f"{done} bytes before it were"))
    length = count + namespace.block_size - rest
    view[count:length] = bytes(length - count)
    return length


class _Chunks:
    """Registered buffers for two chunks, used alternately."""

    def __init__(self, controller: Controller, namespace: Namespace, total: int | None) -> None:
        block = namespace.block_size
        least = -(-(CHUNK if total is None else max(total, 1)) // block) * block
        self.size = min(CHUNK, least)
        self._memory: HostMemory = controller.alloc(2 * self.size)
        whole = memoryview(self._memory)
        self._views = [whole[: self.size], whole[self.size :]]
        whole.release()

    def __enter__(self) -> _Chunks:
        return self

    def __exit__(self, *_: object) -> None:
        # An interrupted transfer still uses the memory, which is released with the controller.
        with contextlib.suppress(BufferError, EngineError):
            for view in self._views:
                view.release()
            self._memory.close()

    def next(self) -> memoryview:
        """Return the next buffer."""
        self._views.reverse()
        return self._views[0]


def _show(args: argparse.Namespace) -> bool:
    return bool(args.verbose) or sys.stderr.isatty()


def _report(args: argparse.Namespace, progress: Progress, *, to_stdout: bool) -> int:
    """Print the rate on stderr; for JSON on stdout, unless that has the data."""
    sentence = progress.end()
    print_latency(args, progress.summary()["seconds"])
    if args.output_format == "json":
        print_json(progress.summary(), sys.stderr if to_stdout else sys.stdout)
    else:
        print(sentence, file=sys.stderr)
    return EXIT_OK
