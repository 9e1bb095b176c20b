# SPDX-License-Identifier: BSD-3-Clause
"""Our commands that make the guest's kernel connect: `nvmeof connect` and similar ones."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

from lab.guest import Guest
from lab.prepare import ROOT
from lab.running import Result

HOSTNQN = "nqn.2014-08.org.nvmexpress:uuid:7d9c5c26-0000-4000-8000-0000000000aa"
HOSTID = "7d9c5c26-0000-4000-8000-0000000000aa"
SECONDS = 240.0
"""Time limit of one command: it ends a hang."""


class Initiator:
    """`nvmeof` in the guest, as root: all commands in one process.  close() it."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        guest.run("rm -f /run/lab/ask /run/lab/answer; mkfifo /run/lab/ask /run/lab/answer")
        self._server = guest.start(
            self._in_tests("lab.command_server", "/run/lab/ask", "/run/lab/answer")
        )
        self._server.wait_for("ready", SECONDS)

    @staticmethod
    def _in_tests(module: str, *arguments: str) -> str:
        words = [sys.executable, "-m", module, *arguments]
        return f"cd {shlex.quote(str(ROOT / 'tests'))} && exec {shlex.join(words)}"

    def argv(self, command: str, *arguments: str) -> list[str]:
        """Return the command line, to run it separately."""
        return [sys.executable, "-m", "nvmf.cli.main", *command.split(), *arguments]

    def run(self, command: str, *arguments: str, check: bool = True) -> Result:
        """Run one command until it ends."""
        words = [*command.split(), *arguments]
        shown = f"nvmeof {shlex.join(words)}"
        print(f"guest$ {shown}", file=sys.stderr)
        script = 'printf %s "$1" > /run/lab/ask && cat /run/lab/answer'
        told = self.guest.run(
            ["sh", "-c", script, "sh", json.dumps(words)], timeout=SECONDS, quiet=True
        ).json()
        done = Result(shown, told["status"], told["out"], told["err"])
        print(done.output, file=sys.stderr)
        return done.check() if check else done

    def close(self) -> None:
        """End the process."""
        if self._server.alive and not self.guest.dead:
            self.guest.run("printf null > /run/lab/ask", quiet=True)
            self._server.wait(SECONDS)

    def json(self, command: str, *arguments: str) -> Any:
        """Return the output of a command with -o json."""
        return self.run(command, *arguments, "-o", "json").json()

    def refused(self, command: str, *arguments: str) -> str:
        """Return the message of a command that fails with status 1."""
        done = self.run(command, *arguments, check=False)
        assert done.status == 1, done.output
        assert done.stdout == "", done.output
        assert done.stderr.count("\n") == 1, f"not one sentence: {done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stderr.strip()

    def connect(self, address: str, service: int, nqn: str, *options: str) -> dict[str, Any]:
        """Run `nvmeof connect`; return its JSON."""
        where = ["-t", "rdma", "-a", address, "-s", str(service), "-n", nqn]
        found: dict[str, Any] = self.json("connect", *where, "-q", HOSTNQN, "-I", HOSTID, *options)
        return found

    def attribute(self, controller: str, name: str) -> str:
        """Return an attribute of a controller, from sysfs."""
        path = f"/sys/class/nvme/{controller}/{name}"
        return self.guest.run(["cat", path], quiet=True).stdout.strip()

    def controllers(self) -> list[str]:
        """Return the names of the existing controllers."""
        return self.guest.run("ls /sys/class/nvme 2>/dev/null; true", quiet=True).stdout.split()

    def python(self, module: str, *arguments: str, timeout: float = 240.0) -> Result:
        """Run a module of the tests in a separate process."""
        return self.guest.run(self._in_tests(module, *arguments), timeout=timeout)
