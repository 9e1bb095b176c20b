# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof pmem demo` with NVDIMMs, the kernel's rxe and a loss of power: a log on three targets.

The targets are processes in one guest, each with an NVDIMM; the writer is outside.  One target is
killed while records are appended, comes back, and is resynchronised; then the guest loses its power
while records are appended.  After a boot two targets, one of which was resynchronised, must have
every acknowledged record.  FLUSH and ATOMIC WRITE to a fourth NVDIMM by rxe must have survived as
well.  In the end the methods of persistence are measured.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import flush, network, nvdimms
from lab.cells import use_device
from lab.conftest import LOGS, Lab
from lab.guest import Guest
from lab.network import Network
from lab.our_host import OurHost, Outside
from lab.prepare import ROOT
from lab.running import Running
from lab.waiting import until
from nvmf.pmem.platform import METHODS

NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000007a"
HOST = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000007b"
SERVICE = 4420
LOST, SPARE = 2, 3
"""The target that is killed first; the NVDIMM of no target."""
SCRIPT = ROOT / "tests" / "lab" / "replicated_log.py"
pytestmark = [
    pytest.mark.usefixtures("need_product"),
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        not nvdimms.LONG, reason="too long for CI, where NVMF_POWER_KILLS is not set"
    ),
]


def namespace(nsid: int, path: str) -> str:
    return f"""
[[subsystem.namespace]]
nsid = {nsid}
store = "pmem"
path = "{path}"
block_size = 4096
persistent = true
memory = ["{HOST}"]
"""


class Target:
    """`nvmeof target serve` in the guest, with an NVDIMM."""

    def __init__(self, guest: Guest, number: int, *paths: str) -> None:
        folder = f"/run/lab/target{number}"
        guest.run(f"mkdir -p {folder}", quiet=True)
        text = f"""
[target]
spin_us = 0
state_dir = "{folder}"
[[port]]
traddr = "{network.GUEST}"
trsvcid = {SERVICE + number}
device = "system"
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
"""
        text += "".join(namespace(nsid, path) for nsid, path in enumerate(paths, 1))
        guest.write(f"{folder}/target.toml", text)
        self.running: Running = guest.start(
            f"cd {shlex.quote(str(ROOT))} && RUNTIME_DIRECTORY={folder} PYTHONUNBUFFERED=1 exec"
            f" {shlex.quote(sys.executable)} -m nvmf.cli.main target serve {folder}/target.toml"
        )

    def wait(self) -> None:
        """Wait until the target listens, and check that its memory is persistent."""
        self.running.wait_for("listening on", 300)
        assert "persistent when it completes (devdax" in self.running.output, self.running.output

    def kill(self) -> None:
        self.running.signal(signal.SIGKILL)
        until(lambda: not self.running.alive, "the target was killed")


def url(number: int) -> str:
    place = f"nvme+rdma://{network.GUEST}:{SERVICE + number}/{NQN}"
    return f"{place}?device=roce&connect_timeout=60&io_timeout=120&kato=120&queues=1"


URLS = [url(number) for number in range(3)]


class Writer:
    """replicated_log.py, outside."""

    def __init__(self, cable: Network, folder: Path) -> None:
        self.journal = folder / "journal"
        self._output = folder / "writer.txt"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                cable.command(sys.executable, str(SCRIPT), "append", str(self.journal), *URLS),
                stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.wait_for("created")

    def wait_for(self, text: str) -> None:
        self._until(lambda: text in self._output.read_text(errors="replace"), text)

    def more(self, count: int) -> None:
        """Wait until count further records are acknowledged."""
        before = self._count()
        self._until(lambda: self._count() >= before + count, f"{count} more records")

    def rejoin(self, number: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % number)
        self._process.stdin.flush()
        self.wait_for(f"rejoined {number}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _count(self) -> int:
        return self.journal.read_bytes().count(b"\n") if self.journal.exists() else 0

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        until(
            lambda: reached() or self._process.poll() is not None,
            what,
            state=lambda: self._output.read_text(errors="replace"),
        )
        said = self._output.read_text(errors="replace")
        assert self._process.poll() is None, f"the writer has ended before {what}:\n{said}"


@pytest.mark.feature("pmem")
def test_replicated_log_on_nvdimms(machine: Lab, cable: Network, tmp_path: Path) -> None:
    memories = nvdimms.make(tmp_path, 4)
    guest = machine.guest(memories=memories)
    paths = nvdimms.use_devdax(guest, range(4))
    use_device(guest, "rxe")
    flush.exchange(guest, cable, paths[SPARE])
    targets = [Target(guest, number, paths[number]) for number in range(3)]
    for target in targets:
        target.wait()
    writer = Writer(cable, tmp_path)
    try:
        writer.more(100)
        targets[LOST].kill()
        writer.more(100)
        targets[LOST] = Target(guest, LOST, paths[LOST])
        targets[LOST].wait()
        writer.rejoin(LOST)
        writer.more(100)
        guest.power_off()
    finally:
        writer.close()

    guest = machine.guest(memories=memories)
    paths = nvdimms.use_devdax(guest, range(4))
    use_device(guest, "rxe")
    flush.check(guest, paths[SPARE])
    targets = [Target(guest, 1, paths[1], paths[SPARE]), Target(guest, LOST, paths[LOST])]
    for target in targets:
        target.wait()
    recovery = [sys.executable, str(SCRIPT), "recover", str(writer.journal), *URLS]
    found = Outside(cable).run(recovery, timeout=300).json()
    assert found["acknowledged"] == found["found"] >= 300, found
    assert len(found["out"]) == 1, found

    host = OurHost(Outside(cable), "roce", network.GUEST, NQN, SERVICE + 1)
    words = ["--methods", ",".join(METHODS), "--bs", "4k", "--runtime", "200ms", "--force"]
    words += ["--ignore-assumptions", "--hostnqn", HOST, "-N", "2"]
    table = host.nvmeof("pmem bench", *words, timeout=300).stdout
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / "pmem-methods.txt").write_text(table)
    print(table)
    for method in METHODS:
        assert f"\n{method}" in table, table
    assert "\nwrite-read*" in table, "nobody knows where rxe leaves data before a FLUSH"
    assert "\nwrite-flush*" not in table, "rxe makes the range of a FLUSH persistent"
