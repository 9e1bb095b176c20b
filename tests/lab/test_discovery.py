# SPDX-License-Identifier: BSD-3-Clause
"""Discovery with the kernel as the peer: referrals, kept controllers and their events.

test_systemd checks that systemd connects after such an event.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lab import network
from lab.administer import administer
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import HOSTID, HOSTNQN, KernelHost
from lab.network import Network
from lab.nvmet import CONFIGFS, KernelTarget
from lab.ours import FRIEND_NQN
from lab.running import Running
from lab.waiting import PATIENCE
from support.served import Served

pytestmark = pytest.mark.usefixtures("need_product")

FIRST, SECOND, MORE = 4420, 4421, 4422
"""Ports; the first target gets a further one later."""
NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-0000000000d1"
OTHER_NQN, SECRET_NQN, MORE_NQN = (NQN[:-1] + end for end in "234")
WELL_KNOWN = "nqn.2014-08.org.nvmexpress.discovery"
UNIQUE = "nqn.2014-08.org.example:the-other-discovery"
WHO = ["--hostnqn", HOSTNQN, "--hostid", HOSTID]
AEN = "NVME_AEN=0x70f002"
"""Notice, Discovery Log Page Change, read log page 70h."""

_TARGET = """
[target]
{extra}
[[port]]
traddr = "{address}"
trsvcid = {port}
device = "iwarp"

[[subsystem]]
nqn = "{nqn}"
allow_any_host = true

[[subsystem.namespace]]
nsid = 1
store = "ram"
size = "16MiB"
"""
_REST = """
[[subsystem]]
nqn = "{secret}"

[[referral]]
traddr = "{address}"
trsvcid = {port}
nqn = "{nqn}"
"""

# The kernel's messages to user space about events of NVMe controllers.
_UEVENTS = """
import socket
listening = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15)
listening.bind((0, 1))
print("listening", flush=True)
count = 0
while True:
    fields = listening.recv(65536).decode(errors="replace").split("\\0")
    for field in fields:
        if field.startswith("NVME_AEN="):
            count += 1
            print(f"event {count}: {field}", flush=True)
"""


@dataclass(frozen=True)
class Targets:
    """Two of our targets beside the guest; the first one refers to the second."""

    first: Served
    second: Served


@pytest.fixture(scope="module")
def targets(
    vm: Guest, cable: Network, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Targets]:
    use_device(vm, "siw")
    vm.run("modprobe nvme-rdma", quiet=True)
    first = _TARGET.format(address=network.HOST, port=FIRST, nqn=NQN, extra="") + _REST.format(
        address=network.HOST, port=SECOND, nqn=UNIQUE, secret=SECRET_NQN
    )
    second = _TARGET.format(
        address=network.HOST, port=SECOND, nqn=OTHER_NQN, extra=f'discovery_nqn = "{UNIQUE}"'
    )
    wrapper = tuple(cable.command())
    with (
        Served(tmp_path_factory.mktemp("target"), first, wrapper=wrapper) as one,
        Served(tmp_path_factory.mktemp("target"), second, wrapper=wrapper) as other,
    ):
        yield Targets(one.wait_ready(), other.wait_ready())
        for served in (one, other):
            served.check_log()
            assert served.end() == 0


@pytest.fixture
def disconnect(vm: Guest) -> Iterator[None]:
    yield
    if not vm.dead:
        vm.run("nvme disconnect-all", timeout=PATIENCE)


def where(port: int = FIRST) -> list[str]:
    return ["-t", "rdma", "-a", network.HOST, "-s", str(port), *WHO]


def subsystems(guest: Guest) -> list[str]:
    return sorted(guest.run("cat /sys/class/nvme/*/subsysnqn", quiet=True).stdout.split())


@pytest.mark.feature("discovery-log", "referrals")
def test_referral(targets: Targets, guest: Guest) -> None:
    """nvme-cli shows the entry of the discovery service itself, the subsystem, and the referral."""
    records = KernelHost(guest, network.HOST).discover()
    found = [(r["subtype"].strip(), r["subnqn"], r["trsvcid"].strip()) for r in records]
    assert found == [
        ("current discovery subsystem", WELL_KNOWN, str(FIRST)),
        ("nvme subsystem", NQN, str(FIRST)),
        ("discovery subsystem referral", UNIQUE, str(SECOND)),
    ]
    text = guest.run(["nvme", "discover", *where()]).stdout
    assert "explicit discovery connections, duplicate discovery information" in text


class Kept:
    """The kernel's host with a discovery controller that it keeps, and its events."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._seen = 0
        self._generation = 0
        self.events: Running = guest.start([sys.executable, "-I", "-S", "-c", _UEVENTS])
        self.events.wait_for("listening", PATIENCE)
        guest.run(["nvme", "discover", *where(), "--persistent"], timeout=PATIENCE)
        (self.name,) = guest.run("cd /sys/class/nvme && ls -d nvme*", quiet=True).stdout.split()
        self.read()

    def read(self) -> set[tuple[str, str]]:
        """Return subsystems and their ports, from a log whose generation did not change
        meanwhile.
        """
        argv = ["nvme", "discover", *where(), "--device", self.name, "-o", "json"]
        log: dict[str, Any] = self._guest.run(argv, timeout=PATIENCE).json()
        assert self._guest.run(argv, timeout=PATIENCE).json() == log
        assert log["genctr"] > self._generation, "it changed"
        self._generation = log["genctr"]
        # libnvme 1.3 retains the event until it has read a log of over 4 KiB: there would be no
        # next one.
        header = ["nvme", "get-log", f"/dev/{self.name}", "-i", "0x70", "-l", "1024"]
        self._guest.run(header, timeout=PATIENCE, quiet=True)
        return {
            (record["subnqn"], record["trsvcid"].strip())
            for record in log["records"]
            if record["subtype"].strip() == "nvme subsystem"
        }

    def wait(self) -> set[tuple[str, str]]:
        """Wait for one more event, and read the log."""
        self._seen += 1
        self.events.wait_for(f"event {self._seen}: {AEN}", PATIENCE)
        return self.read()

    def end(self) -> None:
        """Check that no other event has come."""
        self.events.signal()
        said = self.events.wait(PATIENCE).output
        assert said.count("event ") == self._seen, said


