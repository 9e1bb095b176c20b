# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's native multipath over two ports of our target: a path fails, no data is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from lab import block, network
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import BlockDevice, KernelHost
from lab.network import Network
from support.served import Served

NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000005d"
PORTS = (4420, 4421)
HANG = 240.0
"""Seconds after which a wait counts as a hang."""
COMMANDS = 64
"""Number of commands on a path that shows that it is in use."""
UNCLEAN = r"nvme nvme\d+: "
"""The kernel's log lines about a controller that it reconnects; not about an I/O error."""

_PATHS = """
for path in /sys/class/nvme/nvme*; do
    [ "$(cat $path/subsysnqn 2>/dev/null)" = "$1" ] || continue
    for space in $path/nvme*c*n*; do
        [ -e $space/ana_state ] || continue
        port=$(sed 's/.*trsvcid=\\([0-9]*\\).*/\\1/' $path/address)
        echo $port $(cat $path/state) $(cat $space/ana_state) $(cat $space/stat)
    done
done
true
"""
# Until it is stopped: write, read and verify repeatedly.
_LOAD = """
rm -f /run/lab/enough
for round in $(seq 100000); do
    [ -e /run/lab/enough ] && break
    fio --name=load --filename=$1 --offset=8m --size=2m --ioengine=libaio --direct=1 --thread \
        --rw=randwrite --bsrange=4k-64k --iodepth=16 --randrepeat=0 \
        --verify=crc32c --verify_fatal=1 --verify_dump=0 --verify_state_save=0 || exit 1
    echo verified $round
done
"""


def config() -> str:
    """Return the configuration of a subsystem on two ports."""
    text = "[target]\nreactors = 2\n"
    for port in PORTS:
        text += f'[[port]]\ntraddr = "{network.HOST}"\ntrsvcid = {port}\ndevice = "iwarp"\n'
    text += f'[[subsystem]]\nnqn = "{NQN}"\nserial = "PATHS"\nallow_any_host = true\n'
    return text + '[[subsystem.namespace]]\nstore = "ram"\nsize = "64MiB"\nblock_size = 4096\n'


@dataclass(frozen=True)
class PathState:
    """One path to the namespace, as the guest's kernel has it."""

    controller: str
    """The state: live, connecting, ..."""
    ana: str
    commands: int
    """Reads and writes that were completed on it."""


@dataclass(frozen=True)
class Rig:
    """The target, and the kernel's host connected to both of its ports."""

    guest: Guest
    served: Served
    device: BlockDevice

    def target(self, *words: str) -> None:
        """``nvmeof target ...`` towards the running target."""
        socket = str(self.served.rpc_socket)
        argv = [sys.executable, "-m", "nvmf.cli.main", "target", *words, "--rpc-socket", socket]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=HANG)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"

    def ana(self, port: int, state: str) -> None:
        """Set a port's ANA state for the namespace."""
        self.target("ana", "set", "-a", network.HOST, "-s", str(port), state)

    def paths(self) -> dict[int, PathState]:
        """Return the paths by port."""
        done = self.guest.run(["bash", "-s", "-", NQN], stdin=_PATHS, quiet=True)
        found = {}
        for line in done.stdout.splitlines():
            port, controller, ana, *stat = line.split()
            found[int(port)] = PathState(controller, ana, int(stat[0]) + int(stat[4]))
        return found

    def until(self, reached: Callable[[dict[int, PathState]], bool]) -> dict[int, PathState]:
        """Wait for a state of the paths."""
        end = time.monotonic() + HANG
        while not reached(found := self.paths()):
            assert time.monotonic() < end, f"the paths stay {found}"
            time.sleep(0.2)
        return found

    def used(self, port: int) -> None:
        """Wait until more commands have used a port."""
        before = self.paths()[port].commands
        self.until(lambda now: port in now and now[port].commands >= before + COMMANDS)

    @contextmanager
    def load(self) -> Iterator[None]:
        """fio writes and verifies meanwhile, and ends without an error."""
        running = self.guest.start(["bash", "-s", "-", self.device.path], stdin=_LOAD, quiet=True)
        try:
            yield
        finally:
            self.guest.run("touch /run/lab/enough", quiet=True)
            result = running.wait(HANG)
        assert result.status == 0, result.output
        assert "verified 1" in result.stdout


