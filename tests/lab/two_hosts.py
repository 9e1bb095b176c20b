# SPDX-License-Identifier: BSD-3-Clause
"""The guest's kernel as two hosts of one target: each has an NQN, an identifier and block
devices.

With native multipath the kernel would treat the second connection as another path of the first,
despite its host NQN; so its NVMe drivers are loaded without multipath, and with it at the end.
"""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Any, Self

from lab import network
from lab.guest import Guest
from lab.prepare import ROOT
from lab.running import GuestError, Result
from lab.waiting import PATIENCE, until

_NQN = "nqn.2014-08.org.nvmexpress:uuid:{}"
_UNLOAD = "modprobe -r nvmet-rdma nvmet-tcp nvmet nvme-rdma nvme-tcp nvme-fabrics nvme-core"
# Print a host's controller, its state, and each of its block devices that has a size. $1 host NQN
_STATE = """
for path in /sys/class/nvme/nvme*; do
    [ "$(cat $path/hostnqn 2>/dev/null)" = "$1" ] || continue
    echo ${path##*/} $(cat $path/state)
    for space in $path/nvme*n*; do
        [ "$(cat $space/size 2>/dev/null || echo 0)" = 0 ] || echo ${space##*/} $(cat $space/nsid)
    done
done
true
"""


class OneHost:
    """One of the hosts, connected to the subsystem."""

    def __init__(self, guest: Guest, hostid: str, nqn: str, service: int) -> None:
        self.guest = guest
        self.hostid = hostid
        self.hostnqn = _NQN.format(hostid)
        # nvme-cli 2.3 mistakes the other host's connection for this one's, and does not connect.
        options = (
            f"transport=rdma,traddr={network.HOST},trsvcid={service},nqn={nqn},nr_io_queues=1,"
            f"hostnqn={self.hostnqn},hostid={hostid},keep_alive_tmo=120,reconnect_delay=1"
        )
        guest.run(["sh", "-c", "printf %s $1 > /dev/nvme-fabrics", "sh", options])

    def state(self) -> tuple[str, dict[int, str]]:
        """State of the controller, and the path of the block device of each NSID."""
        done = self.guest.run(["bash", "-s", "-", self.hostnqn], stdin=_STATE, quiet=True)
        words = [line.split() for line in done.stdout.splitlines()]
        if not words:
            return "gone", {}
        return words[0][1], {int(nsid): f"/dev/{name}" for name, nsid in words[1:]}

    def wait(self, *nsids: int) -> None:
        """Wait until it is connected and has exactly these block devices."""

        def reached() -> bool:
            state, devices = self.state()
            return state == "live" and sorted(devices) == list(nsids)

        until(
            reached,
            f"{self.hostnqn} is live and has namespaces {nsids}",
            state=self.state,
        )

    def device(self, nsid: int) -> str:
        """The block device of a namespace."""
        return self.state()[1][nsid]

    def nvme(self, command: str, *options: str, nsid: int = 1, check: bool = True) -> Result:
        """Run a command of nvme-cli for a namespace."""
        argv = ["nvme", command, self.device(nsid), "-n", str(nsid), *options]
        return self.guest.run(argv, check=check, timeout=PATIENCE)


class TwoHosts:
    """Both hosts, until it is closed."""

    def __init__(self, guest: Guest, nqn: str, hostids: tuple[str, str], service: int) -> None:
        self.guest = guest
        self._nqn = nqn
        guest.run(f"{_UNLOAD} && modprobe nvme-core multipath=N && modprobe nvme-rdma")
        self.first, self.second = (OneHost(guest, hostid, nqn, service) for hostid in hostids)

    def do(self, *operations: tuple[str, str, *tuple[int, ...]]) -> list[str]:
        """Run operations of `block_ops`, one after the other; return the results."""
        program = str(ROOT / "tests" / "lab" / "block_ops.py")
        words: list[Any] = [list(operation) for operation in operations]
        done = self.guest.run(
            [sys.executable, "-I", "-S", program], stdin=json.dumps(words), timeout=PATIENCE
        )
        return list(done.json())

    def close(self) -> None:
        """Disconnect both, and enable the kernel's multipath again."""
        if not self.guest.dead:
            self.guest.run(["nvme", "disconnect", "-n", self._nqn], timeout=PATIENCE)
            self.guest.run(f"{_UNLOAD} && modprobe nvme-rdma")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except GuestError:
            self.guest.spoil("its NVMe drivers stay without multipath")
            raise
