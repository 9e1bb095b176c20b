# SPDX-License-Identifier: BSD-3-Clause
"""A target in a separate process, and the command line on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

NQN = "nqn.2026-01.example:disk"
PROGRAM = [sys.executable, "-m", "nvmf.cli.main"]


def on_terminal(
    words: list[str], columns: int, environment: dict[str, str], *, typed: str = ""
) -> tuple[int, str]:
    """Return exit status and output of a program whose standard streams are a terminal.

    typed: what the user types, which the terminal echoes.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as running:
        os.close(slave)
        os.write(master, typed.encode())
        said = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the last writer has closed it
                break
            if not piece:
                break
            said += piece
    os.close(master)
    return running.returncode, said.decode().replace("\r\n", "\n")


class Serving:
    """`nvmeof target serve` in a different process, with a folder for its socket."""

    def __init__(self, folder: Path, *words: str, stdin: str = "") -> None:
        self.environment = {**os.environ, "RUNTIME_DIRECTORY": str(folder)}
        self.environment.pop("COLUMNS", None)
        self.log = folder / f"log-{len(list(folder.iterdir()))}"
        self._log = self.log.open("wb")
        self.process = subprocess.Popen(
            [*PROGRAM, "target", "serve", *words],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(stdin)
        self.process.stdin.close()
        line = self.process.stdout.readline()
        found = re.match(r"listening on 127\.0\.0\.1:(\d+)", line)
        assert found, line + self.log.read_text()
        self.port = int(found[1])

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(120) == 0, self.log.read_text()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()
        assert "Traceback" not in self.log.read_text()
