# SPDX-License-Identifier: BSD-3-Clause
"""Ports on all addresses of a family, on both embedded devices: which hosts they take."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Literal

import pytest

from nvmf.engine import EngineError
from nvmf.initiator import connect
from nvmf.target import serve

ADDRESSES = {"::": "[::1]", "0.0.0.0": "127.0.0.1"}


@pytest.mark.parametrize("device", ["iwarp", "roce"])
@pytest.mark.parametrize("everywhere", ADDRESSES)
async def test_roce_and_iwarp(device: Literal["iwarp", "roce"], everywhere: str) -> None:
    async with serve(ram="1MiB", device=device, traddr=everywhere) as target:
        for family, address in ADDRESSES.items():
            url = f"nvme+rdma://{address}:{target.ports[0][1]}/{target.url.rpartition('/')[2]}"
            if family == everywhere:
                async with connect(url, device=device) as controller:
                    await controller.namespaces[0].read(0, 1)
            else:
                with pytest.raises(EngineError):
                    await connect(url, device=device, connect_timeout=5)


MANY = """
import asyncio
from nvmf.initiator import connect
from nvmf.target import serve

async def main():
    async with serve(ram="1MiB", device="roce", traddr="0.0.0.0") as target:
        url = f"nvme+rdma://10.9.0.100:{target.ports[0][1]}/{target.url.rpartition('/')[2]}"
        async with connect(url, device="roce") as controller:
            await controller.namespaces[0].read(0, 1)

asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("ip") is None, reason="there is no program ip")
def test_a_machine_with_many_addresses() -> None:
    name = f"nvmeof{os.getpid()}many"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        pytest.skip("this machine permits no network namespaces")
    try:
        lines = ["link set lo up", *(f"addr add 10.9.0.{n}/32 dev lo" for n in range(1, 101))]
        ip = ["ip", "-n", name, "-batch", "-"]
        subprocess.run(ip, input="\n".join(lines), text=True, check=True)
        program = ["ip", "netns", "exec", name, sys.executable, "-c", MANY]
        done = subprocess.run(program, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
