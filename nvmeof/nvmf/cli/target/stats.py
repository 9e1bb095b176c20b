# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target stats`: counters of a running target."""

from __future__ import annotations

import argparse
from typing import Literal

from nvmf.cli.base import EXIT_OK, Subparsers
from nvmf.cli.output import print_json, print_table
from nvmf.cli.target.client import add_rpc_command, target


def add_commands(subparsers: Subparsers) -> None:
    """Add target stats."""
    add_rpc_command(
        subparsers,
        "stats",
        stats,
        "show counters of reactors and namespaces",
        examples=("nvmeof target stats", "nvmeof target stats -o json"),
    )


_SHOWN: tuple[
    Literal["reads", "writes", "read_bytes", "write_bytes", "errors", "media_errors"], ...
] = ("reads", "writes", "read_bytes", "write_bytes", "errors", "media_errors")
"""Counters of a namespace in the table."""


def stats(args: argparse.Namespace) -> int:
    """Print two tables."""
    with target(args) as rpc:
        found = rpc.stats()
    if args.output_format == "json":
        print_json(found)
        return EXIT_OK
    print_table(
        ("reactor", "admin queues", "I/O queues", "outstanding", "commands"),
        [
            (
                number,
                group["current_admin_qpairs"],
                group["current_io_qpairs"],
                group["pending_bdev_io"],
                group["completed_nvme_io"],
            )
            for number, group in enumerate(found["poll_groups"])
        ],
    )
    if found["namespaces"]:
        print()
        print_table(
            ("subsystem", "NSID", *(name.replace("_", " ") for name in _SHOWN)),
            [(n["nqn"], n["nsid"], *(n[name] for name in _SHOWN)) for n in found["namespaces"]],
        )
    return EXIT_OK
