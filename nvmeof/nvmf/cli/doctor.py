# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof doctor`: problems of this machine, for a given configuration."""

from __future__ import annotations

import argparse

from nvmf.cli.base import EXIT_FAILED, EXIT_OK, CliError, Subparsers, add_command
from nvmf.cli.output import counted, print_json


def add_commands(subparsers: Subparsers) -> None:
    """Add doctor."""
    parser = add_command(
        subparsers,
        "doctor",
        doctor,
        "check this machine for problems of a target or a host, with remedies",
        "Checks RDMA devices, kernel modules, locked memory, huge pages, memory, descriptors,\n"
        "CPUs, addresses and ports, MTU, firewall, name resolution and clock; with CONFIG also\n"
        "the requirements of that file, and the stores of its namespaces. Nothing is changed.\n"
        "Exit status 1 if there is a problem.",
        examples=("nvmeof doctor", "nvmeof doctor --all /etc/nvmeof/target.toml"),
    )
    parser.add_argument("config", metavar="CONFIG", nargs="?", help="a target's TOML file")
    parser.add_argument("-a", "--all", action="store_true", help="show passed checks, too")


def doctor(args: argparse.Namespace) -> int:
    """Run the checks and print the findings."""
    from nvmf.config import Config, ConfigError, load
    from nvmf.doctor import Level, examine

    config: Config | None = None
    if args.config is not None:
        try:
            config = load(args.config)
        except ConfigError as error:
            raise CliError(f"cannot use the configuration:\n{error}") from None
    found = examine(config)
    bad = any(finding.level is Level.PROBLEM for finding in found)
    if args.output_format == "json":
        print_json({"well": not bad, "findings": found})
        return EXIT_FAILED if bad else EXIT_OK
    shown = [f for f in found if args.all or f.level is not Level.OK]
    for finding in shown:
        print(f"{finding.level:<7}  {finding.check}: {finding.text}")
        if finding.remedy:
            print(f"         {finding.remedy}")
    counts = {level: sum(finding.level is level for finding in found) for level in Level}
    words = [
        counted(counts[level], str(level))
        for level in (Level.PROBLEM, Level.WARNING, Level.NOTE)
        if counts[level]
    ]
    print(", ".join([*words, f"{counts[Level.OK]} ok"]))
    return EXIT_FAILED if bad else EXIT_OK
