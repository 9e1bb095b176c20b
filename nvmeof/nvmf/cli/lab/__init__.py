# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof lab`: measure systems with fio, and report and compare the results."""

from __future__ import annotations

from nvmf.cli.base import Subparsers
from nvmf.cli.lab import describing, reporting, running

_DESCRIPTION = """\
Measure systems with fio as a description (lab.toml) or a profile says, and report and compare the
results.

Needs fio and, for NVMe-oF, the fio engine for it (./dev build, or NVMF_FIO_ENGINE).
"""


def add_commands(subparsers: Subparsers) -> None:
    """Add lab run, report, compare, check, profiles, schema and export."""
    group = subparsers.add_parser(
        "lab",
        help="measure systems with fio, and report and compare the results",
        description=_DESCRIPTION,
        examples=(
            "nvmeof lab run --profile quick",
            "nvmeof lab run lab.toml -d results",
            "nvmeof lab report results",
            "nvmeof lab compare results/monday results/tuesday",
        ),
    )
    commands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (running, reporting, describing):
        module.add_commands(commands)
