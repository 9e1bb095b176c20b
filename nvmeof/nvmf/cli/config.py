# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof config`: is a configuration one that a target would serve? And nvmetcli's files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nvmf.cli.base import EXIT_FAILED, EXIT_OK, CliError, Subparsers, add_command
from nvmf.cli.output import print_json, size_text


def add_commands(subparsers: Subparsers) -> None:
    """config check, schema, import, export."""
    group = subparsers.add_parser(
        "config",
        help="check a target's configuration, or convert it",
        description="Check a target's configuration, or convert it.",
        examples=(
            "nvmeof config check target.toml",
            "nvmeof config import /etc/nvmet/config.json > target.toml",
        ),
    )
    commands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parser = add_command(
        commands,
        "check",
        check,
        "check a configuration file without serving it",
        "Every fault is a line FILE:LINE: KEY: what was expected; the exit status is then 1.\n"
        "A warning is about what is allowed, and hardly meant; the exit status is 0.",
        examples=("nvmeof config check target.toml",),
    )
    parser.add_argument("config", metavar="CONFIG", help="a TOML file")
    add_command(
        commands,
        "schema",
        schema,
        "print the JSON schema of configurations",
        examples=("nvmeof config schema > nvmeof.schema.json",),
    )
    parser = add_command(
        commands,
        "import",
        import_,
        "make a configuration of nvmetcli's file",
        "What cannot be expressed is said on stderr; the exit status is 0 all the same.",
        examples=(
            "nvmeof config import /etc/nvmet/config.json > target.toml",
            "nvmetcli save /dev/stdout | nvmeof config import -",
        ),
    )
    parser.add_argument("file", metavar="FILE", help="JSON of nvmetcli save, or - for stdin")
    parser = add_command(
        commands,
        "export",
        export,
        "make nvmetcli's file of a configuration",
        "What the kernel's target does not have is said on stderr; the exit status is 0 all the "
        "same.",
        examples=("nvmeof config export target.toml > config.json",),
    )
    parser.add_argument("config", metavar="CONFIG", help="a TOML file")


def check(args: argparse.Namespace) -> int:
    """Load and judge."""
    from nvmf.config import ConfigError, advice, load
    from nvmf.config.base import endpoint

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
        print(f"port {endpoint(port.traddr, port.trsvcid)} ({port.device})")
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


def import_(args: argparse.Namespace) -> int:
    """From nvmetcli."""
    from nvmf.config import Config, ConfigError, nvmetcli, plain
    from nvmf.config.save import merge

    name = "stdin" if args.file == "-" else args.file
    try:
        text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text()
        config, lost = nvmetcli.load(text, name)
        made = merge("", config) if config != Config() else ""
    except UnicodeDecodeError as error:
        raise CliError(f"{name}: is not UTF-8 text: {error}") from None
    except ConfigError as error:
        raise CliError(str(error)) from None
    for sentence in lost:
        print(f"{name}: warning: {sentence}", file=sys.stderr)
    if args.output_format == "json":
        print_json({"config": plain(config), "warnings": lost})
    else:
        print(made.lstrip("\n"), end="")
    return EXIT_OK


def export(args: argparse.Namespace) -> int:
    """To nvmetcli: JSON, whatever -o says."""
    from nvmf.config import ConfigError, load, nvmetcli

    try:
        made, lost = nvmetcli.dump(load(args.config))
    except ConfigError as error:
        raise CliError(str(error)) from None
    for sentence in lost:
        print(f"{args.config}: warning: {sentence}", file=sys.stderr)
    print_json(made)
    return EXIT_OK
