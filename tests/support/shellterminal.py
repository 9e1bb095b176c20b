# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target shell` on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

from support.served import Served

HANG = 60


class Terminal:
    """The shell on a pseudo-terminal."""

    def __init__(self, served: Served) -> None:
        self.ours, theirs = pty.openpty()
        words = ("-m", "nvmf.cli.main", "target", "shell", "--rpc-socket", str(served.rpc_socket))
        self.process = subprocess.Popen(
            [sys.executable, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
            env={**os.environ, "TERM": "dumb", "COLUMNS": "200", "INPUTRC": "/dev/null"},
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def interrupt(self, sign: str) -> None:
        """Press Ctrl-C until a text appears; wait for the effect of earlier keys before.

        Python's readline notices a signal while it waits for a key, not while it handles one.  And
        Ctrl-C discards keys that were not read yet: if it was about to read one, it then waits for
        the next key, and for no signal.
        """
        end = time.monotonic() + HANG
        text = ""
        while sign not in text:
            assert time.monotonic() < end, f"{sign!r} does not come: {text!r}"
            self.type("\x03")
            while select.select([self.ours], [], [], 1.0)[0] and sign not in text:
                text += os.read(self.ours, 65536).decode(errors="replace")

    def until(self, sign: str) -> str:
        """Return the output up to a text."""
        text, end = "", time.monotonic() + HANG
        while sign not in text:
            ready, _, _ = select.select([self.ours], [], [], max(end - time.monotonic(), 0))
            assert ready, f"{sign!r} does not come: {text!r}"
            text += os.read(self.ours, 65536).decode(errors="replace")
        return text

    def end(self) -> int:
        status = self.process.wait(HANG)
        os.close(self.ours)
        return status