@pytest.fixture(scope="module")
def rig(
    vm: Guest, cable: Network, need_product: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rig]:
    """Connect the kernel's host over both ports."""
    use_device(vm, "siw")
    folder = tmp_path_factory.mktemp("target")
    served = Served(folder, config(), wrapper=tuple(cable.command())).wait_ready(120)
    hosts = [KernelHost(vm, network.HOST, port) for port in PORTS]
    assert vm.run("cat /sys/module/nvme_core/parameters/multipath").stdout.strip() == "Y"
    for host in hosts:
        host.try_connect(NQN, "-i", "2", "-c", "2").check()
        host.wait_live(NQN)
    (device,) = hosts[0].devices(NQN)
    yield Rig(vm, served, device)
    if not vm.dead:
        hosts[0].disconnect(NQN)
    assert served.end() == 0
    served.check_log()


@pytest.fixture(autouse=True)
def both(rig: Rig, guest: Guest) -> None:
    """Every test begins with two optimized paths."""
    for port in PORTS:
        rig.ana(port, "optimized")
    rig.until(_both_live)


def _both_live(paths: dict[int, PathState]) -> bool:
    return set(paths) == set(PORTS) and all(
        (path.controller, path.ana) == ("live", "optimized") for path in paths.values()
    )


def _not_live(port: int, paths: dict[int, PathState]) -> bool:
    return port not in paths or paths[port].controller != "live"


@pytest.mark.feature("ana")
def test_shown(rig: Rig, guest: Guest) -> None:
    """nvme-cli shows one subsystem with both paths, and the ANA state of each."""
    rig.ana(PORTS[1], "non-optimized")
    rig.until(lambda paths: paths[PORTS[1]].ana == "non-optimized")
    (host,) = guest.run("nvme list-subsys -o json").json()
    (subsystem,) = [one for one in host["Subsystems"] if one["NQN"] == NQN]
    found = {path["Name"]: path["Address"] for path in subsystem["Paths"]}
    assert sorted(found) == ["nvme0", "nvme1"]
    for (name, address), port, state in zip(
        sorted(found.items()), PORTS, ("optimized", "non-optimized"), strict=True
    ):
        assert f"trsvcid={port}" in address
        said = guest.run(f"nvme ana-log /dev/{name}").stdout
        assert f": {state}" in said.replace("\t", " "), said


@pytest.mark.feature("ana")
def test_steered(rig: Rig, guest: Guest) -> None:
    """ANA states change during fio verify: commands use permitted paths, or wait."""
    first, second = PORTS
    block.pattern(guest, rig.device, 0x5A, 0, block.MIB)
    with rig.load():
        rig.used(first)
        rig.ana(first, "inaccessible")
        rig.until(lambda paths: paths[first].ana == "inaccessible")
        rig.used(second)
        rig.ana(second, "inaccessible")
        rig.until(lambda paths: paths[second].ana == "inaccessible")
        still = rig.until(lambda _: True)
        assert {path.controller for path in still.values()} == {"live"}
        rig.ana(first, "non-optimized")
        rig.used(first)
        rig.ana(second, "optimized")
        rig.used(second)
        rig.ana(first, "optimized")
        rig.until(_both_live)
    block.expect(guest, rig.device, 0x5A, 0, block.MIB)


@pytest.mark.feature("ana")
@pytest.mark.unclean(UNCLEAN)
def test_port_lost(rig: Rig, guest: Guest) -> None:
    """A port is closed during fio verify, and opened again: the other path is used."""
    first, second = PORTS
    block.pattern(guest, rig.device, 0xC3, 0, block.MIB)
    with rig.load():
        for lost, other in ((first, second), (second, first)):
            where = ("-a", network.HOST, "-s", str(lost))
            rig.ana(other, "non-optimized")  # so that the load is on the port that is closed
            rig.used(lost)
            rig.target("port", "remove", *where)
            rig.until(partial(_not_live, lost))
            rig.used(other)
            rig.target("port", "add", *where, "--device", "iwarp")
            rig.ana(other, "optimized")
            rig.until(_both_live)
    block.expect(guest, rig.device, 0xC3, 0, block.MIB)
