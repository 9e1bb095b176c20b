# SPDX-License-Identifier: BSD-3-Clause
"""The MTU of an interface becomes smaller while a host is connected by RoCEv2."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, fcntl, logging, os, socket, struct

import nvmf.target
from nvmf.initiator import connect

SIOCSIFFLAGS, SIOCSIFMTU, IFF_UP = 0x8914, 0x8922, 1


def set_mtu(size):
    fcntl.ioctl(socket.socket(), SIOCSIFMTU, struct.pack("16si20x", b"lo", size))


async def main():
    fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
    logging.basicConfig(level=logging.WARNING)
    options = {"device": "roce", "queues": 1, "io_timeout": 20, "reconnect_delay": 0.1}
    async with nvmf.target.serve(ram="4MiB", device="roce", traddr="127.0.0.2") as target:
        async with connect(target.url, **options) as controller:
            disk, data = controller.namespace(1), os.urandom(1 << 20)
            await disk.write(0, data)
            assert await disk.read(0, 2048) == data  # full packets have arrived
            set_mtu(1500)
            await disk.write(2048, data)  # the target reads it from this host
            assert await disk.read(2048, 2048) == data
            assert await disk.read(0, 2048) == data


asyncio.run(main())
"""


def test_data_that_no_longer_fits_the_interface() -> None:
    """The host's answers to READs do not: it ends the connection, and the next one fits."""
    done = subprocess.run(
        ["unshare", "--net", "--", sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "unshare failed" in done.stderr:
        pytest.skip("no network namespace can be made here")
    assert done.returncode == 0, done.stderr
    assert "a new connection uses smaller packets" in done.stderr
    assert "did not answer" not in done.stderr
