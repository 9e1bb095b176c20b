# SPDX-License-Identifier: BSD-3-Clause
"""A Python of the guest that stays: it has imported the product, and forks for each program.

An emulated machine takes seconds to start Python and to import a target.  The agent starts this
program once, and connects to its socket for each program that runs in the environment of this
tree.  A request is one message: a JSON object ``{"argv", "cwd", "env"}`` with three descriptors,
for stdin, stdout and stderr.  The answers are lines: the PID of the program, which leads a session
and process group of its own, and last its exit status, negative if a signal ended it.

``argv`` is as for Python: ``-m MODULE ARGUMENTS``, ``FILE ARGUMENTS``, or ``- ARGUMENTS`` for a
program from stdin.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import Any

PRELOADED = (
    "asyncio",
    "nvmf.cli.app",
    "nvmf.cli.target.serve",
    "nvmf.cli.target.serving",
    "nvmf.config.loader",
    "nvmf.engine",
    "nvmf.initiator.client",
    "nvmf.initiator.sync",
    "nvmf.rpc.results",
    "nvmf.target.rpc.methods",
    "nvmf.target.service.server",
)
"""Modules that a target and a client import; none of it starts a thread or opens a device."""
BACKLOG = 16
REQUEST_BYTES = 1 << 20


def _program(argv: Sequence[str]) -> None:
    """Run a program as Python would, without importing again what is there."""
    first, *arguments = argv
    if first == "-m":
        module, *arguments = arguments
        sys.argv = [module, *arguments]
        sys.exit(importlib.import_module(module).main())
    sys.argv = [first, *arguments]
    if first == "-":
        exec(compile(sys.stdin.read(), "<stdin>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = os.path.dirname(first)
        runpy.run_path(first, run_name="__main__")


def _status(argv: Sequence[str]) -> int:
    """The exit status of a program that runs in this process."""
    try:
        _program(argv)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _child(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Be the program; does not return."""
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.update(request["env"])
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    status = _status(request["argv"])
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status & 0xFF)


def _serve(connection: socket.socket) -> None:
    """Run one program to its end, in a process that nothing else waits for."""
    text, descriptors, _, _ = socket.recv_fds(connection, REQUEST_BYTES, 3)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    program = os.fork()
    if program == 0:
        connection.close()
        _child(json.loads(text), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    connection.sendall(b"%d\n" % program)
    _, status = os.waitpid(program, 0)
    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def main(path: str) -> None:
    """Import the product, and fork for each connection to this socket."""
    for module in PRELOADED:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who serves a connection leaves no zombie
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(BACKLOG)
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            with contextlib.suppress(OSError):
                _serve(connection)
            os._exit(0)
        connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
