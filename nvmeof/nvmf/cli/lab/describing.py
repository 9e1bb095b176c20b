# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof lab check`, `profiles`, `schema` and `export`."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, UsageError, add_command
from nvmf.cli.output import print_json, print_table


def add_commands(subparsers: Subparsers) -> None:
    """Add check, profiles, schema and export."""
    parser = add_command(
        subparsers,
        "check",
        check,
        "check a description, and list its measurements",
        examples=("nvmeof lab check lab.toml",),
    )
    parser.add_argument("file", metavar="FILE", help="a description (TOML)")
    parser.add_argument(
        "--profile", metavar="NAME", help="the profile, for a description without workloads"
    )
    add_command(
        subparsers,
        "profiles",
        profiles,
        "list the ready profiles",
        examples=("nvmeof lab profiles",),
    )
    add_command(
        subparsers,
        "schema",
        schema,
        "print the JSON schema of descriptions",
        examples=("nvmeof lab schema > lab.schema.json",),
    )
    parser = add_command(
        subparsers,
        "export",
        export,
        "print the results of a run as CSV",
        "One line for each measurement: system, load, round, and the figures with their units in\n"
        "the names of the columns.",
        examples=("nvmeof lab export csv results > results.csv",),
    )
    parser.add_argument("format", choices=("csv",), help="format")
    parser.add_argument("directory", metavar="DIR", help="results directory")


def known_profile(name: str | None) -> None:
    """Raise UsageError if there is no such profile; None is the absence of a name."""
    from nvmf.lab.describe import find_profile
    from nvmf.lab.errors import LabError

    try:
        if name is not None:
            find_profile(name)
    except LabError as error:
        raise UsageError(str(error)) from None


def check(args: argparse.Namespace) -> int:
    """Check a description."""
    from nvmf.lab.describe import load
    from nvmf.lab.errors import LabError
    from nvmf.lab.live import clock
    from nvmf.lab.plan import loads, seconds

    known_profile(args.profile)
    try:
        lab = load(Path(args.file), args.profile)
    except LabError as error:
        raise CliError(str(error)) from None
    found = loads(lab)
    if args.output_format == "json":
        print_json(lab.model_dump(mode="json", by_alias=True))
        return EXIT_OK
    for system in lab.systems:
        print(f"system {system.name} ({system.kind})")
    for one in found:
        print(f"load {one.key}{' (writes)' if one.writes else ''}")
    measurements = len(found) * len(lab.systems) * lab.method.rounds
    print(f"{measurements} measurements in {lab.method.rounds} rounds, {clock(seconds(lab))}")
    return EXIT_OK


def profiles(args: argparse.Namespace) -> int:
    """List the profiles."""
    from nvmf.lab.describe import from_profile
    from nvmf.lab.live import clock
    from nvmf.lab.plan import loads, seconds
    from nvmf.lab.profiles import PROFILES

    rows = []
    for name, profile in PROFILES.items():
        lab = from_profile(name, [{"name": "one", "kind": "null"}])
        rows.append((name, len(loads(lab)), clock(seconds(lab)), profile.summary))
    if args.output_format == "json":
        keys = ("name", "loads", "time", "summary")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        print_table(("profile", "loads", "time, each system", "what"), rows)
    return EXIT_OK


def schema(args: argparse.Namespace) -> int:
    """Print the schema, for editors."""
    from nvmf.lab.model import Lab

    print_json(Lab.model_json_schema(by_alias=True))
    return EXIT_OK


def export(args: argparse.Namespace) -> int:
    """Print the measurements."""
    from nvmf.lab.errors import LabError
    from nvmf.lab.store import Results

    try:
        with Results.open(Path(args.directory)) as results:
            rows = results.rows("SELECT * FROM round ORDER BY round, id")
    except LabError as error:
        raise CliError(str(error)) from None
    if args.output_format == "json":
        print_json(rows)
        return EXIT_OK
    names = [name for name in (rows[0] if rows else {}) if name not in ("id", "bins")]
    writer = csv.DictWriter(sys.stdout, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return EXIT_OK
