# SPDX-License-Identifier: BSD-3-Clause
"""The guest's agent: takes commands from the host over a virtio-serial port.

One JSON object per line, both ways.  To the guest::

    {"do": "run", "id": 1, "argv": [...], "stdin": base64 or null, "env": {...}}
    {"do": "python", "resident": [...], "cwd": "/", and as for run}     by the resident Python
    {"do": "signal", "id": 1, "signal": 9}      to the whole process group
    {"do": "log", "text": "..."}                a line of the kernel's log
    {"do": "ping", "id": 2}                     answered in kind
    {"do": "halt"}

From the guest: ``{"ready": uname}`` once; for a command, as output appears, ``{"id": 1, "stream":
"out" or "err", "data": base64}``, and last ``{"id": 1, "exit": status}``, negative if a signal
ended it.

It imports nothing of the project: it is copied into the guest alone.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import IO, Any

CHUNK = 32768
STRAGGLER_SECONDS = 1.0
"""Maximum seconds to wait for the output of processes that a command left running."""


RESIDENT_SOCKET = "/run/resident-python"


class Forked:
    """A program that the resident Python runs (resident.py), as far as it is like a Popen."""

    def __init__(self, argv: list[str], cwd: str, env: dict[str, str], stdin: bool) -> None:
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.connect(RESIDENT_SOCKET)
        given, feed = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
        (out, put_out), (err, put_err) = os.pipe(), os.pipe()
        request = json.dumps({"argv": argv, "cwd": cwd, "env": env}).encode()
        socket.send_fds(self._connection, [request], [given, put_out, put_err])
        for descriptor in (given, put_out, put_err):
            os.close(descriptor)
        self.stdin: IO[bytes] | None = os.fdopen(feed, "wb", 0) if stdin else None
        self.stdout: IO[bytes] | None = os.fdopen(out, "rb", 0)
        self.stderr: IO[bytes] | None = os.fdopen(err, "rb", 0)
        self._answers = self._connection.makefile("r")
        self.pid = int(self._answers.readline())

    def wait(self) -> int:
        """Wait for its end; return its status as Popen does."""
        status = int(self._answers.readline())
        self._answers.close()
        self._connection.close()
        return status


class Agent:
    """The guest's side of the port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sending = threading.Lock()
        self._running: dict[int, subprocess.Popen[bytes] | Forked] = {}
        self._resident: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        with self._sending:
            while data:
                data = data[os.write(self._port, data) :]

    def serve(self) -> None:
        """Execute requests until halt, or until the other side closes the port."""
        self.send({"ready": " ".join(os.uname())})
        rest = b""
        while piece := os.read(self._port, 1 << 16):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message["do"] == "halt":
                    return
                try:
                    self._do(message)
                except Exception as error:  # the agent must live as long as the guest
                    self.send({"id": message.get("id", 0), "failed": repr(error)})

    def _do(self, message: dict[str, Any]) -> None:
        match message["do"]:
            case "run" | "python":
                threading.Thread(target=self._run, args=(message,), daemon=True).start()
            case "signal":
                if process := self._running.get(message["id"]):
                    os.killpg(process.pid, message["signal"])
            case "log":
                with open("/dev/kmsg", "w") as log:
                    log.write(message["text"])
            case "ping":
                self.send({"id": message["id"], "exit": 0})

    def _run(self, message: dict[str, Any]) -> None:
        number = message["id"]
        try:
            process = self._start(message)
        except ValueError as error:
            self.send({"id": number, "failed": f"the resident Python: {error}"})
            return
        except OSError as error:
            self._output(number, "err", f"{message['argv'][0]}: {error.strerror}\n".encode())
            self.send({"id": number, "exit": 127})
            return
        self._running[number] = process
        readers = [
            threading.Thread(target=self._copy, args=(number, name, pipe.fileno()), daemon=True)
            for name, pipe in (("out", process.stdout), ("err", process.stderr))
            if pipe
        ]
        for reader in readers:
            reader.start()
        if process.stdin:
            try:
                process.stdin.write(base64.b64decode(message["stdin"]))
                process.stdin.close()
            except BrokenPipeError:
                pass
        status = process.wait()
        end = time.monotonic() + STRAGGLER_SECONDS
        for reader in readers:
            reader.join(max(0.0, end - time.monotonic()))
        del self._running[number]
        self.send({"id": number, "exit": status})

    def _start(self, message: dict[str, Any]) -> subprocess.Popen[bytes] | Forked:
        if message["do"] == "python":
            self._need_resident(message["resident"])
            given = message["stdin"] is not None
            return Forked(message["argv"], message["cwd"], message["env"], given)
        return subprocess.Popen(
            message["argv"],
            stdin=subprocess.PIPE if message["stdin"] is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **message["env"]},
            start_new_session=True,
        )

    def _need_resident(self, argv: list[str]) -> None:
        """Start the resident Python, unless it runs; return when it takes programs."""
        with self._starting:
            if self._resident:
                return
            argv = [*argv, RESIDENT_SOCKET]
            resident = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
            )
            assert resident.stdout
            if resident.stdout.readline() != b"ready\n":
                raise ValueError(f"{' '.join(argv)} ended with {resident.wait()}")
            self._resident = resident

    def _copy(self, number: int, name: str, pipe: int) -> None:
        while data := os.read(pipe, CHUNK):
            self._output(number, name, data)

    def _output(self, number: int, name: str, data: bytes) -> None:
        self.send({"id": number, "stream": name, "data": base64.b64encode(data).decode()})


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    Agent(os.open(sys.argv[1], os.O_RDWR)).serve()


if __name__ == "__main__":
    main()
