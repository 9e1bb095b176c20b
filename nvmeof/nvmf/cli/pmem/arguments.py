# SPDX-License-Identifier: BSD-3-Clause
"""Arguments that the measurements of `nvmeof pmem` have in common."""

from __future__ import annotations

import argparse

from nvmf.cli.base import UsageError, seconds_argument, size_argument
from nvmf.pmem.bench import MAX_DEPTH, MAX_SIZE
from nvmf.pmem.figures import cpu_of


def add_sizes(group: argparse._ActionsContainer) -> None:
    """Add --bs, a list."""
    group.add_argument(
        "--bs",
        "-z",
        metavar="BYTES,...",
        type=sizes_argument,
        default=(4096,),
        help="sizes of one operation, 1 to 1MiB (default: 4k)",
    )


def add_depths(group: argparse._ActionsContainer) -> None:
    """Add --iodepth, a list."""
    group.add_argument(
        "--iodepth",
        metavar="N,N,...",
        type=depths_argument,
        default=(1,),
        help=f"operations outstanding, 1 to {MAX_DEPTH} (default: 1)",
    )


def add_runtime(group: argparse._ActionsContainer, default: float) -> None:
    """Add --runtime."""
    group.add_argument(
        "--runtime",
        metavar="TIME",
        type=seconds_argument,
        default=default,
        help=f"duration of each measurement, such as 10, 10s, 500ms or 2m (default: {default:g}s)",
    )


def add_rounds(group: argparse._ActionsContainer) -> None:
    """Add --rounds."""
    group.add_argument(
        "--rounds",
        metavar="N",
        type=int,
        default=1,
        help="measure the floor and the methods N times, in turn; the round with the median "
        "latency counts (default: 1)",
    )


def check_times(args: argparse.Namespace) -> None:
    """Raise UsageError if --runtime or --rounds is not above 0."""
    if args.runtime <= 0:
        raise UsageError(f"--runtime must be more than 0 seconds, not {args.runtime:g}")
    if args.rounds < 1:
        raise UsageError(f"--rounds must be 1 or more, not {args.rounds}")


def add_processes(group: argparse._ActionsContainer) -> None:
    """Add --target-pid."""
    group.add_argument(
        "--target-pid",
        metavar="PID",
        type=int,
        action="append",
        default=[],
        help="process of a target on this machine, whose processor time is measured as well; may "
        "be repeated",
    )


def processes_of(args: argparse.Namespace) -> tuple[int, ...]:
    """Return the processes of --target-pid; UsageError if one does not exist."""
    try:
        cpu_of(args.target_pid)
    except ProcessLookupError as error:
        raise UsageError(f"--target-pid: {error}") from None
    return tuple(args.target_pid)


def sizes_argument(text: str) -> tuple[int, ...]:
    """Parse sizes."""
    found = tuple(size_argument(part) for part in text.split(","))
    if not all(1 <= size <= MAX_SIZE for size in found):
        raise argparse.ArgumentTypeError(f"expected sizes from 1 to 1MiB, not {text!r}")
    return found


def depths_argument(text: str) -> tuple[int, ...]:
    """Parse depths."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers, not {text!r}") from None
    if not all(1 <= depth <= MAX_DEPTH for depth in found):
        raise argparse.ArgumentTypeError(f"expected depths from 1 to {MAX_DEPTH}, not {text!r}")
    return found
