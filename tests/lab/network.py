# SPDX-License-Identifier: BSD-3-Clause
"""The network between host processes and the guest: a tap in a network namespace."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "nvmf-lab-"
TAP = "labtap"
HOST = "10.77.0.1"
GUEST = "10.77.0.2"
HOST6 = "fd00:77::1"
GUEST6 = "fd00:77::2"
MTU = 9000


class CannotRun(Exception):
    """This machine cannot run the lab; the message has the reason."""


def _ip(*arguments: str) -> str:
    done = subprocess.run(
        ["ip", *arguments], capture_output=True, text=True, check=False, env=_environment()
    )
    if done.returncode:
        raise CannotRun(f"'ip {' '.join(arguments)}' failed: {done.stderr.strip()}")
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


class Network:
    """A network namespace with a tap: 10.77.0.1 and fd00:77::1 here, .2 and ::2 in the guest."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise CannotRun("a network namespace with a tap takes root: use sudo.")
        if not Path("/dev/net/tun").exists():
            raise CannotRun("there is no /dev/net/tun: the guest's network needs it.")
        _sweep()
        self.name = f"{PREFIX}{os.getpid()}"
        _ip("netns", "add", self.name)
        try:
            self._set_up()
        except CannotRun:
            self.close()
            raise

    def _set_up(self) -> None:
        for command in (
            "link set lo up",
            f"tuntap add {TAP} mode tap",
            f"addr add {HOST}/24 dev {TAP}",
            f"addr add {HOST6}/64 dev {TAP} nodad",
            f"link set {TAP} mtu {MTU} up",
        ):
            _ip("-n", self.name, *command.split())

    def command(self, *argv: str) -> list[str]:
        """Return the command line that runs argv in the namespace."""
        return ["/usr/sbin/ip", "netns", "exec", self.name, *argv]

    def link(self, *, up: bool) -> None:
        """Set the link up or down."""
        _ip("-n", self.name, "link", "set", TAP, "up" if up else "down")

    @contextmanager
    def mtu(self, size: int) -> Iterator[None]:
        """Set the MTU of this side of the link, in a context."""
        _ip("-n", self.name, *f"link set {TAP} mtu {size}".split())
        try:
            yield
        finally:
            _ip("-n", self.name, *f"link set {TAP} mtu {MTU}".split())

    @contextmanager
    def ordinary_segments(self) -> Iterator[None]:
        """In a context, this side sends TCP segments separately, none longer than Ethernet's 1500
        bytes allow.
        """
        _ip("-n", self.name, *f"link set {TAP} mtu 1500 gso_max_segs 1".split())
        try:
            yield
        finally:
            _ip("-n", self.name, *f"link set {TAP} mtu {MTU} gso_max_segs 65535".split())

    def sockets(self, port: int) -> list[str]:
        """Return the TCP sockets of the namespace that have this local port, a line each."""
        done = subprocess.run(
            self.command("ss", "-Htan", f"sport = :{port}"),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    def close(self) -> None:
        subprocess.run(["ip", "netns", "del", self.name], check=False, env=_environment())


def _sweep() -> None:
    """Remove the namespaces of labs that were killed."""
    for line in _ip("netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        number = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and number.isdigit() and not Path(f"/proc/{number}").exists():
            with suppress(CannotRun):  # another lab that starts now has already removed it
                _ip("netns", "del", name)
