# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's host stays connected while our target is changed, and sees the changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import block
from lab.guest import Guest
from lab.kernel_host import BlockDevice, KernelHost
from lab.ours import OursOutside

PATIENCE = 90.0


def command(target: OursOutside, *args: object) -> None:
    socket = ("--rpc-socket", target.served.rpc_socket)
    words = [str(word) for word in ("target", *args, *socket)]
    subprocess.run([sys.executable, "-m", "nvmf.cli.main", *words], check=True, timeout=PATIENCE)


def follows(host: KernelHost, nqn: str, wanted: Callable[[list[BlockDevice]], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not wanted(found := host.devices(nqn)):
        assert time.monotonic() < end, found
        time.sleep(0.2)


@pytest.mark.feature("live", "resize", "reload")
@pytest.mark.timeout(600)
def test_block_devices_follow(target: OursOutside, guest: Guest, tmp_path: Path) -> None:
    """Namespaces are added, resized and removed by command and by SIGHUP, while the first device is
    verified.
    """
    host, nqn = KernelHost(guest, target.address, target.service), target.nqn
    disk = tmp_path / "fourth.img"
    disk.write_bytes(b"")
    os.truncate(disk, 8 * block.MIB)
    with host.connected(nqn, "-i", "2", namespaces=3):
        first = host.devices(nqn)[0]
        command(target, "namespace", "add", nqn, "--store", "file", "--path", disk)
        follows(host, nqn, lambda found: [one.nsid for one in found] == [1, 2, 3, 4])
        fourth = host.devices(nqn)[3]
        block.pattern(guest, fourth, 0x5A, 0, block.MIB)

        os.truncate(disk, 16 * block.MIB)
        command(target, "namespace", "resize", nqn, 4)
        follows(host, nqn, lambda found: found[-1].size == 16 * block.MIB)
        block.expect(guest, fourth, 0x5A, 0, block.MIB)

        block.fio_verify(guest, first, [block.Load("4k-64k", 16)])
        command(target, "namespace", "remove", nqn, 4)
        follows(host, nqn, lambda found: [one.nsid for one in found] == [1, 2, 3])

        path = target.served.folder / "target.toml"
        text = path.read_text()
        more = f'[[subsystem.namespace]]\nnsid = 4\nstore = "file"\npath = "{disk}"\n\n'
        place = text.rindex("[[subsystem]]")
        path.write_text(text[:place] + more + text[place:])
        target.served.process.send_signal(signal.SIGHUP)
        follows(host, nqn, lambda found: [one.nsid for one in found] == [1, 2, 3, 4])
        block.expect(guest, host.devices(nqn)[3], 0x5A, 0, block.MIB)

        path.write_text(text)
        target.served.process.send_signal(signal.SIGHUP)
        follows(host, nqn, lambda found: [one.nsid for one in found] == [1, 2, 3])
        block.fio_verify(guest, first, [block.Load("4k-64k", 16)])
    target.check()
