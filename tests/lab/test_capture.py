# SPDX-License-Identifier: BSD-3-Clause
"""Captures of our ends on the guest's RDMA devices: their packets are synthesised."""

from __future__ import annotations

import base64
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab import block, network
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import KernelHost
from lab.ours import OursInside
from lab.prepare import ROOT
from lab.running import Running
from lab.waiting import until

NVMEOF = f"cd {shlex.quote(str(ROOT))} && exec {shlex.quote(sys.executable)} -m nvmf.cli.main"
FILES = "/run/lab/target"
EXISTS, CHUNK = 60, 1 << 20
"""Bytes of a file whose recording has begun; and bytes that are written."""


def explained(guest: Guest, path: str, folder: Path) -> list[dict[str, Any]]:
    """Return the connections of a file of the guest, in which nothing is wrong.

    The file is read outside, because that takes the emulated processor long.
    """
    copy = folder / Path(path).name
    copy.write_bytes(base64.b64decode(guest.run(f"base64 {path}", quiet=True).stdout))
    argv = [sys.executable, "-m", "nvmf.cli.main", "explain", "-o", "json", str(copy)]
    told = subprocess.run(argv, check=False, stdout=subprocess.PIPE, timeout=240)
    found = json.loads(told.stdout)  # the status says only whether there are violations
    faults = [one["faults"] for one in found["connections"]]
    assert found["violations"] == 0, faults
    assert not found["notes"]
    assert all(one["synthesised"] for one in found["connections"])
    return list(found["connections"])


def moved(connections: list[dict[str, Any]], command: str, key: str) -> int:
    """Return the bytes that commands of a kind have moved."""
    rows = [row for one in connections for row in one["commands"] if row["command"] == command]
    return sum(int(row[key]) for row in rows if row["status_code"] == 0)


def stop(recording: Running) -> None:
    recording.signal(signal.SIGINT)
    recording.wait(120).check()


@pytest.mark.usefixtures("need_product")
@pytest.mark.parametrize("kind", ["siw", "rxe"])
def test_our_ends(guest: Guest, kind: str, tmp_path: Path) -> None:
    """Our target, with the kernel's host; and then our client, with the same target."""
    use_device(guest, kind)
    target = OursInside(guest, network.GUEST)
    theirs, ours = f"{FILES}/{kind}-target.pcapng", f"{FILES}/{kind}-client.pcapng"
    try:
        guest.run(f"rm -f {theirs} {ours}", quiet=True)
        recording = guest.start(f"{NVMEOF} capture {theirs}")
        size = f"stat -c %s {theirs} 2>/dev/null || echo 0"
        until(lambda: int(guest.run(size, quiet=True).stdout) >= EXISTS, "the recording begins")
        host = KernelHost(guest, target.address, target.service)
        with host.connected(target.nqn, "-i", "1", namespaces=3):
            device = host.devices(target.nqn)[1]
            block.pattern(guest, device, 0x5A, 0, CHUNK)
            block.expect(guest, device, 0x5A, 0, CHUNK)
        target.wait_no_connections()
        stop(recording)
        found = explained(guest, theirs, tmp_path)
        assert {one["subnqn"] for one in found} == {target.nqn}
        assert {one["qid"] for one in found} >= {0, 1}
        assert all(one["ended"] for one in found)
        assert moved(found, "Write", "rdma_read_bytes") >= CHUNK
        assert moved(found, "Read", "rdma_write_bytes") >= CHUNK

        place = f"nvme+rdma://{network.GUEST}:{target.service}/{target.nqn}"
        place += "?device=system&connect_timeout=60&io_timeout=120"
        client = f"{shlex.quote(sys.executable)} -m nvmf.cli.main read -N 2 -z 64k -d /dev/null"
        guest.run(f"{NVMEOF} capture {ours} -- {client} '{place}'", timeout=240)
        found = explained(guest, ours, tmp_path)
        assert {one["subnqn"] for one in found} == {target.nqn}
        assert moved(found, "Read", "rdma_write_bytes") == 65536
        target.check()
    finally:
        target.close()
