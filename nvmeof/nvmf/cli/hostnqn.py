# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof show-hostnqn`, `gen-hostnqn`: the NQN of this host, as nvme-cli has them."""

from __future__ import annotations

import argparse
import sys
import uuid

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, add_command
from nvmf.cli.output import print_json
from nvmf.initiator.base.identity import HOSTNQN_FILE, host_identity
from nvmf.spec.nqn import nqn_of_uuid


def add_commands(subparsers: Subparsers) -> None:
    """Add show-hostnqn and gen-hostnqn."""
    add_command(
        subparsers,
        "show-hostnqn",
        show,
        "show the NQN by which this host is known to targets",
        f"That of {HOSTNQN_FILE}, or one that is derived from the machine ID. Targets that admit\n"
        "listed hosts only need it: nvmeof target host allow. With -o json the host ID, too.",
        examples=("nvmeof show-hostnqn",),
    )
    add_command(
        subparsers,
        "gen-hostnqn",
        generate,
        "generate an NQN for a host, from a random UUID",
        examples=(f"nvmeof gen-hostnqn | sudo tee {HOSTNQN_FILE}",),
    )


def show(args: argparse.Namespace) -> int:
    """Print the NQN of this host."""
    try:
        found = host_identity()
    except ValueError as error:
        raise CliError(str(error)) from None
    if args.output_format == "json":
        print_json({"hostnqn": found.nqn, "hostid": str(found.id)})
        return EXIT_OK
    print(found.nqn)
    if not HOSTNQN_FILE.exists():
        print(f"{HOSTNQN_FILE} does not exist: derived from the machine ID", file=sys.stderr)
    return EXIT_OK


def generate(args: argparse.Namespace) -> int:
    """Print a new NQN."""
    nqn = nqn_of_uuid(uuid.uuid4())
    if args.output_format == "json":
        print_json({"hostnqn": nqn})
    else:
        print(nqn)
    return EXIT_OK
