# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof config check`: is a configuration one that a target would serve?"""

from __future__ import annotations

import argparse
import sys

from nvmf.cli.common import EXIT_FAILED, EXIT_OK, Formatter, Subparsers, add_command
from nvmf.cli.output import print_json, size_text


def add_commands(subparsers: Subparsers) -> None:
    """config check, config schema."""
    group = subparsers.add_parser(
        "config", help="check a target's configuration", formatter_class=Formatter
    )
    commands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parser = add_command(
        commands,
        "check",
        check,
        "check a configuration file without serving it",
        "Every fault is a line FILE:LINE: KEY: what was expected; the exit status is then 1.\n"
        "A warning is about what is allowed, and hardly meant; the exit status is 0.",
    )
    parser.add_argument("config", metavar="CONFIG", help="a TOML file")
    add_command(commands, "schema", schema, "print the JSON schema of configurations")


def check(args: argparse.Namespace) -> int:
    """Load and judge."""
    from nvmf.config import ConfigError, advice, load

    try:
        config = load(args.config)
    except ConfigError as error:
        if args.output_format == "json":
            print_json({"valid": False, "problems": list(error.problems)})
        else:
            print(error, file=sys.stderr)
        return EXIT_FAILED
    warnings = advice(config, args.config)
    if args.output_format == "json":
        print_json(
            {
                "valid": True,
                "warnings": warnings,
                "config": config.model_dump(mode="json", by_alias=True),
            }
        )
        return EXIT_OK
    for sentence in warnings:
        print(f"{args.config}: warning: {sentence}", file=sys.stderr)
    for port in config.ports:
        print(f"port {port.traddr}:{port.trsvcid} ({port.device})")
    for subsystem in config.subsystems:
        print(f"subsystem {subsystem.nqn}")
        for host in subsystem.host_tables:
            print(f"  host {host.nqn}{': has to authenticate' if host.authenticates else ''}")
        for nsid, namespace in subsystem.numbered():
            size = size_text(namespace.size) if namespace.size else "as large as it is"
            print(f"  namespace {nsid}: {namespace.store} {namespace.path or ''} {size}")
    print(f"{args.config} is valid")
    return EXIT_OK


def schema(args: argparse.Namespace) -> int:
    """For editors."""
    from nvmf.config import json_schema

    print_json(json_schema())
    return EXIT_OK
