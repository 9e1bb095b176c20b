# SPDX-License-Identifier: BSD-3-Clause
"""Our own target: beside the guest on the embedded device, or in it on the system's devices."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lab.guest import Guest
from lab.network import Network
from lab.running import GuestError
from support.served import Served

SUBNQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000003c"
PRIVATE_NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000003d"
FRIEND_NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000003f"
SERVICE = 4420
DISK = 64 << 20


def config(
    address: str, device: str, folder: str, *, reactors: int = 2, max_queues: int = 4096
) -> str:
    """Return two namespaces of memory and one of a file, for any host; and a subsystem for one
    host. Its reactors do not spin: the guests need the processors.
    """
    return f"""
[target]
reactors = {reactors}
max_queues = {max_queues}
spin_us = 0

[[port]]
traddr = "{address}"
trsvcid = {SERVICE}
device = "{device}"

[[subsystem]]
nqn = "{SUBNQN}"
serial = "LAB"
allow_any_host = true

[[subsystem.namespace]]
nsid = 1
store = "ram"
size = "64MiB"
block_size = 512

[[subsystem.namespace]]
nsid = 2
store = "ram"
size = "64MiB"
block_size = 4096

[[subsystem.namespace]]
nsid = 3
store = "file"
path = "{folder}/disk.img"
size = "64MiB"
block_size = 4096

[[subsystem]]
nqn = "{PRIVATE_NQN}"
hosts = ["{FRIEND_NQN}"]

[[subsystem.namespace]]
nsid = 1
store = "null"
size = "1MiB"
"""


class OursOutside:
    """``nvmeof target serve`` in the lab's network namespace, on an embedded device."""

    nqn = SUBNQN
    service = SERVICE
    block_sizes = (512, 4096, 4096)

    def __init__(self, cable: Network, folder: Path, address: str, device: str = "iwarp") -> None:
        self.address = address
        self._device = device
        self._cable = cable
        self._folder = folder
        self._runs = 0
        with (folder / "disk.img").open("wb") as disk:
            disk.truncate(DISK)
        self.served = self._serve()

    def _serve(self) -> Served:
        self._runs += 1
        folder = self._folder / str(self._runs)
        folder.mkdir()
        text = config(self.address, self._device, str(self._folder))
        return Served(folder, text, wrapper=tuple(self._cable.command())).wait_ready(120)

    def restart(self, *, kill: bool = True) -> None:
        """End the target by SIGKILL, or in order, and start a new one on the same file."""
        if kill:
            self.served.kill()
        else:
            self.close()
        self.served = self._serve()

    def check(self) -> None:
        """Check that the target runs, and that its log has no errors."""
        assert self.served.alive, f"our target ended:\n{self.served.log}"
        self.served.check_log()

    @property
    def log(self) -> str:
        return self.served.log

    def close(self) -> None:
        if self.served.alive:
            assert self.served.end() == 0, f"our target ended badly:\n{self.served.log}"


class OursInside:
    """``nvmeof target serve`` in the guest, on its RDMA devices."""

    nqn = SUBNQN
    service = SERVICE
    block_sizes = (512, 4096, 4096)

    def __init__(
        self,
        guest: Guest,
        address: str,
        device: str = "system",
        *,
        text: str | None = None,
        path: str = "/run/lab/target.toml",
    ) -> None:
        """Serve the lab's namespaces, or a given configuration, from a file with this path."""
        self.guest = guest
        self.address = address
        guest.run(
            f"mkdir -p /run/lab/target; truncate -s {DISK} /run/lab/target/disk.img", quiet=True
        )
        text = text or config(address, device, "/run/lab/target")
        guest.write(path, text)
        self.running = guest.start(_command(path))
        try:
            self.running.wait_for("listening on", 300)
        except GuestError:
            self.running.signal(signal.SIGKILL)  # the next target needs the address
            raise

    def check(self) -> None:
        assert self.running.alive, f"our target ended:\n{self.running.output}"
        assert "Traceback" not in self.running.output, self.running.output

    @property
    def log(self) -> str:
        return self.running.output

    def wait_no_connections(self, timeout: float = 120.0) -> None:
        """Wait until all connections in its log are closed."""
        end = time.monotonic() + timeout
        while (opened := self.log.count(": connected, ")) != self.log.count(": closed: "):
            assert time.monotonic() < end, f"of {opened} connections some stay:\n{self.log}"
            time.sleep(0.1)

    def close(self) -> None:
        with contextlib.suppress(GuestError):
            if self.running.alive:
                self.running.signal(signal.SIGTERM)
            result = self.running.wait(60)
            assert result.status == 0, f"our target ended badly:\n{result.output}"


@contextlib.contextmanager
def served(guest: Guest, text: str) -> Iterator[None]:
    """Serve a configuration in the guest without showing its log, as for a measurement."""
    guest.run("mkdir -p /run/lab", quiet=True)
    guest.write("/run/lab/served.toml", text)
    running = guest.start(_command("/run/lab/served.toml"), quiet=True)
    try:
        running.wait_for("listening on", 120)
        yield
    finally:
        running.signal(signal.SIGTERM)
        running.wait(60)


def _command(path: str) -> list[str]:
    return [sys.executable, "-m", "nvmf.cli.main", "target", "serve", path]
