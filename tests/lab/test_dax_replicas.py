# SPDX-License-Identifier: BSD-3-Clause
"""Replicas on device DAXes of emulated NVDIMMs: a log, and a mirror as a namespace.

Both are in the guest, which loses its power while they are written to.  The third replica of the
log is a file on tmpfs, which is then gone.  After a boot the log is recovered with the two device
DAXes, and the mirror is opened; each must have everything that was acknowledged, and in the end the
legs of the mirror are equal.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lab import network, nvdimms
from lab.conftest import Lab
from lab.guest import Guest
from lab.network import Network
from lab.our_host import Outside
from lab.prepare import ROOT
from lab.running import Running
from lab.waiting import until

NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000008c"
SERVICE = 4420
URL = (
    f"nvme+rdma://{network.GUEST}:{SERVICE}/{NQN}"
    "?device=iwarp&connect_timeout=60&io_timeout=120&kato=120&queues=1"
)
SCRIPTS = ROOT / "tests" / "lab"
FOLDER = "/run/lab/dax"
VOLATILE = f"{FOLDER}/replica"
MIRROR = b"NVMFMIR\0"
COMPARED = slice(16 << 20, 200 << 20)
"""The bytes of an NVDIMM that are those of a mirror's data: not labels, headers and redo slots."""
pytestmark = [
    pytest.mark.usefixtures("need_product"),
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        not nvdimms.LONG, reason="too long for CI, where NVMF_POWER_KILLS is not set"
    ),
]


def serve(guest: Guest, paths: list[str]) -> Running:
    """Serve a mirror of the device DAXes in the guest, on the embedded iWARP device."""
    legs = "".join(f'[[subsystem.namespace.leg]]\npath = "{path}"\n' for path in paths)
    guest.run(f"mkdir -p {FOLDER}", quiet=True)
    guest.write(
        f"{FOLDER}/target.toml",
        f"""
[target]
state_dir = "{FOLDER}"
[[port]]
traddr = "{network.GUEST}"
trsvcid = {SERVICE}
device = "iwarp"
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
[[subsystem.namespace]]
store = "mirror"
{legs}
""",
    )
    target = guest.start(
        f"cd {shlex.quote(str(ROOT))} && RUNTIME_DIRECTORY={FOLDER} PYTHONUNBUFFERED=1 exec"
        f" {shlex.quote(sys.executable)} -m nvmf.cli.main target serve {FOLDER}/target.toml"
    )
    target.wait_for("listening on", 300)
    return target


def in_guest(guest: Guest, *words: str) -> Running:
    command = shlex.join([sys.executable, str(SCRIPTS / "dax_log.py"), *words])
    return guest.start(f"cd {shlex.quote(str(ROOT))} && PYTHONUNBUFFERED=1 exec {command}")


def legs_of(guest: Guest) -> list[str]:
    """Return the states of the mirror's legs."""
    words = [sys.executable, "-m", "nvmf.cli.main", "target", "mirror", "show", "-o", "json"]
    words += ["--rpc-socket", f"{FOLDER}/target.sock"]
    (mirror,) = json.loads(guest.run(words, quiet=True, timeout=120).stdout)
    return [leg["state"] for leg in mirror["legs"]]


@pytest.mark.feature("pmem")
def test_replicas_on_device_dax(machine: Lab, cable: Network, tmp_path: Path) -> None:
    memories = nvdimms.make(tmp_path, 4)
    guest = machine.guest(memories=memories)
    guest.run(f"mkdir -p {FOLDER}", quiet=True)
    paths = nvdimms.use_devdax(guest, range(4))
    guest.run(f"truncate -s 64M {VOLATILE}", quiet=True)
    log = in_guest(guest, "append", *paths[:2], VOLATILE)
    target = serve(guest, paths[2:])
    journal = tmp_path / "journal"
    words = [sys.executable, str(SCRIPTS / "numbered_blocks.py")]
    writer = subprocess.Popen(
        cable.command(*words, "write", str(journal), URL), stdout=subprocess.DEVNULL
    )
    try:
        until(
            lambda: (
                writer.poll() is not None
                or (
                    log.output.count("acknowledged") > 100
                    and journal.exists()
                    and journal.read_bytes().count(b"\n") > 300
                )
            ),
            "both were written to",
            state=lambda: target.output + log.output,
        )
        assert writer.poll() is None, target.output
        guest.power_off()
    finally:
        writer.kill()
        writer.wait()
    printed = log.output

    guest = machine.guest(memories=memories)
    guest.run(f"mkdir -p {FOLDER}", quiet=True)
    paths = nvdimms.use_devdax(guest, range(4))
    guest.write(f"{FOLDER}/journal", printed)
    now = json.loads(in_guest(guest, "find", *paths).wait(300).check().stdout)
    recovery = in_guest(guest, "recover", f"{FOLDER}/journal", *now["log"], VOLATILE)
    found = json.loads(recovery.wait(300).check().stdout)
    assert found["acknowledged"] == found["found"] > 100, found
    assert len(found["out"]) == 1, found

    target = serve(guest, now["others"])
    found = Outside(cable).run([*words, "check", str(journal), URL], timeout=300).json()
    assert found["written"] > 100, found
    assert not found["bad"], found
    until(lambda: legs_of(guest) == ["in-sync"] * 2, "both legs are in sync")
    guest.power_off()
    legs = [data for file in memories if MIRROR in (data := file.read_bytes())[: COMPARED.start]]
    assert len(legs) == 2
    one, two = (data[COMPARED] for data in legs)
    assert one == two
    assert any(one)
