# SPDX-License-Identifier: BSD-3-Clause
"""All of `nvmeof`: parse, run, and turn every expected error into a sentence and an exit status.

Exit status: 0 done, 1 failed, 2 called wrongly.  Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
from collections.abc import Sequence

from nvmf.cli import (
    bench,
    config,
    devices,
    discover,
    doctor,
    identify,
    kernel,
    keys,
    reserve,
    target,
    top,
    transfer,
)
from nvmf.cli.common import EXIT_FAILED, EXIT_USAGE, CliError, Formatter, UsageError
from nvmf.engine import EngineError
from nvmf.initiator import ConnectionLost, KernelError
from nvmf.spec.status import StatusError

_DESCRIPTION = """\
NVMe over Fabrics on RDMA in userspace: a target, and an initiator to drive it with.

Without RDMA hardware the embedded iWARP device is used, which needs no privilege:

  nvmeof target serve target.toml
  nvmeof discover -a 127.0.0.1
  nvmeof read nvme+rdma://127.0.0.1/NQN --namespace-id 1 -z 4k -d block0.bin
"""


def version() -> str:
    """Of the distribution; unknown where it is run from a tree that is not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of("nvmeof-rdma")
    except PackageNotFoundError:
        return "unknown"


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="nvmeof", description=_DESCRIPTION, formatter_class=Formatter, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"nvmeof {version()}")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more; twice: all")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (
        target,
        top,
        config,
        devices,
        discover,
        identify,
        transfer,
        reserve,
        bench,
        kernel,
        keys,
        doctor,
    ):
        module.add_commands(subparsers)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    parser = make_parser()
    args, unknown = parser.parse_known_args(argv)
    if unknown:  # with the usage of the command, not of all commands
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}; see --help")
    levels = (logging.WARNING, logging.INFO, logging.DEBUG)
    logging.basicConfig(
        level=levels[min(args.verbose, 2)], format="%(levelname)s: %(message)s", stream=sys.stderr
    )
    command: argparse.ArgumentParser = args.parser
    try:
        status = int(args.run(args))
        sys.stdout.flush()
        return status
    except UsageError as error:
        command.print_usage(sys.stderr)
        return _complain(command, str(error), EXIT_USAGE)
    except (CliError, EngineError, StatusError, ConnectionLost, KernelError) as error:
        return _complain(command, str(error), EXIT_FAILED)
    except BrokenPipeError:
        # Whoever read our output has gone; nothing more can be said there.
        _drop_stdout()
        return EXIT_FAILED
    except OSError as error:
        words = f"{error.filename}: {error.strerror}" if error.filename else _output_failed(error)
        return _complain(command, words, EXIT_FAILED)
    except KeyboardInterrupt:
        return _complain(command, "interrupted", EXIT_FAILED)


def _complain(command: argparse.ArgumentParser, sentence: str, status: int) -> int:
    print(f"{command.prog}: {sentence}", file=sys.stderr)
    return status


def _drop_stdout() -> None:
    """Python writes what is left when it ends, and must not fail again then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _output_failed(error: OSError) -> str:
    """A full disk where no file is named is that of the output; Python must not try it again."""
    words = error.strerror or str(error)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        return words
    _drop_stdout()
    return f"cannot write the result to stdout: {words}"
