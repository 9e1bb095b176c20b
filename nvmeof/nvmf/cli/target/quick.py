# SPDX-License-Identifier: BSD-3-Clause
"""Configurations without a file: made from the arguments of target serve, or read from stdin."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from nvmf.cli.base import CliError, UsageError
from nvmf.cli.output import size_text
from nvmf.config.advice import machine_memory
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
        return loads(sys.stdin.read(), "stdin", base=Path.cwd()), "stdin"
    if not spaces:
        raise UsageError(
            "specify a configuration file, -, or --ram SIZE, --file or --pmem PATH, --python NAME"
        )
    _must_fit(args)
    tables = {
        "port": [_given({"traddr": args.traddr, "trsvcid": args.trsvcid})],
        "subsystem": [
            {"nqn": args.nqn or QUICK_NQN, "allow_any_host": True, "namespace": spaces},
        ],
    }
    try:
        return from_dict(tables, _SOURCE), _SOURCE
    except ConfigError as error:
        problems = [_named(problem, spaces) for problem in error.problems]
        raise UsageError("; ".join(problems)) from None


def _named(problem: str, spaces: Sequence[Mapping[str, object]]) -> str:
    """Return a problem of the configuration with the option that it is about."""
    key, _, said = problem.removeprefix(f"{_SOURCE}: ").partition(": ")
    where = re.fullmatch(r"(?:port|subsystem)\[0\]\.(?:namespace\[(\d+)\]\.)?(\w+).*", key)
    if where is None:
        return problem
    option = where[2] if where[1] is None else spaces[int(where[1])]["store"]
    return f"--{option}: {said}"


def _must_fit(args: argparse.Namespace) -> None:
    """Raise CliError if --ram is more than this machine's memory, unless --force is given."""
    asked, there = sum(args.ram or ()), machine_memory()
    if asked > there and not args.force:
        raise CliError(
            f"--ram of {size_text(asked)} does not fit into this machine's memory of "
            f"{size_text(there)}: use a smaller size, or --file; --force serves it all the same "
            "(memory is allocated as hosts write)"
        )


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}
