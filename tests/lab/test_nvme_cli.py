# SPDX-License-Identifier: BSD-3-Clause
"""A Linux host's view of a namespace except its data: names, limits, rarer commands."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from lab import block
from lab.guest import Guest
from lab.kernel_host import KernelHost
from lab.ours import OursOutside
from nvmf.rpc.sync import connect as administer
from support.served import Served

PATIENCE = 90.0


def rpc(served: Served, method: str, **params: Any) -> Any:
    """Return the result of a method."""
    with administer(served.rpc_socket) as target:
        return target.request(method, params)


def names(guest: Guest, device: str) -> dict[str, str]:
    """Return the identifiers of a namespace in the kernel."""
    path = f"/sys/block/{device}"
    words = guest.run(f"cat {path}/uuid {path}/nguid {path}/wwid").stdout.split()
    eui64 = guest.run(f"nvme id-ns /dev/{device} -o json").json()["eui64"]
    return dict(zip(("uuid", "nguid", "wwid"), words, strict=True)) | {"eui64": eui64}


@pytest.mark.feature("identifiers")
def test_names_stay(target: OursOutside, guest: Guest) -> None:
    """UUID, NGUID and EUI64 are those that the target reports, all different, also after a
    crash.
    """
    host, nqn = KernelHost(guest, target.address, target.service), target.nqn
    (subsystem,) = rpc(target.served, "nvmf_get_subsystems", nqn=nqn)
    found: dict[int, dict[str, str]] = {}
    for _ in range(2):
        with host.connected(nqn, "-i", "1", namespaces=3):
            before, found = found, {d.nsid: names(guest, d.name) for d in host.devices(nqn)}
        assert before in ({}, found)
        target.restart()
    for space in subsystem["namespaces"]:
        seen = found[space["nsid"]]
        assert seen["uuid"] == space["uuid"]
        assert seen["wwid"] == f"uuid.{space['uuid']}"
        assert seen["nguid"].replace("-", "").upper() == space["nguid"]
        assert seen["eui64"].upper() == space["eui64"]
    for kind in ("uuid", "nguid", "eui64"):
        assert len({one[kind] for one in found.values()}) == len(found) == 3
    target.check()


@pytest.mark.feature("compare", "verify", "limits")
@pytest.mark.unclean(r"nvme\d+n\d+|critical|I/O error|Compare|nvme nvme\d+")
def test_rarer_commands(target: OursOutside, guest: Guest) -> None:
    """Compare and Verify by nvme-cli; a limit that is set meanwhile delays later commands."""
    host, nqn = KernelHost(guest, target.address, target.service), target.nqn
    with host.connected(nqn, "-i", "1", namespaces=3):
        device = host.devices(nqn)[1]
        block.pattern(guest, device, 0xA5, 0, 64 * block.KIB)
        where = f"{device.path} -n {device.nsid} -s 0 -c 0"
        guest.run(f"nvme verify {where}")
        page = "head -c 4096 /dev/zero | tr '\\0' '\\245'"
        guest.run(f"{page} | nvme compare {device.path} -s 0 -c 0 -z 4096")
        other = guest.run(
            f"head -c 4096 /dev/zero | nvme compare {device.path} -s 0 -c 0 -z 4096", check=False
        )
        assert other.status != 0
        assert "Compare Failure" in other.output or "COMPARE_FAILED" in other.output, other.output

        limit = ("namespace", "limit", nqn, device.nsid, "--write-iops", 50)
        words = [*limit, "--rpc-socket", target.served.rpc_socket]
        argv = [sys.executable, "-m", "nvmf.cli.main", "target", *(str(word) for word in words)]
        subprocess.run(argv, check=True, timeout=PATIENCE)
        guest.run(
            "fio --name=held --ioengine=libaio --direct=1 --thread --rw=randwrite --bs=4k --size=1m"
            f" --iodepth=16 --verify=crc32c --verify_fatal=1 --filename={device.path}",
            quiet=True,
        )
        stats = rpc(target.served, "nvmf_get_stats")["namespaces"]
        held = {one["nsid"]: one["throttled"] for one in stats if one["nqn"] == nqn}
        assert held[device.nsid] > 0
        assert not any(count for nsid, count in held.items() if nsid != device.nsid), held
    target.check()
