# SPDX-License-Identifier: BSD-3-Clause
"""Persistent memory: a guest with an NVDIMM, and our pmem store on both kinds of DAX."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lab import block, flush, network
from lab.cells import use_device
from lab.conftest import Lab
from lab.guest import Guest
from lab.kernel_host import KernelHost
from lab.network import Network
from lab.ours import SERVICE, OursInside

NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000004d"
SIZE = "384M"
MODULES = "modprobe -a nfit nd_pmem dax_pmem device_dax"


@dataclass(frozen=True)
class Kind:
    """The use of the NVDIMM."""

    mode: str
    """Mode of ndctl."""
    make: str
    """Shell commands that create the store's path."""
    path: str
    guarantee: str
    """The guarantee for completed writes that the target reports."""

    def __str__(self) -> str:
        return self.mode


KINDS = (
    Kind("devdax", "true", "/dev/dax0.0", "persistent when it completes (devdax"),
    Kind(
        "fsdax",
        "mkfs.ext4 -q -b 4096 /dev/pmem0 && mkdir -p /run/pmem"
        " && mount -o dax=always /dev/pmem0 /run/pmem && truncate -s 128M /run/pmem/disk.img",
        "/run/pmem/disk.img",
        "persistent when it completes (fsdax, MAP_SYNC",
    ),
)


def config(path: str) -> str:
    """Return the configuration of a namespace on the NVDIMM."""
    return f"""
[[port]]
traddr = "{network.GUEST}"
trsvcid = {SERVICE}
device = "system"

[[subsystem]]
nqn = "{NQN}"
allow_any_host = true

[[subsystem.namespace]]
nsid = 1
store = "pmem"
path = "{path}"
block_size = 4096
persistent = true
"""


@pytest.fixture(scope="module")
def vm(lab: Lab) -> Iterator[Guest]:
    """A guest with an NVDIMM; later modules get one without."""
    one = lab.guest(nvdimm=SIZE)
    one.run(MODULES)
    use_device(one, "rxe")
    yield one
    lab.close()


@pytest.mark.feature("pmem")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_pmem_store(guest: Guest, need_product: None, kind: Kind) -> None:
    """The target reports its guarantee, and the kernel's host verifies its writes."""
    guest.run("umount /run/pmem 2>/dev/null; true", quiet=True)
    guest.run(["ndctl", "create-namespace", "-f", "-e", "namespace0.0", "-m", kind.mode,
               "-M", "mem"])  # fmt: skip
    guest.run(kind.make)
    target = OursInside(guest, network.GUEST, text=config(kind.path))
    assert kind.guarantee in target.log, target.log
    assert "a power failure leaves a block old or new" in target.log, target.log
    host = KernelHost(guest, network.GUEST)
    with host.connected(NQN):
        (device,) = host.devices(NQN)
        identify = guest.run(["nvme", "id-ctrl", device.path, "-o", "json"]).json()
        assert identify["vwc"] & 1 == 0, "it has no volatile write cache"
        block.fio_verify(guest, device, block.BRIEF)
        block.pattern(guest, device, 0xC3, 0, block.MIB)
    target.check()
    target.close()
    # Durable data is there for the next user of the memory.
    again = OursInside(guest, network.GUEST, text=config(kind.path))
    with host.connected(NQN):
        block.expect(guest, host.devices(NQN)[0], 0xC3, 0, block.MIB)
    again.close()


# rxe logs the FLUSH that it refuses.
@pytest.mark.unclean("rxe")
def test_flush_to_persistent_memory(guest: Guest, cable: Network, need_product: None) -> None:
    """The embedded RoCEv2 device writes to a device DAX by rxe, and FLUSH makes it persistent."""
    guest.run("umount /run/pmem 2>/dev/null; true", quiet=True)
    guest.run(["ndctl", "create-namespace", "-f", "-e", "namespace0.0", "-m", "devdax",
               "-M", "mem"])  # fmt: skip
    flush.exchange(guest, cable, "/dev/dax0.0")
