# SPDX-License-Identifier: BSD-3-Clause
"""The words of a load, which are fio's."""

from __future__ import annotations

import argparse

LOADS = ("read", "write", "randread", "randwrite", "rw", "readwrite", "randrw")
MIXED = ("rw", "readwrite", "randrw")
DEFAULT_PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
_MOST_PERCENTILES = 20
_IGNORED = ("name", "ioengine", "direct")
_IGNORED_FLAGS = ("time_based", "group_reporting", "thread")


def add_ignored(parser: argparse.ArgumentParser) -> None:
    """Add options of fio that are always so here, or name what is not here: without an effect."""
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
