# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target`: run a target, and administer a running one."""

from __future__ import annotations

from nvmf.cli.base import Subparsers
from nvmf.cli.target import (
    ana,
    faults,
    file_commands,
    hosts,
    loglevel,
    ls,
    mirror,
    namespaces,
    ports,
    serve,
    shell,
    stats,
    subsystems,
)

_MODULES = (
    serve,
    ls,
    subsystems,
    namespaces,
    mirror,
    hosts,
    ports,
    ana,
    file_commands,
    shell,
    stats,
    loglevel,
    faults,
)
"""Modules with commands."""

_DESCRIPTION = """\
Run a target in the foreground, or administer a running one while hosts are connected.

A change is applied completely or not at all, and lasts until the target ends unless it is saved.
"""


def add_commands(subparsers: Subparsers) -> None:
    """Add target serve, and the commands for a running target."""
    group = subparsers.add_parser(
        "target",
        help="run a target, or administer a running one",
        description=_DESCRIPTION,
        examples=(
            "nvmeof target serve target.toml",
            "nvmeof target ls",
            "nvmeof target namespace add nqn.2026-01.example:disk --store file --path /srv/d2.img",
            "nvmeof target save",
        ),
    )
    commands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in _MODULES:
        module.add_commands(commands)
