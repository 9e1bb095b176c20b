# SPDX-License-Identifier: BSD-3-Clause
"""The guest's agent: takes commands from the host over a virtio-serial port.

One JSON object per line, both ways.  To the guest::

    {"do": "run", "id": 1, "argv": [...], "stdin": base64 or null, "env": {...}}
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
import subprocess
import sys
import threading
import time
from typing import Any

CHUNK = 32768
STRAGGLER_SECONDS = 1.0
"""Maximum seconds to wait for the output of processes that a command left running."""


class Agent:
    """The guest's side of the port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sending = threading.Lock()
        self._running: dict[int, subprocess.Popen[bytes]] = {}

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
            case "run":
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
            process = subprocess.Popen(
                message["argv"],
                stdin=subprocess.PIPE if message["stdin"] is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **message["env"]},
                start_new_session=True,
            )
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
