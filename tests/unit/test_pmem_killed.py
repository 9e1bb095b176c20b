# SPDX-License-Identifier: BSD-3-Clause
"""Targets on mapped memory, killed in the middle of load by every method: nothing that was
acknowledged is missing, and no block is torn.

NVMF_PROCESS_KILLS=N kills each N times.  tests/lab/test_power_loss.py kills whole machines.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvmf.pmem.platform import BLOCK_METHODS
from support.clientlab import free_port
from support.powerlives import Lives
from support.powerload import HOST, Device, Way
from support.roce import own_address
from support.served import Served

KILLS = int(os.environ.get("NVMF_PROCESS_KILLS") or 1)
NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-000000000078"


@pytest.fixture
def memory() -> Iterator[Path]:
    """A file on tmpfs, which is mapped as memory and survives processes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "memory"
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 8 << 20)
        yield path


def config(path: Path, device: str, address: str, port: int) -> str:
    return f"""
[target]
spin_us = 0
[[port]]
traddr = "{address}"
trsvcid = {port}
device = "{device}"
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
store = "pmem"
path = "{path}"
block_size = 4096
memory = ["{HOST}"]
[iwarp]
handshake_timeout_ms = 60000
"""


def kill_again_and_again(lives: Lives, folder: Path, text: str) -> None:
    for life in range(KILLS + 1):
        place = folder / str(life)
        place.mkdir()
        target = Served(place, text).wait_ready()
        try:
            lives.begin(load=life < KILLS)
            if life < KILLS:
                lives.write_for_a_while()
        finally:
            target.kill()
        target.check_log()
        if life < KILLS:
            lives.end()
    print(lives)


def ways(device: Device, address: str, port: int, *methods: str) -> list[Way]:
    """Return the methods; those by memory are forced, because tmpfs is not media."""
    url = f"nvme+rdma://{address}:{port}/{NQN}"
    found = [Way(name, device, url) for name in BLOCK_METHODS]
    return found + [Way(name, device, url, force=True) for name in methods]


def test_killed_under_load(memory: Path, tmp_path: Path) -> None:
    port = free_port()
    there = ways("iwarp", "127.0.0.1", port, "write-read", "write-send")
    lives = Lives(tmp_path, there, seed=1)
    try:
        kill_again_and_again(lives, tmp_path, config(memory, "iwarp", "127.0.0.1", port))
    finally:
        lives.close()
    assert lives.kills == {str(way): KILLS for way in there}


def test_killed_under_load_over_roce(memory: Path, tmp_path: Path) -> None:
    address = own_address()
    there = ways("roce", address, 4420, "write-read", "write-send", "write-flush")
    lives = Lives(tmp_path, there, seed=2, host_traddr=own_address())
    try:
        kill_again_and_again(lives, tmp_path, config(memory, "roce", address, 4420))
    finally:
        lives.close()
    assert lives.kills == {str(way): KILLS for way in there}
