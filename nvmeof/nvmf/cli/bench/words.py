# SPDX-License-Identifier: BSD-3-Clause
"""The terms of a load, which are fio's."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from nvmf.cli.base import seconds_argument, size_argument

LOADS = ("read", "write", "randread", "randwrite", "rw", "readwrite", "randrw")
MIXED = ("rw", "readwrite", "randrw")
DEFAULT_PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
_MOST_PERCENTILES = 20
_IGNORED = ("name", "ioengine", "direct")
_IGNORED_FLAGS = ("group_reporting", "thread")


@dataclass(frozen=True, slots=True)
class Extent:
    """A size or offset, in bytes or in percent of the namespace."""

    value: int
    percent: bool = False

    def within(self, namespace: int) -> int:
        """Return the bytes."""
        return namespace * self.value // 100 if self.percent else self.value


def extent_argument(text: str) -> Extent:
    """Parse fio's size or offset, such as 4096, 1g, 512MiB or 50%; for argparse."""
    if not text.endswith("%"):
        return Extent(size_argument(text))
    try:
        value = int(text[:-1])
    except ValueError:
        value = -1
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0% to 100%")
    return Extent(value, percent=True)


def add_range(group: argparse._ActionsContainer) -> None:
    """Add the options of the range of a load and of its duration, which depend on each other."""
    group.add_argument(
        "--size",
        metavar="SIZE",
        type=extent_argument,
        help="use this much of the namespace, in bytes or percent; without --time_based, the load "
        "ends when each queue has transferred it (default: to the end of the namespace)",
    )
    group.add_argument(
        "--offset",
        metavar="SIZE",
        type=extent_argument,
        default=Extent(0),
        help="begin at this offset, in bytes or percent (default: 0)",
    )
    group.add_argument(
        "--runtime",
        metavar="TIME",
        type=seconds_argument,
        help="duration, such as 10, 10s, 500ms or 2m (default: 5s; with --size, no limit)",
    )
    flags = ("--time_based", "--time-based", "--time_based=1")
    group.add_argument(
        *flags,
        dest="time_based",
        action="store_true",
        help="run for all of --runtime, and repeat the transfer of --size",
    )
    group.add_argument(
        "--ramp_time",
        "--ramp-time",
        metavar="TIME",
        type=seconds_argument,
        default=0.0,
        help="time before I/O is counted (default: 0)",
    )


def add_ignored(parser: argparse.ArgumentParser) -> None:
    """Add options of fio that have no effect: they are always in force here, or do not apply."""
    for name in _IGNORED:
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    for name in _IGNORED_FLAGS:
        flags = (f"--{name}", f"--{name}=1")  # argparse gives no value to an option without one
        parser.add_argument(*flags, action="store_true", help=argparse.SUPPRESS)


def writes(rw: str, rwmixread: int | None) -> bool:
    """Return whether the load contains writes."""
    return rw.endswith("write") if rw not in MIXED else rwmixread != 100


def percentiles_argument(text: str) -> tuple[float, ...]:
    """Parse fio's percentile_list, such as 50:99:99.9, in any order; for argparse."""
    try:
        found = sorted({float(word) for word in text.replace(",", ":").split(":")})
    except ValueError:
        found = []
    if not found or len(found) > _MOST_PERCENTILES or not all(0 < p <= 100 for p in found):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of up to {_MOST_PERCENTILES} percentiles such as 50:99:99.9"
        )
    return tuple(found)
