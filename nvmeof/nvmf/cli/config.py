# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof config`: check configuration files, and convert from and to nvmetcli's format."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from nvmf.cli.base import EXIT_FAILED, EXIT_OK, CliError, Subparsers, add_command, read_or_stdin
from nvmf.cli.output import print_json, size_text

if TYPE_CHECKING:
    from nvmf.config.models import NamespaceConfig


def add_commands(subparsers: Subparsers) -> None:
    """Add config check, schema, import and export."""
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
        "Prints each error as a line FILE:LINE: KEY: what was expected; the exit status is then\n"
        "1. A warning means a valid but probably unintended setting; the exit status is 0.",
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
        "convert nvmetcli's file to a configuration",
        "Settings that cannot be converted are listed on stderr; the exit status is still 0.",
        examples=(
            "nvmeof config import /etc/nvmet/config.json > target.toml",
            "nvmetcli save /dev/stdout | nvmeof config import -",
        ),
    )
    parser.add_argument("file", metavar="FILE", help="JSON file of nvmetcli save, or - for stdin")
    parser = add_command(
        commands,
        "export",
        export,
        "convert a configuration to nvmetcli's file",
        "Settings that the kernel's target lacks are listed on stderr; the exit status is still 0.",
        examples=("nvmeof config export target.toml > config.json",),
    )
    parser.add_argument("config", metavar="CONFIG", help="a TOML file")


def check(args: argparse.Namespace) -> int:
    """Load the configuration, and print errors and warnings."""
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
    for bdev in config.bdevs:
        size = size_text(bdev.size) if bdev.size else "(size of the file)"
        print(f"bdev {bdev.name}: {bdev.store} {bdev.path or ''} {size}")
    for subsystem in config.subsystems:
        print(f"subsystem {subsystem.nqn}")
        for host in subsystem.host_tables:
            print(f"  host {host.nqn}{': must authenticate' if host.authenticates else ''}")
        for nsid, namespace in subsystem.numbered():
            print(f"  namespace {nsid}: {_stored(namespace)}")
    print(f"{args.config} is valid")
    return EXIT_OK


def _stored(namespace: NamespaceConfig) -> str:
    """Return the store of a namespace, with the place and the size of its data."""
    if namespace.store == "mirror":
        legs = ", ".join(leg.text() for leg in namespace.legs)
        return f"mirror of {legs} (quorum: {namespace.legs_needed} of {len(namespace.legs)})"
    size = size_text(namespace.size) if namespace.size else "(size of the file)"
    return f"{namespace.store} {namespace.path or ''} {size}"


def schema(args: argparse.Namespace) -> int:
    """Print the schema, for editors."""
    from nvmf.config import json_schema

    print_json(json_schema())
    return EXIT_OK


def import_(args: argparse.Namespace) -> int:
    """Convert from nvmetcli's format."""
    from nvmf.config import Config, ConfigError, nvmetcli, plain
    from nvmf.config.save import merge

    name = "stdin" if args.file == "-" else args.file
    try:
        text = read_or_stdin(args.file)
        config, lost = nvmetcli.load(text, name)
        made = merge("", config) if config != Config() else ""
    except OSError as error:
        raise CliError(f"cannot read {name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CliError(f"{name}: not UTF-8 text: {error}") from None
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
    """Convert to nvmetcli's format, JSON regardless of -o."""
    from nvmf.config import ConfigError, load, nvmetcli

    try:
        made, lost = nvmetcli.dump(load(args.config))
    except ConfigError as error:
        raise CliError(str(error)) from None
    for sentence in lost:
        print(f"{args.config}: warning: {sentence}", file=sys.stderr)
    print_json(made)
    return EXIT_OK
