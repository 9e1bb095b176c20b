# SPDX-License-Identifier: BSD-3-Clause
"""All of `nvmeof`: parse, run, and turn every expected error into a sentence and an exit status.

Exit status: 0 done, 1 failed, 2 called wrongly.  Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from nvmf.cli.base import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_USAGE,
    CliError,
    Command,
    UsageError,
    drop_stdout,
    printable,
)

COMMANDS: dict[str, dict[str, str]] = {
    "target": {"target": "run a target, administer one that runs"},
    "top": {"top": "watch what hosts, queues and namespaces of a running target do"},
    "config": {"config": "check a target's configuration, or convert it"},
    "devices": {"devices": "list RDMA devices with their ports, GIDs and capabilities"},
    "discover": {"discover": "list the subsystems that a port offers to this host"},
    "identify": {
        "id-ctrl": "show what the controller says of itself (Identify Controller)",
        "id-ns": "show what the controller says of a namespace (Identify Namespace)",
        "list-ns": "list the active namespaces",
    },
    "transfer": {
        "read": "copy blocks of a namespace to a file or to stdout",
        "write": "copy a file or stdin to blocks of a namespace, and flush",
        "flush": "make what was written to a namespace stable",
    },
    "blocks": {
        "write-uncor": "mark blocks as invalid, so that reading them fails",
        "compare-and-write": "write a block if it is as expected, as one",
    },
    "reserve": {
        "resv-register": "register this host's reservation key",
        "resv-acquire": "reserve a namespace, or preempt a holder",
        "resv-release": "give a reservation up, or clear all",
        "resv-report": "list who is registered and what is reserved",
    },
    "bench": {"bench": "measure a namespace: IOPS, bytes a second, latency"},
    "kernel.connect": {
        "connect": "connect the kernel to a subsystem, and wait for its block devices",
    },
    "kernel.connect_all": {
        "connect-all": "connect the kernel to all that a port offers to this host, referrals "
        "followed",
    },
    "kernel.disconnect": {
        "disconnect": "disconnect the kernel from a subsystem",
        "disconnect-all": "disconnect the kernel from all that it is connected to over a fabric",
    },
    "kernel.listing": {
        "list": "list the NVMe block devices of this machine",
        "list-subsys": "list the NVMe subsystems that the kernel is connected to, and their "
        "controllers",
    },
    "keys": {
        "gen-dhchap-key": "make a key for in-band authentication (DH-HMAC-CHAP)",
        "check-dhchap-key": "check a key of in-band authentication",
    },
    "doctor": {
        "doctor": "look at the machine for what keeps a target or a host from working, and say "
        "the remedy",
    },
    "completion": {
        "completion": "print the script by which a shell completes the arguments of nvmeof",
    },
}
"""Commands by the module that has them, which is loaded when one of them is called."""

_DESCRIPTION = """\
NVMe over Fabrics on RDMA in userspace: a target, and an initiator to drive it with.

Without RDMA hardware the embedded iWARP device is used, which needs no privilege.
"""
_EXAMPLES = (
    "nvmeof target serve target.toml",
    "nvmeof discover -a 127.0.0.1",
    "nvmeof read nvme+rdma://127.0.0.1/nqn.2026-01.example:disk -z 4k -d block0.bin",
)


def version() -> str:
    """Of the distribution; unknown where it is run from a tree that is not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of("nvmeof-rdma")
    except PackageNotFoundError:
        return "unknown"


class _Version(argparse.Action):
    """--version: what is installed is looked up when somebody asks."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"nvmeof {version()}")
        parser.exit()


def make_parser(called: str = "", *, every: bool = False) -> Command:
    """The command line, with the arguments of the command that is called, or of every one."""
    parser = Command(prog="nvmeof", description=_DESCRIPTION, examples=_EXAMPLES)
    parser.add_argument("--version", action=_Version, nargs=0, help="say which version this is")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more; twice: all")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module, commands in COMMANDS.items():
        if every or called in commands:
            importlib.import_module(f"nvmf.cli.{module}").add_commands(subparsers)
        else:
            for name, summary in commands.items():
                subparsers.add_parser(name, help=summary)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    _open_missing()
    for stream in (sys.stdout, sys.stderr):  # what a peer says may be in no charset of ours
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if argv is None else argv
    parser = make_parser(next((word for word in words if not word.startswith("-")), ""))
    try:
        return _reported(parser, lambda: _called(parser, words))
    except SystemExit:
        if status := _reported(parser, lambda: EXIT_OK):  # the help could not be written
            return status
        raise


def _called(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """The status of the command that the words are of."""
    args, unknown = parser.parse_known_args(words)
    if unknown:  # with the usage of the command, not of all commands
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}; see --help")
    levels = (logging.WARNING, logging.INFO, logging.DEBUG)
    logging.basicConfig(
        level=levels[min(args.verbose, 2)], format="%(levelname)s: %(message)s", stream=sys.stderr
    )
    return _reported(args.parser, lambda: int(args.run(args)))


def _reported(command: argparse.ArgumentParser, work: Callable[[], int]) -> int:
    """The status of work, all of whose output is written; of an expected error, a sentence."""
    try:
        status = work()
        sys.stdout.flush()
        return status
    except SystemExit:  # help, or usage: nothing is loaded for it
        raise
    except KeyboardInterrupt:
        return _complain(command, "interrupted", EXIT_FAILED)
    except UsageError as error:
        command.print_usage(sys.stderr)
        return _complain(command, str(error), EXIT_USAGE)
    except CliError as error:
        return _complain(command, str(error), EXIT_FAILED)
    except _failures() as error:
        return _complain(command, str(error), EXIT_FAILED)
    except BrokenPipeError:
        # Whoever read our output has gone; nothing more can be said there.
        drop_stdout()
        return EXIT_FAILED
    except OSError as error:
        words = f"{error.filename}: {error.strerror}" if error.filename else _output_failed(error)
        return _complain(command, words, EXIT_FAILED)


def _open_missing() -> None:
    """In the place of a standard stream that is closed, one that fails: no socket has its number.

    What is lost on stderr alone is nothing that a program waits for.
    """
    for name, flags, mode in (
        ("stdin", os.O_WRONLY, "r"),
        ("stdout", os.O_RDONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))


def _failures() -> tuple[type[Exception], ...]:
    """What a command may end with; looked up where it does."""
    from nvmf.engine import EngineError
    from nvmf.initiator.base.errors import ConnectionLost
    from nvmf.initiator.kernel.errors import KernelError
    from nvmf.spec.status import StatusError

    return EngineError, StatusError, ConnectionLost, KernelError


def _complain(command: argparse.ArgumentParser, sentence: str, status: int) -> int:
    lines = "\n".join(printable(line) for line in sentence.split("\n"))
    print(f"{command.prog}: {lines}", file=sys.stderr)
    return status


def _output_failed(error: OSError) -> str:
    """A full disk where no file is named is that of the output; Python must not try it again."""
    words = error.strerror or str(error)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF):
        return words
    drop_stdout()
    return f"cannot write the result to stdout: {words}"