@pytest.mark.feature("discovery-events", "generation")
@pytest.mark.usefixtures("disconnect")
def test_events(targets: Targets, guest: Guest) -> None:
    """Each change that concerns the host causes one event and a new generation of the log."""
    kept = Kept(guest)
    keep_alive = guest.run(f"cat /sys/class/nvme/{kept.name}/kato", quiet=True).stdout
    assert int(keep_alive) > 0
    first = targets.first
    old = (NQN, str(FIRST))
    administer(first, "subsystem", "add", MORE_NQN, "--allow-any-host")
    assert kept.wait() == {old, (MORE_NQN, str(FIRST))}
    administer(first, "subsystem", "remove", MORE_NQN)
    assert kept.wait() == {old}
    administer(first, "host", "allow", SECRET_NQN, FRIEND_NQN)  # not visible to this host
    administer(first, "host", "allow", SECRET_NQN, HOSTNQN)
    assert kept.wait() == {old, (SECRET_NQN, str(FIRST))}
    administer(first, "host", "remove", SECRET_NQN, HOSTNQN)
    assert kept.wait() == {old}
    administer(first, "port", "add", "-a", network.HOST, "-s", MORE, "--device", "iwarp")
    assert kept.wait() == {old, (NQN, str(MORE))}
    administer(first, "port", "remove", "-a", network.HOST, "-s", MORE)
    assert kept.wait() == {old}
    kept.end()


@pytest.mark.feature("referrals")
@pytest.mark.usefixtures("disconnect")
def test_connect_all(targets: Targets, guest: Guest) -> None:
    """nvme-cli follows the referral, and connects to the subsystems of both targets."""
    guest.run(["nvme", "connect-all", *where(), "-i", "1"], timeout=PATIENCE)
    assert [nqn for nqn in subsystems(guest) if "discovery" not in nqn] == [NQN, OTHER_NQN]


@pytest.mark.feature("discovery-nqn")
@pytest.mark.usefixtures("disconnect")
def test_unique_nqn(targets: Targets, guest: Guest) -> None:
    """The kernel connects by the well-known NQN and by the unique one, and uses the one in
    Identify.
    """
    for more in ([], ["-n", UNIQUE]):
        argv = ["nvme", "discover", *where(SECOND), *more, "-o", "json"]
        records = guest.run(argv, timeout=PATIENCE).json()["records"]
        assert [record["subnqn"] for record in records] == [UNIQUE, OTHER_NQN]
    guest.run(["nvme", "discover", *where(SECOND), "--persistent"], timeout=PATIENCE)
    assert subsystems(guest) == [UNIQUE]


class Watching:
    """`nvmeof discover -p` beside the guest, whose output a test reads."""

    def __init__(self, cable: Network, address: str) -> None:
        argv = ["discover", "-a", address, "--device", "iwarp", "-p", "-o", "json"]
        self._process = subprocess.Popen(
            cable.command(sys.executable, "-u", "-m", "nvmf.cli.main", *argv),
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip())
        self._lines.put("(it has ended)")

    def line(self) -> Any:
        """Return the next line."""
        return json.loads(self._lines.get(timeout=PATIENCE))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()


def test_our_host(vm: Guest, cable: Network, guest: Guest) -> None:
    """nvmet's referral is shown, and `nvmeof discover -p` reports its changes."""
    use_device(vm, "siw")
    ports = f"{CONFIGFS}/nvmet/ports/1"
    made = f"{CONFIGFS}/nvmet/subsystems/{MORE_NQN}"
    with KernelTarget(vm, network.GUEST) as target:
        guest.run(
            f"mkdir {ports}/referrals/r && cd {ports}/referrals/r &&"
            " echo rdma > addr_trtype && echo ipv4 > addr_adrfam &&"
            f" echo {network.HOST} > addr_traddr && echo 1 > addr_trsvcid && echo 1 > enable"
        )
        watching = Watching(cable, target.address)
        try:
            kinds = {record["subtype"]: record["subnqn"] for record in watching.line()["added"]}
            assert kinds["nvme subsystem"] == target.nqn
            assert "discovery subsystem referral" in kinds
            guest.run(
                f"mkdir {made} && echo 1 > {made}/attr_allow_any_host &&"
                f" ln -s {made} {ports}/subsystems/"
            )
            added = watching.line()["added"]
            assert [record["subnqn"] for record in added] == [MORE_NQN]
            guest.run(f"rm {ports}/subsystems/{MORE_NQN}")
            removed = watching.line()["removed"]
            assert [record["subnqn"] for record in removed] == [MORE_NQN]
        finally:
            watching.close()
            guest.run(f"rmdir {ports}/referrals/r {made}", check=False)
