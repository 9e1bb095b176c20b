# SPDX-License-Identifier: BSD-3-Clause
"""Our Python client, outside, on the kernel's target while the link and the target's port fail."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from lab import network
from lab.cells import use_device
from lab.guest import Guest
from lab.network import Network
from lab.nvmet import CONFIGFS, KernelTarget
from lab.waiting import PATIENCE, until

pytestmark = [
    pytest.mark.usefixtures("need_product"),
    pytest.mark.timeout(900),
]

PROGRAM = Path(__file__).with_name("verified_client.py")
OPTIONS = "device=iwarp&kato=4&reconnect_delay=1&ctrl_loss_tmo=600&queues=2"
TIMES = 3
"""Failures of the link and of the port."""


class Client:
    """verified_client.py in the lab's network namespace."""

    def __init__(self, cable: Network, target: KernelTarget) -> None:
        url = f"nvme+rdma://{target.address}:{target.service}/{target.nqn}?{OPTIONS}"
        self.output = ""
        self._process = subprocess.Popen(
            cable.command(sys.executable, "-P", str(PROGRAM), url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output += line.decode(errors="replace")

    def count(self, line: str) -> int:
        """Return how often the client has printed a line."""
        return self.output.count(f"{line}\n")

    @property
    def rounds(self) -> int:
        return self.output.count("round ")

    def wait(self, line: str, times: int) -> None:
        """Wait until the client has printed a line this many times."""
        self._until(lambda: self.count(line) >= times, f"the client says {line!r}")

    def go_on(self) -> None:
        """Wait until a round that begins after this call is complete."""
        wanted = self.rounds + 2
        self._until(lambda: self.rounds >= wanted, "the client has written and read again")

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        def step() -> bool:
            assert self._process.poll() is None, f"the client ended:\n{self.output}"
            return reached()

        until(step, what, state=lambda: self.output[-4000:])

    def end(self) -> None:
        """Make the client verify everything and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(2 * PATIENCE)
        self._reader.join(30)
        assert status == 0, self.output
        assert self.output.endswith("verified\n"), self.output

    def __enter__(self) -> Self:
        self.go_on()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.end()
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join(30)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()


@pytest.fixture
def target(doomed: Guest) -> KernelTarget:
    """nvmet, in a separate guest.

    If nvmet disconnects while RDMA READs of its own are outstanding, siw (6.12) never completes
    them, and nvmet waits for them forever: its new connections work, its port cannot be removed.
    """
    use_device(doomed, "siw")
    return KernelTarget(doomed, network.GUEST)


def test_link_down(cable: Network, target: KernelTarget) -> None:
    """The link is down until the client has noticed; no data is lost."""
    with Client(cable, target) as client:
        for number in range(1, TIMES + 1):
            cable.link(up=False)
            try:
                client.wait("reconnecting", number)
            finally:
                cable.link(up=True)
            client.wait("live", number + 1)
            client.go_on()
    assert target.guest.healthy()


def test_port_removed(cable: Network, target: KernelTarget) -> None:
    """The target's port is removed and added again; no data is lost."""
    link = f"{CONFIGFS}/nvmet/ports/1/subsystems/{target.nqn}"
    with Client(cable, target) as client:
        for number in range(1, TIMES + 1):
            target.guest.run(["rm", link])
            client.wait("reconnecting", number)
            target.guest.run(["ln", "-s", f"{CONFIGFS}/nvmet/subsystems/{target.nqn}", link])
            client.wait("live", number + 1)
            client.go_on()
    assert target.guest.healthy()
