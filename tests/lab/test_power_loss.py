# SPDX-License-Identifier: BSD-3-Clause
"""A target's whole machine loses its power in the middle of load, by every method of persistence.

The guest has an NVDIMM whose content is a file.  A host outside writes records by all methods at
the same time; QEMU is killed after a random number of them; the guest is booted again with the same
file, the target opens its store, and every acknowledged record must be there, its blocks whole.
Processor caches do not get lost with QEMU: the simulation (unit/test_replication_proof.py,
c/store_power_test.c) has those.

NVMF_POWER_KILLS=N kills the guest N times in each test; each kill is one for each method.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import network, nvdimms
from lab.cells import use_device
from lab.conftest import LOGS, Lab
from lab.network import Network
from lab.ours import OursInside
from nvmf.pmem.platform import BLOCK_METHODS, METHODS
from support.powerlives import Lives
from support.powerload import HOST, Device, Way

KILLS = int(os.environ.get("NVMF_POWER_KILLS") or 1)
SEED = int(os.environ.get("NVMF_POWER_SEED") or 1)
NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-000000000079"
PATIENCE = 240.0
pytestmark = [pytest.mark.usefixtures("need_product"), pytest.mark.timeout(900 + 150 * KILLS)]


@dataclass(frozen=True)
class Port:
    """A device of the guest, and our device outside that connects to it."""

    inside: str
    outside: Device
    service: int
    methods: tuple[str, ...]
    unconfirmed: tuple[str, ...] = ()
    """The methods of which the target does not know whether they keep their promise there."""

    @property
    def ways(self) -> list[Way]:
        url = f"nvme+rdma://{network.GUEST}:{self.service}/{NQN}"
        return [
            Way(name, self.outside, url, force=name in self.unconfirmed) for name in self.methods
        ]


EMBEDDED = (
    Port("iwarp", "iwarp", 4420, (*BLOCK_METHODS, "write-read", "write-send")),
    Port("roce", "roce", 4421, METHODS, ("write-read",)),
)
RXE = (Port("system", "roce", 4420, METHODS, ("write-read",)),)


def config(ports: tuple[Port, ...], path: str) -> str:
    text = "[target]\nspin_us = 0\n[iwarp]\nhandshake_timeout_ms = 60000\n"
    for port in ports:
        text += f'[[port]]\ntraddr = "{network.GUEST}"\ntrsvcid = {port.service}\n'
        text += f'device = "{port.inside}"\n'
    return f"""{text}
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
store = "pmem"
path = "{path}"
block_size = 4096
persistent = true
memory = ["{HOST}"]
"""


@pytest.mark.feature("pmem")
@pytest.mark.parametrize(
    "ports",
    [
        pytest.param(EMBEDDED, id="embedded"),
        pytest.param(
            RXE,
            id="rxe",
            marks=pytest.mark.skipif(
                not nvdimms.LONG, reason="too long for CI, where NVMF_POWER_KILLS is not set"
            ),
        ),
    ],
)
def test_power_loss(machine: Lab, cable: Network, tmp_path: Path, ports: tuple[Port, ...]) -> None:
    memories = nvdimms.make(tmp_path, 1)
    ways = [way for port in ports for way in port.ways]
    lives = Lives(tmp_path, ways, SEED, wrapper=cable.command(), patience=PATIENCE)
    try:
        for kill in range(KILLS + 1):
            guest = machine.guest(memories=memories)
            (path,) = nvdimms.use_devdax(guest, [0])
            if ports is RXE:
                use_device(guest, "rxe")
            target = OursInside(guest, network.GUEST, text=config(ports, path))
            assert "persistent when it completes (devdax" in target.log, target.log
            assert "a power failure leaves a block old or new" in target.log, target.log
            lives.begin(load=kill < KILLS)
            if kill < KILLS:
                lives.write_for_a_while()
                target.check()
                guest.power_off()
                lives.end()
            name = "embedded" if ports is EMBEDDED else "rxe"
            (LOGS / f"power-loss-{name}.txt").write_text(f"{lives}\n")  # progress
    finally:
        lives.close()
    assert lives.kills == {str(way): KILLS for way in ways}
