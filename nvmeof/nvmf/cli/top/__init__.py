# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof top`: what hosts, queues and namespaces of a running target do, as it happens."""

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

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, UsageError, number_argument
from nvmf.cli.common import seconds_argument
from nvmf.cli.target.client import add_rpc_command, call, socket_path
from nvmf.cli.top.rates import SORTS, Counters, Rates, rates

if TYPE_CHECKING:
    from nvmf.cli.top.keys import Keys

_SHORTEST = 0.1
"""Seconds between two readings, at least."""


def add_commands(subparsers: Subparsers) -> None:
    """top."""
    parser = add_rpc_command(
        subparsers,
        "top",
        top,
        "watch what hosts, queues and namespaces of a running target do",
        "On a terminal a view that is renewed: q ends it, s sorts by the next of iops, bytes,\n"
        "outstanding and errors. Elsewhere a snapshot each time; with -o json an object a line.",
        examples=("nvmeof top", "nvmeof top -d 1 -n 10 -o json"),
    )
    parser.add_argument(
        "-d",
        "--delay",
        metavar="SECONDS",
        type=seconds_argument,
        default=2.0,
        help="between two readings (default: 2)",
    )
    parser.add_argument(
        "-n",
        "--iterations",
        metavar="COUNT",
        type=number_argument,
        help="end after so many (default: go on)",
    )
    parser.add_argument(
        "--sort", choices=SORTS, default="iops", help="what comes first (default: iops)"
    )


class Readings:
    """Rates of a target, one reading after the other."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._last: Counters = call(args, "target_get_counters")

    def next(self) -> Rates:
        """What was since the last time; CliError where the target has gone."""
        try:
            now: Counters = call(self._args, "target_get_counters")
        except CliError as error:
            raise CliError(f"the target has gone while it was watched: {error}") from None
        found, self._last = rates(self._last, now), now
        return found


def top(args: argparse.Namespace) -> int:
    """Watch until there is enough."""
    if args.delay < _SHORTEST:
        raise UsageError(f"--delay is at least {_SHORTEST:g} s")
    if args.iterations == 0:
        raise UsageError("--iterations is at least 1")
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
    """SIGTERM ends it as an interrupt does: the terminal is to be as it was."""
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
    """On the terminal."""
    from rich.live import Live

    from nvmf.cli.top import view
    from nvmf.cli.top.keys import Keys

    by, count = args.sort, 0
    with Keys() as keys, Live(screen=True, auto_refresh=False) as screen:
        found, at = Rates(0.0), time.monotonic()
        while True:
            header = f"{_header(args, found)}  by {by}, q ends"
            height = screen.console.size.height
            screen.update(view.live(found, by, height, header), refresh=True)
            key = _wait(keys, at + args.delay)
            if key == "q" or (not key and count == args.iterations):
                return
            if key == "s":
                by = SORTS[(SORTS.index(by) + 1) % len(SORTS)]
            elif not key:
                found, at = readings.next(), time.monotonic()
                count += 1


def _wait(keys: Keys, until: float) -> str:
    """A key that means something, or "" when it is time."""
    while (left := until - time.monotonic()) > 0:
        key = keys.wait(left)
        if key in ("q", "s"):
            return key
    return ""
