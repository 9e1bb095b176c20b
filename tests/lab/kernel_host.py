# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's own host in the guest: nvme-rdma, driven by nvme-cli."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lab.guest import Guest
from lab.running import GuestError, Result

HOSTNQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000002b"
HOSTID = "5f0c1c9e-0000-4000-8000-00000000002b"

# Print the controllers of a subsystem, and its block devices: "controller NAME STATE" and
# "namespace NAME NSID SECTORS BLOCKSIZE" per line. $1 subnqn
_STATE = """
for path in /sys/class/nvme/nvme*; do
    [ "$(cat $path/subsysnqn 2>/dev/null)" = "$1" ] &&
        echo controller ${path##*/} "$(cat $path/state)"
done
for path in /sys/block/nvme*n*; do
    case ${path##*/} in *c*) continue ;; esac  # a path of the multipath device
    [ "$(cat $path/device/subsysnqn 2>/dev/null)" = "$1" ] &&
        echo namespace ${path##*/} $(cat $path/nsid $path/size $path/queue/logical_block_size)
done
true
"""


@dataclass(frozen=True)
class BlockDevice:
    """A namespace in the guest's kernel."""

    name: str
    nsid: int
    size: int
    """Bytes."""
    block_size: int

    @property
    def path(self) -> str:
        return f"/dev/{self.name}"


@dataclass(frozen=True)
class Controller:
    """A controller to which the guest's kernel is connected."""

    name: str
    nqn: str

    @property
    def path(self) -> str:
        return f"/dev/{self.name}"


class KernelHost:
    """nvme-cli in the guest, for one transport address."""

    def __init__(self, guest: Guest, address: str, service: int = 4420) -> None:
        self.guest = guest
        self.address = address
        self.service = service
        guest.run("modprobe nvme-rdma", quiet=True)

    def _where(self) -> list[str]:
        return ["-t", "rdma", "-a", self.address, "-s", str(self.service)]

    def _who(self) -> list[str]:
        return ["--hostnqn", HOSTNQN, "--hostid", HOSTID]

    def discover(self) -> list[dict[str, Any]]:
        """Return the records of the discovery log."""
        argv = ["nvme", "discover", *self._where(), *self._who(), "-o", "json"]
        records = self.guest.run(argv).json()["records"]
        assert isinstance(records, list)
        return records

    def try_connect(self, nqn: str, *options: str) -> Result:
        """Run nvme connect; it may fail."""
        argv = ["nvme", "connect", *self._where(), *self._who(), "-n", nqn, *options]
        if "-k" not in options:  # the guest may stall for seconds, and so may its host
            argv += ["-k", "120"]
        return self.guest.run(argv, check=False, timeout=120)

    @contextmanager
    def connected(self, nqn: str, *options: str, namespaces: int = 1) -> Iterator[Controller]:
        """Connect, wait for the block devices, and disconnect at the end."""
        self.try_connect(nqn, *options).check()
        try:
            yield self.wait_live(nqn, namespaces)
        finally:
            if not self.guest.dead:
                self.disconnect(nqn)

    def wait_live(self, nqn: str, namespaces: int = 1, timeout: float = 120.0) -> Controller:
        """Wait until the controller is live, and has this many namespaces."""
        end = time.monotonic() + timeout
        while True:
            states = self._state(nqn)
            live = [words[1] for words in states if words[0] == "controller" and words[2] == "live"]
            found = [words for words in states if words[0] == "namespace" and words[3] != "0"]
            if live and len(found) >= namespaces:
                return Controller(live[0], nqn)
            if time.monotonic() > end:
                raise GuestError(f"{nqn} has no live controller with {namespaces}: {states}")
            time.sleep(0.1)

    def devices(self, nqn: str) -> list[BlockDevice]:
        """Return the block devices of the subsystem, by NSID."""
        words = [line for line in self._state(nqn) if line[0] == "namespace"]
        devices = [BlockDevice(w[1], int(w[2]), int(w[3]) * 512, int(w[4])) for w in words]
        return sorted(devices, key=lambda device: device.nsid)

    def disconnect(self, nqn: str) -> Result:
        return self.guest.run(["nvme", "disconnect", "-n", nqn], timeout=120).check()

    def disconnect_all(self) -> None:
        self.guest.run("nvme disconnect-all", quiet=True)

    def _state(self, nqn: str) -> list[list[str]]:
        done = self.guest.run(["bash", "-s", "-", nqn], stdin=_STATE, quiet=True)
        return [line.split() for line in done.stdout.splitlines()]
