# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof verbs`: run a program of libibverbs and librdmacm on an embedded device."""

from __future__ import annotations

import argparse
import os

from nvmf.cli.base import CliError, Subparsers, UsageError, add_command
from nvmf.paths import verbs_library


def add_commands(subparsers: Subparsers) -> None:
    """Add verbs."""
    parser = add_command(
        subparsers,
        "verbs",
        run,
        "run a program of libibverbs and librdmacm on an embedded device",
        "Runs an unmodified program that is linked against libibverbs and librdmacm on an embedded "
        "device, without RDMA hardware, kernel modules or privileges. It sets LD_PRELOAD to "
        "libnvmf-verbs.so, which has the functions of both libraries for the embedded devices, "
        "and NVMEOF_VERBS_DEVICE. The libraries themselves must be installed.\n\n"
        "iwarp connects by librdmacm only. roce also connects queue pairs by ibv_modify_qp, and "
        "has atomic operations; its GID 0 is an address of the process on the loopback network, "
        "the next ones are the addresses of the interfaces.\n\n"
        "The exit status is that of the program.",
        examples=(
            "nvmeof verbs -- rping -s -a 127.0.0.1 -C 10",
            "nvmeof verbs -- ib_send_bw -R 127.0.0.1",
            "nvmeof verbs --device roce -- ibv_rc_pingpong -g 0",
        ),
    )
    parser.add_argument(
        "--device",
        choices=("iwarp", "roce"),
        default="iwarp",
        help="the embedded device (default: iwarp)",
    )
    parser.add_argument(
        "command",
        metavar="PROGRAM",
        nargs=argparse.REMAINDER,
        help="a program with its arguments; options of nvmeof verbs come before it",
    )


def run(args: argparse.Namespace) -> int:
    """Replace this process by the program."""
    command: list[str] = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("specify the program to run")
    library = verbs_library()
    if not library.exists():
        raise CliError(f"cannot run {command[0]}: {library} does not exist: reinstall nvmeof-rdma")
    preload = [str(library), *filter(None, [os.environ.get("LD_PRELOAD")])]
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(preload),
        "NVMEOF_VERBS_DEVICE": args.device,
    }
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        raise CliError(f"cannot run {command[0]}: {error.strerror}") from None
