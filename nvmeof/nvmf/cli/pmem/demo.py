# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof pmem demo`: a replicated log that survives crashes, and the methods of persistence."""

from __future__ import annotations

import argparse
import contextlib
import logging
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from nvmf.cli.base import (
    EXIT_FAILED,
    EXIT_OK,
    CliError,
    Subparsers,
    UsageError,
    add_command,
)
from nvmf.cli.common import run_async
from nvmf.cli.output import plain, print_json
from nvmf.cli.pmem.arguments import add_depths, add_rounds, add_runtime, add_sizes, check_times
from nvmf.cli.pmem.replicas import print_replicas
from nvmf.cli.pmem.table import facts_of, print_rows
from nvmf.pmem.demo import MAX_RECORDS, Outcome, ReplicationError, run
from nvmf.pmem.report import Machine, page

EXAMPLES = (
    "nvmeof pmem demo",
    "nvmeof pmem demo --device roce",
    "nvmeof pmem demo --records 10000 --runtime 5s -o json",
)
_NAMES = {"iwarp": "iWARP", "roce": "RoCEv2"}


def add_commands(subparsers: Subparsers) -> None:
    """Add demo."""
    parser = add_command(
        subparsers,
        "demo",
        demo,
        "demonstrate a replicated log that survives crashes, and measure the methods",
        "Starts three targets on this machine, each with a mapped file, and appends records to a\n"
        "log on all three. Kills one target while records are appended, continues with two, ends\n"
        "the writer, recovers, and checks every record that was acknowledged; resynchronises the\n"
        "lost target, kills a different one, and checks again. Then measures the methods of\n"
        "persistence, and the replication. Exit status 1 if a record is missing.\n"
        "Nothing is left behind; nothing but processors and 48 MiB of memory are used.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--records",
        metavar="N",
        type=int,
        default=3000,
        help=f"approximate number of records to append, 30 to {MAX_RECORDS} (default: 3000)",
    )
    add_runtime(parser, 1.0)
    add_rounds(parser)
    add_sizes(parser)
    add_depths(parser)
    parser.add_argument(
        "--device",
        choices=tuple(_NAMES),
        default="iwarp",
        help="the embedded device; write-flush and write-flush-tail need roce (default: iwarp)",
    )
    parser.add_argument(
        "--dir",
        metavar="FOLDER",
        help="where the targets' files are made: on tmpfs, or on DAX (default: /dev/shm)",
    )
    parser.add_argument(
        "--report", metavar="FILE", help="also write the measurements to a page in Markdown"
    )


def demo(args: argparse.Namespace) -> int:
    """Run the demonstration, and print the results."""
    if not 30 <= args.records <= MAX_RECORDS:
        raise UsageError(f"--records must be 30 to {MAX_RECORDS}, not {args.records}")
    check_times(args)
    if args.report is not None:
        _check_report(Path(args.report))
    outcome, machine = Outcome(), Machine.this()

    async def work() -> int:
        try:
            await run(
                outcome,
                records=args.records,
                seconds=args.runtime,
                rounds=args.rounds,
                sizes=args.bs,
                depths=args.iodepth,
                folder=args.dir,
                device=args.device,
                say=_say,
            )
        except (OSError, ReplicationError) as error:
            raise CliError(getattr(error, "strerror", None) or str(error)) from None
        _print(args, outcome)
        if args.report is not None:
            _write(args, outcome, machine)
        return EXIT_OK if outcome.good else EXIT_FAILED

    with _quiet(args.verbose > 0):
        return run_async(work(), hangup=True)


@contextlib.contextmanager
def _quiet(verbose: bool) -> Iterator[None]:
    """Do not log lost connections, which the demonstration causes."""
    log = logging.getLogger("nvmf.initiator")
    before = log.level
    if not verbose:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _rounds(count: int) -> str:
    if count == 1:
        return ""
    return f"; of {count} rounds of the floor and the methods, each row has the median one"


def _write(args: argparse.Namespace, outcome: Outcome, machine: Machine) -> None:
    words = ["nvmeof", "pmem", "demo", "--runtime", f"{args.runtime:g}s"]
    words += ["--rounds", str(args.rounds)] if args.rounds > 1 else []
    words += ["--device", args.device] if args.device != "iwarp" else []
    words += ["--bs", ",".join(map(str, args.bs)), "--iodepth", ",".join(map(str, args.iodepth))]
    setting = (
        f"Three targets on that machine, one process each, with files in {args.dir or '/dev/shm'}, "
        f"on the embedded {_NAMES[args.device]} device; the host is a fourth process. Each "
        f"measurement took {args.runtime:g} s{_rounds(args.rounds)}."
    )
    text = page(shlex.join([*words, "--report", args.report]), machine, setting, outcome)
    try:
        Path(args.report).write_text(text)
    except OSError as error:
        raise _not_written(args.report, error) from None


def _check_report(path: Path) -> None:
    """Raise CliError now, not after minutes, if the page cannot be written; change no file."""
    known = path.exists()
    if known and not (path.is_file() or path.is_dir()):
        return  # such as a pipe: its reader would see an end
    try:
        with path.open("a"):
            pass
        if not known:
            path.resolve().unlink()
    except OSError as error:
        raise _not_written(path, error) from None


def _not_written(path: Path | str, error: OSError) -> CliError:
    return CliError(f"cannot write {path}: {error.strerror}")


def _print(args: argparse.Namespace, outcome: Outcome) -> None:
    if args.output_format == "json":
        print_json(
            {
                "good": outcome.good,
                "records": outcome.records,
                "records_without_a_target": outcome.without,
                "killed": outcome.killed,
                "checks": plain(outcome.checks),
                "resync_seconds": outcome.resync_seconds,
                "platform": facts_of(outcome.bench.platform),
                "results": plain(outcome.bench.rows),
                "mirror": plain(outcome.replicas.mirrors),
                "log": plain(outcome.replicas.logs),
                "resync": plain(outcome.replicas.resyncs),
            }
        )
        return
    for check in outcome.checks:
        word = "all" if check.good else f"ONLY {check.found}"
        print(
            f"{check.when}: {word} of {check.acknowledged} acknowledged records, recovered in "
            f"{check.seconds:.2f} s"
        )
    print()
    print_rows(outcome.bench)
    print()
    print_replicas(outcome.replicas)
