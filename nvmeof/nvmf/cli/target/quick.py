# SPDX-License-Identifier: BSD-3-Clause
"""Configurations without a file: made from the arguments of target serve, or read from stdin."""

from __future__ import annotations

import argparse
from pathlib import Path

from nvmf.cli.base import CliError, UsageError, stdin_text
from nvmf.cli.output import size_text
from nvmf.config.advice import machine_memory
from nvmf.config.base import Loc
from nvmf.config.loader import ConfigError, from_dict, loads
from nvmf.config.models import Config

_SOURCE = "the arguments"
QUICK_NQN = "nqn.2026-01.example:disk"
"""NQN of the subsystem of --ram, --file and --pmem."""


def quick_config(args: argparse.Namespace) -> tuple[Config, str] | None:
    """Return the configuration and its name for messages; None if it is a file.

    Raises:
        ConfigError: The configuration from stdin is invalid.
        UsageError: There is none, or there are two, or an argument is invalid.
        CliError: The memory of --ram does not fit into that of the machine.
    """
    spaces = [
        *({"store": "ram", "size": size} for size in args.ram or ()),
        *({"store": "file", "path": str(Path(path).absolute())} for path in args.file or ()),
        *({"store": "pmem", "path": str(Path(path).absolute())} for path in args.pmem or ()),
        *(
            {"store": "python", "python": name, "options": options}
            for name, options in args.python or ()
        ),
    ]
    if args.config is not None:
        flags = ("ram", "file", "pmem", "python", "nqn", "traddr", "trsvcid", "force")
        given = [flag for flag in flags if getattr(args, flag)]
        if given:
            raise UsageError(f"--{given[0]} replaces a configuration: omit {args.config}")
        if args.config != "-":
            return None
        return loads(stdin_text(), "stdin", base=Path.cwd()), "stdin"
    if not spaces:
        raise UsageError(
            "specify a configuration file, -, or --ram SIZE, --file or --pmem PATH, --python NAME"
        )
    _must_fit(args)
    port = {"traddr": args.traddr, "trsvcid": args.trsvcid}
    tables = {
        "port": [{key: value for key, value in port.items() if value is not None}],
        "subsystem": [
            {"nqn": args.nqn or QUICK_NQN, "allow_any_host": True, "namespace": spaces},
        ],
    }

    def option(loc: Loc) -> str:
        match loc:
            case ("subsystem", 0, "namespace", int(number), *_):
                return f"--{spaces[number]['store']}"
            case (_, 0, str(key), *_):
                return f"--{key}"
        return _SOURCE

    try:
        return from_dict(tables, _SOURCE, name=option), _SOURCE
    except ConfigError as error:
        raise UsageError("; ".join(error.problems)) from None


def _must_fit(args: argparse.Namespace) -> None:
    """Raise CliError if --ram is more than this machine's memory, unless --force is given."""
    asked, there = sum(args.ram or ()), machine_memory()
    if asked > there and not args.force:
        raise CliError(
            f"--ram of {size_text(asked)} does not fit into this machine's memory of "
            f"{size_text(there)}: use a smaller size, or --file; --force serves it all the same "
            "(memory is allocated as hosts write)"
        )
