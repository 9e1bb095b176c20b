# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof top`: live activity of the hosts, queues and namespaces of a running target."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sized
from typing import TYPE_CHECKING

from nvmf.cli.base import (
    EXIT_OK,
    CliError,
    Subparsers,
    UsageError,
    number_argument,
    seconds_argument,
)
from nvmf.cli.target.client import add_rpc_command, socket_path, target
from nvmf.cli.top.rates import SORTS, Rates, rates

if TYPE_CHECKING:
    from nvmf.cli.top.keys import Keys
    from nvmf.rpc.results import Counters, Mirror

_SHORTEST = 0.1
"""Minimum seconds between two readings."""


def add_commands(subparsers: Subparsers) -> None:
    """Add top."""
    parser = add_rpc_command(
        subparsers,
        "top",
        top,
        "watch the hosts, queues and namespaces of a running target",
        "On a terminal, a live view: q quits, s changes the sort key (iops, bytes, outstanding,\n"
        "errors). Otherwise periodic snapshots; with -o json, one object per line. The states of\n"
        "mirrors and of their legs are in both.",
        examples=("nvmeof top", "nvmeof top -d 1 -n 10 -o json"),
    )
    parser.add_argument(
        "-d",
        "--delay",
        metavar="SECONDS",
        type=seconds_argument,
        default=2.0,
        help="interval between two readings (default: 2)",
    )
    parser.add_argument(
        "-n",
        "--iterations",
        metavar="COUNT",
        type=number_argument,
        help="stop after N readings (default: never)",
    )
    parser.add_argument("--sort", choices=SORTS, default="iops", help="sort key (default: iops)")


class Readings:
    """Successive rates of a target."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._last, _ = self._read()

    def _read(self) -> tuple[Counters, list[Mirror]]:
        with target(self._args) as rpc:
            return rpc.counters(), rpc.mirrors()

    def next(self) -> Rates:
        """Return the rates since the last call; raise CliError if the target has stopped."""
        try:
            now, mirrors = self._read()
        except CliError as error:
            raise CliError(f"lost contact with the target: {error}") from None
        found, self._last = rates(self._last, now, mirrors), now
        return found


def top(args: argparse.Namespace) -> int:
    """Watch until interrupted, or for --iterations readings."""
    if args.delay < _SHORTEST:
        raise UsageError(f"--delay must be at least {_SHORTEST:g} s")
    if args.iterations == 0:
        raise UsageError("--iterations must be at least 1")
    readings = Readings(args)
    with contextlib.suppress(KeyboardInterrupt), _terminated():
        if args.output_format == "json":
            _each(args, readings, lambda found: print(json.dumps(_stamped(found)), flush=True))
        elif sys.stdout.isatty():
            _watch(args, readings)
        else:
            from nvmf.cli.top import view

            _each(args, readings, lambda found: view.plain(found, args.sort, _header(args, found)))
    return EXIT_OK


@contextlib.contextmanager
def _terminated() -> Iterator[None]:
    """Handle SIGTERM like an interrupt, so that the terminal is restored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _each(args: argparse.Namespace, readings: Readings, show: Callable[[Rates], None]) -> None:
    count = 0
    while args.iterations is None or count < args.iterations:
        time.sleep(args.delay)
        show(readings.next())
        count += 1


def _stamped(found: Rates) -> dict[str, object]:
    return {"time": round(time.time(), 3), **found.record()}


def _header(args: argparse.Namespace, found: Rates) -> str:
    return (
        f"{time.strftime('%H:%M:%S')}  target at {socket_path(args)}, {found.seconds:.1f} s, "
        f"{_count(found.hosts, 'host')} with {_count(found.queues, 'queue')}, "
        f"{_count(found.namespaces, 'namespace')}"
    )


def _count(found: Sized, what: str) -> str:
    return f"{len(found)} {what}{'' if len(found) == 1 else 's'}"


def _watch(args: argparse.Namespace, readings: Readings) -> None:
    """Show the live view on the terminal."""
    from rich.live import Live

    from nvmf.cli.top import view
    from nvmf.cli.top.keys import Keys

    by, count = args.sort, 0
    with Keys() as keys, Live(screen=True, auto_refresh=False) as screen:
        found, at = Rates(0.0), time.monotonic()
        while True:
            header = f"{_header(args, found)}  by {by}, q quits"
            size = screen.console.size
            screen.update(view.live(found, by, size.height, header, size.width), refresh=True)
            key = _wait(keys, at + args.delay)
            if key == "q" or (not key and count == args.iterations):
                return
            if key == "s":
                by = SORTS[(SORTS.index(by) + 1) % len(SORTS)]
            elif not key:
                found, at = readings.next(), time.monotonic()
                count += 1


def _wait(keys: Keys, until: float) -> str:
    """Return the next known key, or "" when the time has come."""
    while (left := until - time.monotonic()) > 0:
        key = keys.wait(left)
        if key in ("q", "s"):
            return key
    return ""
