# SPDX-License-Identifier: BSD-3-Clause
"""Our target in the guest on the embedded RoCEv2 device and on rxe, with the same host outside.

The host is ours, on the embedded device, on this machine: it is much faster than the guest, which
is emulated, so that the ratio compares the processor time of both ways through the guest.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lab import network
from lab.cells import use_device
from lab.guest import Guest
from lab.network import Network
from lab.our_host import Outside
from lab.ours import served

NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000004f"
SERVICE = 4422
CONFIG = """
[target]
reactors = 1

[[port]]
traddr = "{address}"
trsvcid = {service}
device = "{device}"

[[subsystem]]
nqn = "{nqn}"
allow_any_host = true

[[subsystem.namespace]]
nsid = 1
store = "ram"
size = "64MiB"
block_size = 4096
"""
WITHOUT_RXE = """
! rdma link show rxe0/1 >/dev/null 2>&1 || rdma link del rxe0
! lsmod | grep -q '^rdma_rxe ' || modprobe -r rdma_rxe
"""
"""The module holds UDP port 4791 as long as it is loaded."""
DEVICES = {"rxe": "system", "embedded": "roce"}


@contextmanager
def serving(guest: Guest, way: str) -> Iterator[None]:
    """Serve memory in the guest over rxe, or over the embedded device."""
    if way == "rxe":
        use_device(guest, "rxe")
    else:
        guest.run(WITHOUT_RXE, quiet=True)
    text = CONFIG.format(address=network.GUEST, service=SERVICE, device=DEVICES[way], nqn=NQN)
    with served(guest, text):
        yield


def rate(cable: Network, rw: str, block: str, depth: int, seconds: int) -> float:
    """Return the commands per second of our host outside."""
    argv = [sys.executable, "-m", "nvmf.cli.main", "bench", "-o", "json", "--device", "roce"]
    argv += ["-a", network.GUEST, "-s", str(SERVICE), "-n", NQN, "--force", "--time_based"]
    argv += [f"--rw={rw}", f"--bs={block}", f"--iodepth={depth}", f"--runtime={seconds}"]
    done = Outside(cable).run([*argv, "--ramp_time=1"], timeout=120 + 10 * seconds)
    return float(json.loads(done.stdout)["runs"][0]["iops"])
