# SPDX-License-Identifier: BSD-3-Clause
"""Many calls of the command line, each in a process of its own that is forked with its modules
loaded: a tenth of the time of a new interpreter.

As a program: reads one call per line from stdin (JSON), and writes its result.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import pkgutil
import pty
import signal
import struct
import subprocess
import sys
import termios
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

HANG = 120
"""Seconds after which a call counts as a hang."""
Run = Callable[..., tuple[int, str, str]]
"""Runs a command in the test's own process; returns exit status, stdout and stderr."""
_FOLDER = Path(__file__).parents[1]


class Result(NamedTuple):
    """The result of a call."""

    status: int
    said: str
    """stdout and stderr together, as a terminal shows them."""


class Caller:
    """Runs calls, one after the other; close() it."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        path = os.pathsep.join([str(_FOLDER), environment.get("PYTHONPATH", "")])
        self._program = subprocess.Popen(
            [sys.executable, "-m", "support.calling"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "PYTHONPATH": path},
            cwd=folder,
            text=True,
        )

    def __call__(self, words: Sequence[str], columns: int = 0, *, until: str = "") -> Result:
        """Run a command on a terminal with this many columns; 0: piped.

        until: once it has said this, it gets SIGINT.
        """
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        print(json.dumps([list(words), columns, until]), file=self._program.stdin, flush=True)
        answer = self._program.stdout.readline()
        assert answer, words
        return Result(*json.loads(answer))

    def close(self) -> None:
        """End the program."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.stdout.close()
        assert self._program.wait(HANG) == 0


def _run(words: list[str]) -> NoReturn:
    """Run a command in this process, which ends, by SIGALRM if it hangs."""
    from nvmf.cli.main import main

    signal.alarm(HANG)
    # Objects of its own for its standard streams: those of the parent know its pipes.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    status = 1
    try:
        status = main(words)
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _terminal(words: list[str], columns: int) -> tuple[int, int]:
    """Run a command on a terminal; return its pid, and what reads from it."""
    child, master = pty.fork()
    if not child:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        _run(words)
    return child, master


def _piped(words: list[str]) -> tuple[int, int]:
    """Run a command without a terminal; return its pid, and what reads its output."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (1, 2):
            os.dup2(writer, number)
        _run(words)
    os.close(writer)
    return child, reader


def _call(words: list[str], columns: int, until: str) -> tuple[int, str]:
    child, reader = _terminal(words, columns) if columns else _piped(words)
    said = b""
    with contextlib.suppress(OSError):  # of a terminal that the last writer has closed
        while piece := os.read(reader, 65536):
            said += piece
            if until and until.encode() in said:
                os.kill(child, signal.SIGINT)
                until = ""
    os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, said.decode(errors="replace").replace("\r\n", "\n")


def _load() -> None:
    """Import what commands import, but start nothing: a fork keeps no threads."""
    import nvmf.cli

    for module in pkgutil.walk_packages(nvmf.cli.__path__, "nvmf.cli."):
        importlib.import_module(module.name)
    for name in ("config", "doctor", "initiator", "lab.compare", "lab.report", "target.sync"):
        importlib.import_module(f"nvmf.{name}")


if __name__ == "__main__":
    os.environ.pop("COLUMNS", None)
    _load()
    for line in sys.stdin:
        print(json.dumps(_call(*json.loads(line))), flush=True)
