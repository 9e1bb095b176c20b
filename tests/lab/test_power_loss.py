# SPDX-License-Identifier: BSD-3-Clause
"""A target's whole machine loses its power in the middle of load, by every method of persistence.

The guest has an NVDIMM whose content is a file.  A host outside writes records by all methods at
the same time, and notes what was acknowledged; QEMU is killed after a random number of them, and
the target opens its store in a new guest with the same file: every acknowledged record must be
there, and a write of one block whole or not at all.  Some guests are killed while the target opens
its store.

The guest boots once, and is saved before anything has opened the NVDIMM; all that are killed
continue from there.  So the new one knows nothing of the last one but the file, as after a boot.

What QEMU has stored into the file stays there, whether the guest has written it back from its
processor's caches or not: this shows that data is in its place before it is acknowledged, and that
a store recovers from every moment.  A missing write-back is shown by the simulation alone
(unit/test_replication_proof.py, c/store_power_test.c, c/lines_power_test.c).

NVMF_POWER_KILLS=N kills the guest N times in each test; each kill is one for each method.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import network, nvdimms, smallroot
from lab.cells import use_device
from lab.conftest import LOGS, Lab
from lab.network import Network
from lab.running import Running
from lab.snapshot import Revived, SmallGuest, Snapshot
from nvmf.pmem.platform import BLOCK_METHODS, METHODS
from support.powerlives import Lives
from support.powerload import HOST, Device, Way

KILLS = int(os.environ.get("NVMF_POWER_KILLS") or 1)
SEED = int(os.environ.get("NVMF_POWER_SEED") or 1)
NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-000000000079"
PATIENCE = 240.0
EARLY = 4
"""One of so many kills is followed by one while the target starts."""
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


CONFIG = "/run/lab/target.toml"


class Machine:
    """The machine that loses its power: a saved guest, in which a target is about to start."""

    def __init__(self, lab: Lab, folder: Path, ports: tuple[Port, ...]) -> None:
        self._ports = ports
        self._snapshot = self._saved(lab, folder)
        self._guest: Revived | None = None
        self._random = random.Random(SEED)
        self._opening = 0.0
        """Seconds from the start of a target until it listens."""

    def _saved(self, lab: Lab, folder: Path) -> Snapshot:
        memories = nvdimms.make(folder, 1)
        with SmallGuest(lab.kernel, lab.cable, folder, memories) as guest:
            (path,) = nvdimms.use_devdax(guest, [0])
            if self._ports is RXE:
                use_device(guest, "rxe")
            guest.write(CONFIG, config(self._ports, path))
            words = (smallroot.PYTHON, str(smallroot.TARGET), CONFIG)
            guest.start(f"PYTHONUNBUFFERED=1 exec {shlex.join(words)}").wait_for("loaded", 300)
            return guest.save()

    def _start(self) -> Running:
        """Let the guest continue, and the target start."""
        self._guest = Revived(self._snapshot)
        (target,) = self._guest.commands.values()
        target.signal(signal.SIGUSR1)
        return target

    def start(self) -> None:
        """The power is back: start the target, and wait until it listens."""
        began = time.monotonic()
        target = self._start()
        target.wait_for(f"listening on {network.GUEST}:{self._ports[-1].service}", PATIENCE)
        self._opening = time.monotonic() - began
        assert "persistent when it completes (devdax" in target.output, target.output
        assert "a power failure leaves a block old or new" in target.output, target.output

    def start_and_fail(self) -> None:
        """The power is back, and fails again while the target starts."""
        self._start()
        time.sleep(self._random.random() * self._opening)
        self.fail()

    def fail(self) -> None:
        """The power fails."""
        assert self._guest is not None
        for target in self._guest.commands.values():
            assert target.alive, f"the target ended:\n{target.output}"
        self._guest.power_off()
        self.close()

    def close(self) -> None:
        """End the guest, if it runs."""
        if self._guest is not None:
            self._guest.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, for the guest's memory and NVDIMM."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="nvmf-lab-") as made:
        yield Path(made)


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
def test_power_loss(
    lab: Lab, cable: Network, folder: Path, tmp_path: Path, ports: tuple[Port, ...]
) -> None:
    lab.close()  # its guest has the same address
    ways = [way for port in ports for way in port.ways]
    machine = Machine(lab, folder, ports)
    lives = Lives(tmp_path, ways, SEED, wrapper=cable.command(), patience=PATIENCE)
    early = 0
    began = time.monotonic()
    try:
        for kill in range(KILLS + 1):
            lives.prepare(load=kill < KILLS)
            if kill % EARLY == 1:
                machine.start_and_fail()
                early += 1
            machine.start()
            lives.begin()
            if kill < KILLS:
                lives.write_for_a_while()
                machine.fail()
                lives.end()
            name = "embedded" if ports is EMBEDDED else "rxe"
            seconds = time.monotonic() - began
            # a long run is watched
            (LOGS / f"power-loss-{name}.txt").write_text(
                f"{lives}; {early} kills while the target started; {seconds:.0f} s\n"
            )
    finally:
        lives.close()
        machine.close()
    assert lives.kills == {str(way): KILLS for way in ways}
