# SPDX-License-Identifier: BSD-3-Clause
"""The `nvmeof` command: parse, run, and report expected errors as a message and an exit status.

Exit status: 0 success, 1 failure, 2 usage error, 130 SIGINT, 141 no reader of stdout, 143 SIGTERM.
Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import itertools
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, TextIO

from nvmf.cli.base import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_NO_READER,
    EXIT_OK,
    EXIT_TERMINATED,
    EXIT_USAGE,
    VERBOSE_HELP,
    CliError,
    Command,
    Failures,
    Line,
    Terminated,
    UsageError,
    complain,
    drop_stdout,
    usage_hint,
)

COMMANDS: dict[str, dict[str, str]] = {
    "target": {"target": "run a target, or administer a running one"},
    "rpc": {"rpc": "call an RPC method of a running target"},
    "top": {"top": "watch the hosts, queues and namespaces of a running target"},
    "config": {"config": "check a target's configuration, or convert it"},
    "devices": {"devices": "list RDMA devices with their ports, GIDs and capabilities"},
    "discover": {"discover": "list the subsystems that a port offers to this host"},
    "identify": {
        "id-ctrl": "show Identify Controller data",
        "id-ns": "show Identify Namespace data of a namespace",
        "list-ns": "list the active namespaces",
    },
    "transfer": {
        "read": "copy blocks of a namespace to a file or to stdout",
        "write": "copy a file or stdin to blocks of a namespace, and flush",
        "flush": "commit written data of a namespace to non-volatile media",
    },
    "blocks": {
        "write-uncor": "mark blocks as invalid, so that reading them fails",
        "compare-and-write": "write a block if it has the expected content, atomically",
    },
    "ranges": {
        "write-zeroes": "set blocks to zeroes, without sending them",
        "verify": "have the target read blocks, without sending them",
        "dsm": "deallocate blocks: their data is no longer needed (TRIM)",
        "copy": "have the target copy blocks, without transferring them",
        "compare": "compare blocks with a file, without reading them",
    },
    "logs": {
        "smart-log": "show SMART / health information",
        "error-log": "show the error information log, newest first",
        "ana-log": "show the ANA groups, their states and namespaces",
        "changed-ns-list-log": "show the namespaces that changed since the controller was "
        "connected",
        "get-log": "print a log page",
    },
    "features": {
        "get-feature": "show the value of a feature",
        "set-feature": "set a feature for this connection",
        "show-regs": "show the properties of the controller",
    },
    "reserve": {
        "resv-register": "register this host's reservation key",
        "resv-acquire": "reserve a namespace, or preempt a holder",
        "resv-release": "release a reservation, or clear all",
        "resv-report": "show the reservation and the registered hosts",
    },
    "bench": {"bench": "measure a namespace: IOPS, throughput, latency"},
    "pmem": {"pmem": "compare the methods of writing to persistent memory of a target"},
    "lab": {"lab": "measure systems with fio, and report and compare the results"},
    "fio_engine": {"fio-engine": "build the fio engine for the installed fio, or print its path"},
    "verbs": {"verbs": "run a program of libibverbs and librdmacm on an embedded device"},
    "capture": {
        "capture": "record the packets of a command or of a running target",
    },
    "explain": {
        "explain": "show the NVMe-oF connections of a capture file, and what is wrong",
    },
    "replay": {
        "replay": "play the host or the target of a capture file against a live peer",
    },
    "kernel.connect": {
        "connect": "connect the kernel to a subsystem, and wait for its block devices",
    },
    "kernel.connect_all": {
        "connect-all": "connect the kernel to all subsystems that a port offers, following "
        "referrals",
    },
    "kernel.disconnect": {
        "disconnect": "disconnect the kernel from a subsystem",
        "disconnect-all": "disconnect the kernel from all fabrics subsystems",
    },
    "reset": {"reset": "reset a controller, of the kernel or over a connection of its own"},
    "kernel.listing": {
        "list": "list the NVMe block devices of this machine",
        "list-subsys": "list the NVMe subsystems that the kernel is connected to, and their "
        "controllers",
    },
    "keys": {
        "gen-dhchap-key": "generate a key for in-band authentication (DH-HMAC-CHAP)",
        "check-dhchap-key": "check a key for in-band authentication",
    },
    "hostnqn": {
        "show-hostnqn": "show the NQN by which this host is known to targets",
        "gen-hostnqn": "generate an NQN for a host, from a random UUID",
    },
    "doctor": {
        "doctor": "check this machine for problems of a target or a host, with remedies",
    },
    "completion": {
        "completion": "print the shell completion script for nvmeof",
    },
}
"""Commands by module; the module is loaded when one of its commands is called."""

_DESCRIPTION = """\
NVMe over Fabrics on RDMA in userspace: a target, and an initiator for it.

Without an RDMA device, an embedded one is used, which needs no hardware and no privileges: iWARP
over TCP or, with --device roce, RoCEv2 over UDP. `nvmeof help COMMAND` shows the help of a command.
"""
_EXAMPLES = (
    "nvmeof target serve target.toml",
    "nvmeof discover -a 127.0.0.1",
    "nvmeof read nvme+rdma://127.0.0.1/nqn.2026-01.example:disk -z 4k -d block0.bin",
)


def version() -> str:
    """Return the version of the distribution; "unknown" if it is not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of("nvmeof-rdma")
    except PackageNotFoundError:
        return "unknown"


