# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof lab report` and `compare`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, UsageError, add_command
from nvmf.cli.output import print_json, print_table

if TYPE_CHECKING:
    from nvmf.lab.report import Report
    from nvmf.lab.store import Results

EXIT_WORSE = 3
_METRICS = ("iops", "mean_ns", "p50_ns", "p99_ns")
_INSTALL = "{} is not installed: pip install 'nvmeof-rdma[lab]'"


def add_commands(subparsers: Subparsers) -> None:
    """Add report and compare."""
    parser = add_command(
        subparsers,
        "report",
        report,
        "make a report of a run: HTML with pictures, Markdown, SVG and PNG",
        "Writes report.html, which needs no network, and report.md; with --pictures also each\n"
        "picture as SVG and PNG.",
        examples=("nvmeof lab report results/monday", "nvmeof lab report results --pictures"),
    )
    parser.add_argument("directory", metavar="DIR", help="results directory")
    parser.add_argument("--to", metavar="DIR", help="where to write (default: DIR)")
    parser.add_argument("--pictures", action="store_true", help="also write SVG and PNG files")
    parser = add_command(
        subparsers,
        "compare",
        compare,
        "compare runs, or the systems of a run: ratios with intervals, and a verdict for each row",
        "The baseline is the first run, or that of --baseline. Rows of the same system and load\n"
        "are compared; if the runs have no system in common, and one each, these are compared.\n"
        "With one run, its systems are compared with its first one.\n"
        "The intervals are made by bootstrap over rounds. The exit status is 3 if a row is worse,\n"
        "and 0 if none is.",
        examples=(
            "nvmeof lab compare results/monday results/tuesday",
            "nvmeof lab compare results",
            "nvmeof lab compare --baseline results/release results/today --metric iops",
        ),
    )
    parser.add_argument("directories", metavar="DIR", nargs="+", help="results directory")
    parser.add_argument("--baseline", metavar="DIR", help="the run to compare with")
    parser.add_argument(
        "--metric",
        choices=_METRICS,
        action="append",
        help="figure to compare; may be repeated (default: iops and p99_ns)",
    )
    parser.add_argument(
        "--margin",
        metavar="PERCENT",
        type=float,
        default=3.0,
        help="smallest difference that counts (default: 3)",
    )
    parser.add_argument(
        "--confidence",
        metavar="PERCENT",
        type=float,
        default=95.0,
        help="confidence of the intervals (default: 95)",
    )


def write(results: Results, folder: Path, *, pictures: bool) -> tuple[Report, list[Path]]:
    """Make a report of open results in a folder; return it, and its files.

    Raises:
        CliError: A library is missing, or there is nothing to report.
        LabError: The results are damaged.
    """
    try:
        from nvmf.lab.report import Report
    except ModuleNotFoundError as error:
        raise CliError(_INSTALL.format(error.name)) from None
    made = Report(results)
    if not made.rows:
        raise CliError(f"{results.folder} has no measurements that succeeded")
    files = {"report.html": made.html().encode(), "report.md": made.markdown().encode()}
    for picture in made.pictures if pictures else ():
        files[f"{picture.name}.svg"] = picture.svg().encode()
        files[f"{picture.name}.png"] = picture.png()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return made, [folder / name for name in files]


def report(args: argparse.Namespace) -> int:
    """Make a report."""
    from nvmf.lab.errors import LabError
    from nvmf.lab.store import Results

    try:
        with Results.open(Path(args.directory)) as results:
            made, files = write(results, Path(args.to or args.directory), pictures=args.pictures)
    except LabError as error:
        raise CliError(str(error)) from None
    if args.output_format == "json":
        written = [str(path) for path in files]
        print_json({"files": written, "doubts": made.doubts, "summary": made.summary()})
        return EXIT_OK
    for path in files:
        print(path)
    return EXIT_OK


def compare(args: argparse.Namespace) -> int:
    """Compare runs."""
    from nvmf.lab.errors import LabError

    try:
        from nvmf.lab.compare import compared, of_systems, paired
        from nvmf.lab.report import ratio_table
    except ModuleNotFoundError as error:
        raise CliError(_INSTALL.format(error.name)) from None
    from nvmf.lab.store import Results
    from nvmf.lab.tidy import rows

    if not 0 < args.confidence < 100 or not 0 <= args.margin <= 100:
        raise UsageError("--confidence must be between 0 and 100, and --margin 0 to 100")
    folders = [args.baseline, *args.directories] if args.baseline else args.directories
    metrics = tuple(args.metric or ("iops", "p99_ns"))
    worse = False
    found: dict[str, list[object]] = {}
    try:
        runs = []
        for folder in folders:
            with Results.open(Path(folder)) as results:
                runs.append(rows(results))
        if len(runs) == 1:
            first, others = of_systems(runs[0])
            if not others:
                raise LabError(f"{folders[0]} has no second system: give a second run")
        else:
            first = folders[0]
            others = {
                folder: paired(runs[0], run)
                for folder, run in zip(folders[1:], runs[1:], strict=True)
            }
        for name, pairs in others.items():
            ratios = compared(pairs, metrics, args.margin / 100, args.confidence / 100)
            worse = worse or any(one.verdict == "worse" for one in ratios)
            found[name] = [*ratios]
            if args.output_format == "normal":
                print(f"A: {first}\nB: {name}\n")
                header, table = ratio_table(ratios, args.confidence)
                print_table(header, table)
                for verdict in dict.fromkeys(one.verdict for one in ratios):
                    count = sum(one.verdict == verdict for one in ratios)
                    print(f"{verdict}: {count} of {len(ratios)} rows")
    except LabError as error:
        raise CliError(str(error)) from None
    if args.output_format == "json":
        print_json({"baseline": first, "runs": found, "worse": worse})
    return EXIT_WORSE if worse else EXIT_OK
