# SPDX-License-Identifier: BSD-3-Clause
"""nvme-cli's flags of block commands: --latency, metadata, protection information.

The client transfers no metadata and no protection information, so that these can only be 0.
"""

from __future__ import annotations

import argparse
import sys

from nvmf.cli.base import UsageError, number_argument
from nvmf.cli.common import with_url

_PROTECTION = (
    ("-p", "--prinfo"),
    ("-r", "--ref-tag"),
    ("--app-tag",),
    ("-m", "--app-tag-mask"),
    ("-g", "--storage-tag"),
    ("-y", "--metadata-size"),
)
_MOST_TAG = 0xFFFF


def add_protection(parser: argparse.ArgumentParser, *, latency: bool = False) -> None:
    """Add the flags, after the location.  latency: and --latency, which reads have."""
    if latency:
        parser.add_argument(
            "--latency",
            action="store_true",
            help="also print the time that it took; with a URL also -t, as in nvme-cli",
        )
    group = parser.add_argument_group(
        "accepted as by nvme-cli",
        "Metadata and protection information are not transferred: these can only be 0. With a URL, "
        "-a is --app-tag.",
    )
    for flags in _PROTECTION:
        group.add_argument(*flags, metavar="N", type=number_argument, default=0, help="must be 0")
    group.add_argument("-l", "--limited-retry", action="store_true", help="no effect")
    meanings: dict[str, tuple[str, int | None]] = {"traddr": ("app_tag", _MOST_TAG)}
    if latency:
        meanings["transport"] = ("latency", None)
    with_url(parser, **meanings)


def check_protection(args: argparse.Namespace) -> None:
    """Raise UsageError if metadata or protection information is to be transferred."""
    for flags in _PROTECTION:
        if getattr(args, flags[-1][2:].replace("-", "_")):
            raise UsageError(
                f"{flags[-1]} must be 0: the client transfers no metadata or protection information"
            )


def print_latency(args: argparse.Namespace, seconds: float) -> None:
    """Print --latency on stderr, in nvme-cli's words: stdout may have the data."""
    if getattr(args, "latency", False):
        command = args.parser.prog.split()[-1]
        print(f"latency: {command}: {seconds * 1e6:.0f} us", file=sys.stderr)