class _Version(argparse.Action):
    """--version: the installed version is determined only when requested."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"nvmeof {version()}")
        parser.exit()


def make_parser(called: str = "", *, every: bool = False) -> Command:
    """Return the parser, with the arguments of the called command only, or of every command."""
    parser = Command(prog="nvmeof", description=_DESCRIPTION, examples=_EXAMPLES)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    parser.add_argument("-v", "--verbose", action="count", default=0, help=VERBOSE_HELP)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module, commands in COMMANDS.items():
        if every or called in commands:
            importlib.import_module(f"nvmf.cli.{module}").add_commands(subparsers)
        else:
            for name, summary in commands.items():
                subparsers.add_parser(name, help=summary)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    _open_missing()
    for stream in (sys.stdout, sys.stderr):  # text of a peer may not be encodable
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = _as_options(sys.argv[1:] if argv is None else argv)
    Failures.as_json = _wants_json(words)
    parser = make_parser(next((word for word in words if not word.startswith("-")), ""))
    try:
        return _reported(parser, lambda: _called(parser, words))
    except SystemExit:
        if status := _reported(parser, lambda: EXIT_OK):  # writing the help failed
            return status
        raise


def _as_options(words: Sequence[str]) -> Sequence[str]:
    """Return the arguments, with nvme-cli's `help COMMAND` and `version` as options."""
    if words[:1] == ["help"]:
        return [*words[1:], "--help"]
    return ["--version"] if words == ["version"] else words


def _called(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Run the command with these arguments; return its exit status."""
    args, unknown = parser.parse_known_args(words)
    if unknown:  # show the usage of this command only
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    _log(args.verbose)
    return _reported(args.parser, lambda: int(args.run(args)))


ATTEMPTS = "nvmf.initiator.client.recovery.attempts"
"""The logger of failed attempts to reconnect."""


class _Attempts(logging.Handler):
    """Shows the last attempt to reconnect, in one line of the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple):  # the short form: a line has no room for the NQN
            _, number, limit, reason = record.args
            reason = re.sub(r"^connecting queue \d+ to \S+: ", "", str(reason))
            Line.show(f"reconnecting: attempt {number}, {limit}: {reason}")


def _without_attempts(record: logging.LogRecord) -> bool:
    """Return whether to print a record; if so, the line of attempts makes room for it."""
    if hasattr(record, "attempt"):
        return False
    Line.clear()
    return True


def _log(verbose: int) -> None:
    """Print records on stderr: on a terminal, attempts to reconnect in one line.

    verbose: 0 for warnings, 1 for connections, retries and failed commands too, 2 for everything.
    """
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    handler: logging.StreamHandler[TextIO] = logging.StreamHandler(sys.stderr)
    logging.basicConfig(level=level, format="%(levelname)s: %(message)s", handlers=[handler])
    attempts = logging.getLogger(ATTEMPTS)
    attempts.propagate = bool(verbose)
    if verbose:  # each attempt has one line: a warning follows some of them
        handler.addFilter(lambda record: not getattr(record, "warned", False))
    elif sys.stderr.isatty():
        handler.addFilter(_without_attempts)
        attempts.setLevel(logging.INFO)
        attempts.addHandler(_Attempts())


def _reported(command: argparse.ArgumentParser, work: Callable[[], int]) -> int:
    """Return the status of work, after flushing stdout; report expected errors as a message."""
    try:
        status = work()
        sys.stdout.flush()
        return status
    except SystemExit:  # help, or usage error: load nothing for it
        raise
    except Terminated:
        return _complain(command, "terminated", EXIT_TERMINATED)
    except KeyboardInterrupt:
        return _complain(command, "interrupted", EXIT_INTERRUPTED)
    except UsageError as error:
        return _complain(command, usage_hint(str(error), command.prog), EXIT_USAGE)
    except CliError as error:
        return _complain(command, str(error), error.status)
    except _failures() as error:
        return _complain(command, str(error), EXIT_FAILED)
    except BrokenPipeError:
        # The reader of stdout is gone: nothing can be reported there.  It may have read all that it
        # wanted, as head(1): no message, and the status that a shell reports for cat(1) and dd(1).
        drop_stdout()
        return EXIT_NO_READER
    except OSError as error:
        words = f"{error.filename}: {error.strerror}" if error.filename else _output_failed(error)
        return _complain(command, words, EXIT_FAILED)


def _open_missing() -> None:
    """Replace closed standard streams by ones that fail, so that no socket gets their number.

    Lost output on stderr is not reported, because no program depends on it.
    """
    for name, flags, mode in (
        ("stdin", os.O_WRONLY, "r"),
        ("stdout", os.O_RDONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))


def _failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that a command may raise; imported only when needed."""
    from nvmf.engine import EngineError
    from nvmf.initiator.base.errors import ConnectionLost
    from nvmf.initiator.kernel.errors import KernelError
    from nvmf.spec.status import StatusError

    return EngineError, StatusError, ConnectionLost, KernelError


def _wants_json(words: Sequence[str]) -> bool:
    """Return whether -o json is among the arguments, which may be wrong otherwise."""
    joined = ("-ojson", "-o=json", "--output-format=json")
    pairs = itertools.pairwise(words)
    return any(word in joined for word in words) or any(
        word in ("-o", "--output-format") and value == "json" for word, value in pairs
    )


def _complain(command: argparse.ArgumentParser, sentence: str, status: int) -> int:
    """Report a failure; the command's own status replaces 1, if it has one for trouble."""
    if status in (EXIT_FAILED, EXIT_USAGE):
        status = command.get_default("trouble") or status
    return complain(command.prog, sentence, status)


def _output_failed(error: OSError) -> str:
    """Return a message; without a file name the failure is of stdout, which is not retried."""
    words = error.strerror or str(error)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF):
        return words
    drop_stdout()
    return f"cannot write the result to stdout: {words}"
