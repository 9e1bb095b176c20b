# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof lab run`: a run, new or continued."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from nvmf.cli.base import (
    EXIT_FAILED,
    EXIT_OK,
    CliError,
    Subparsers,
    Terminated,
    UsageError,
    add_command,
)
from nvmf.cli.lab.describing import known_profile

if TYPE_CHECKING:
    from nvmf.lab.model import Lab
    from nvmf.lab.store import Results

_MORE = """\
The systems of a description are measured in turns, round by round, and each result is kept in the
results directory at once: a run that was interrupted continues with --resume. Without a
description, or for a description without workloads, --profile names ready ones. At the end there
is a report with pictures in the directory, report.html (see lab report).

A system that has data is never written to, unless --overwrite (or overwrite in the description)
repeats its path or NQN. A system that the run makes, or that is empty, needs no name.

--system NAME=WHAT adds a system: WHAT is a URL (nvme+rdma://HOST:PORT/NQN), the path of a file or
block device, target:PATH for that path served by a target of ours, ram for a target of ours in
memory, or null for fio alone.
"""


def add_commands(subparsers: Subparsers) -> None:
    """Add run."""
    parser = add_command(
        subparsers,
        "run",
        run,
        "measure, and keep the results in a directory",
        _MORE,
        examples=(
            "nvmeof lab run --profile quick",
            "nvmeof lab run lab.toml --try",
            "nvmeof lab run lab.toml -d results/monday",
            "nvmeof lab run --resume results/monday",
            "nvmeof lab run --profile four-corners --system disk=/dev/nvme1n1 "
            "--overwrite /dev/nvme1n1",
        ),
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="a description (TOML)")
    parser.add_argument(
        "--profile", metavar="NAME", help="ready workloads and method; see lab profiles"
    )
    parser.add_argument(
        "--system",
        metavar="NAME=WHAT",
        action="append",
        default=[],
        help="a system, with --profile and without FILE; may be repeated",
    )
    parser.add_argument(
        "-d",
        "--directory",
        metavar="DIR",
        help="results directory, which must not exist (default: lab-DATE-TIME)",
    )
    parser.add_argument("--resume", metavar="DIR", help="continue an interrupted run")
    parser.add_argument(
        "--overwrite",
        metavar="WHAT",
        action="append",
        default=[],
        help="path or NQN of a system whose data may be destroyed; may be repeated",
    )
    parser.add_argument("--rounds", metavar="N", type=int, help="instead of the description's")
    parser.add_argument(
        "--runtime", metavar="SECONDS", type=float, help="instead of the description's"
    )
    parser.add_argument(
        "--try",
        dest="short",
        action="store_true",
        help="measure everything once, for 0.3 seconds and with at most 16 MiB, to see that a "
        "description works: the figures are meaningless",
    )
    parser.add_argument(
        "--no-report", action="store_true", help="make no report at the end, as with --try"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Measure."""
    from nvmf.lab.errors import LabError
    from nvmf.lab.fio import Fio

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        fio = Fio.find()
        if args.resume:
            if args.file or args.profile or args.system or args.directory:
                raise UsageError("--resume continues a run as it was described: give only DIR")
            with _resumed(Path(args.resume)) as results:
                return _measure(args, results)
        lab = _described(args)
        _refuse_missing(lab)
        folder = Path(args.directory or time.strftime("lab-%Y%m%d-%H%M%S"))
        from nvmf.cli.app import version
        from nvmf.lab.describe import to_json
        from nvmf.lab.machine import device_facts, facts
        from nvmf.lab.store import Results

        paths = [getattr(system, "path", None) for system in lab.systems]
        machine = {
            **facts(),
            "nvmeof": version(),
            "fio": fio.version,
            "devices": {str(path): device_facts(path) for path in paths if path},
        }
        with Results.create(folder, to_json(lab), machine) as results:
            try:
                return _measure(args, results)
            except LabError:
                results.discard_unused()  # the corrected command may use the directory
                raise
    except LabError as error:
        raise CliError(str(error)) from None


def _resumed(folder: Path) -> Results:
    from nvmf.lab.errors import DamagedError
    from nvmf.lab.store import Results

    try:
        return Results.open(folder, write=True)
    except DamagedError as error:
        from nvmf.lab.rebuild import rebuild

        results, count = rebuild(folder)
        print(
            f"{str(error).split('. ')[0]}. {count} measurements were read from fio's own results, "
            "and the old database was kept.",
            file=sys.stderr,
        )
        return results


def _measure(args: argparse.Namespace, results: Results) -> int:
    from nvmf.lab.describe import from_dict
    from nvmf.lab.fio import Fio
    from nvmf.lab.live import Live
    from nvmf.lab.plan import loads
    from nvmf.lab.run import Run

    lab = from_dict(results.description(), str(results.folder / "description.json"))
    total = lab.method.rounds * len(loads(lab)) * len(lab.systems)
    try:
        with Live(total, show=not args.quiet) as live:
            failures = Run(lab, Fio.find(), results, live, args.overwrite).measure()
    except KeyboardInterrupt:
        print(
            f"Interrupted. What was measured is kept; continue with: nvmeof lab run --resume "
            f"{results.folder}",
            file=sys.stderr,
        )
        raise
    print(results.folder)
    if not args.no_report and not args.short:
        _report(results)
    for said in failures:
        print(f"{args.parser.prog}: {said}", file=sys.stderr)
    return EXIT_FAILED if failures else EXIT_OK


def _report(results: Results) -> None:
    """Make the report; without matplotlib there is none, and the run is complete all the same."""
    from nvmf.cli.lab.reporting import write
    from nvmf.lab.errors import LabError

    try:
        _, files = write(results, results.folder, pictures=False)
        said = f"report: {files[0]}"
    except (CliError, LabError, OSError) as error:
        said = f"there is no report: {error}"
    print(said, file=sys.stderr)


def _described(args: argparse.Namespace) -> Lab:
    """Return the description that the arguments specify."""
    from nvmf.lab.describe import from_dict, from_profile, load, system_of, to_json

    known_profile(args.profile)
    if args.file:
        if args.system:
            raise UsageError("--system is for a profile: add systems to the description instead")
        lab = load(Path(args.file), args.profile)
    elif args.profile:
        lab = from_profile(args.profile, [system_of(text) for text in args.system])
    else:
        raise UsageError("give a description, or --profile quick")
    changes = {"rounds": args.rounds, "runtime": args.runtime}
    changes = {key: value for key, value in changes.items() if value is not None}
    if not changes and not args.short:
        return lab
    import json

    from nvmf.lab.short import shortened

    data = json.loads(to_json(lab))
    data["method"] = {**data.get("method", {}), **changes}
    return from_dict(shortened(data) if args.short else data, "arguments")


def _refuse_missing(lab: Lab) -> None:
    """Refuse a description that names files that do not exist, before anything is made."""
    from nvmf.lab.errors import LabError

    for workload in lab.workloads:
        if workload.job_file is not None and not workload.job_file.is_file():
            raise LabError(f"workload {workload.name}: there is no job file {workload.job_file}")
        if workload.trace is not None and not workload.trace.is_file():
            raise LabError(f"workload {workload.name}: there is no trace {workload.trace}")
    for system in lab.systems:
        config = getattr(system, "config", None)
        if config is not None and not config.is_file():
            raise LabError(f"system {system.name}: there is no configuration {config}")
        path = getattr(system, "path", None)
        made = getattr(system, "size", None) is not None or system.setup is not None
        if path is not None and not path.exists() and not made:
            raise LabError(f"system {system.name}: there is no {path}, and no size to make it with")


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated
