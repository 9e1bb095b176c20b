# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's host dies during its writes.  (It must be booted again afterwards.)"""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from lab import block, network
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import KernelHost
from lab.network import Network
from lab.our_host import OurHost, Outside
from lab.running import Running
from lab.steered import NSID, Steered, file_namespace
from lab.waiting import until

pytestmark = [pytest.mark.usefixtures("need_product"), pytest.mark.timeout(900)]

RAM = 2
BLOCK = 4096
AREA = 64
"""Blocks that belong to a writer; it writes the first few of them, or all, in one command."""
WRITERS = (1, 2, 16, 64)
"""Blocks per write: in the capsule, and fetched by RDMA READ."""
ROUNDS = 20
"""Writes that every writer has completed before the power-off."""

# Run in the guest: argv is the writes' sizes, in blocks, and then the devices.  Each block is
# filled with its number and its writer's count of writes.  Prints a line for each completed
# write.
WRITE = f"""
import mmap, os, stat, struct, sys, threading

def write(device, fd, writer, blocks):
    buffer = mmap.mmap(-1, blocks * {BLOCK})
    first = writer * {AREA}
    count = 0
    while True:
        count += 1
        for i in range(blocks):
            data = struct.pack("<QQ", first + i, count) * {BLOCK // 16}
            buffer[i * {BLOCK} : (i + 1) * {BLOCK}] = data
        assert os.pwritev(fd, [buffer], first * {BLOCK}) == len(buffer)
        print("written", device, writer, count, flush=True)

sizes = [int(size) for size in sys.argv[1].split(",")]
for device, path in enumerate(sys.argv[2:]):
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    assert stat.S_ISBLK(os.fstat(fd).st_mode), path
    for writer, blocks in enumerate(sizes):
        threading.Thread(target=write, args=(device, fd, writer, blocks)).start()
"""


def _completed(running: Running) -> dict[tuple[int, int], int]:
    """Return the number of writes reported as complete, by device and writer."""
    found = re.findall(r"^written (\d+) (\d+) (\d+)\n", running.output, re.M)
    return {(int(device), int(writer)): int(count) for device, writer, count in found}


def _at_work(running: Running) -> bool:
    """Whether every writer has completed its rounds, and is running."""
    assert running.alive, running.output[-2000:]
    completed = _completed(running)
    return len(completed) == 2 * len(WRITERS) and min(completed.values()) >= ROUNDS


def _check(data: bytes, writer: int, blocks: int, completed: int) -> None:
    """Check that no block is torn, and none is older than the last completed write."""
    for index in range(blocks):
        number = writer * AREA + index
        content = data[number * BLOCK : (number + 1) * BLOCK]
        says, count = struct.unpack_from("<QQ", content)
        assert content == content[:16] * (BLOCK // 16), f"block {number} is torn"
        assert says == number, f"block {number} is that of {says}"
        assert count >= completed, f"block {number}: {count}, but {completed} was complete"


def test_host_killed(cable: Network, tmp_path: Path, doomed: Guest) -> None:
    """The dead host's connections end by the keep-alive timeout; each block is the old or the new
    one.
    """
    disk = tmp_path / "disk.img"
    disk.write_bytes(bytes(64 * block.MIB))
    ram = {"store": "ram", "size": "64MiB", "block_size": BLOCK}
    use_device(doomed, "siw")
    host = KernelHost(doomed, network.HOST)
    with Steered(cable, tmp_path, {NSID: file_namespace(disk), RAM: ram}) as target:
        with host.connected(target.nqn, "-i", "2", namespaces=2):
            pass  # created for the first host, and kept
        before = target.wait_alone()
        host.try_connect(target.nqn, "-i", "2", "-k", "4").check()
        host.wait_live(target.nqn, 2)
        paths = [device.path for device in host.devices(target.nqn)]
        sizes = ",".join(str(size) for size in WRITERS)
        running = doomed.start(["python3", "-I", "-c", WRITE, sizes, *paths], quiet=True)
        until(
            lambda: _at_work(running),
            "every writer is at work",
            state=lambda: running.output[-2000:],
        )
        doomed.power_off()
        completed = _completed(running)
        target.wait_same(before)
        ours = OurHost(Outside(cable), "iwarp", network.HOST, target.nqn)
        for device, nsid in enumerate((NSID, RAM)):
            copy = tmp_path / f"copy{nsid}"
            length = len(WRITERS) * AREA * BLOCK
            ours.nvmeof("read", "-N", str(nsid), "-z", str(length), "-d", str(copy))
            for writer, blocks in enumerate(WRITERS):
                _check(copy.read_bytes(), writer, blocks, completed[device, writer])
        target.close()
    assert disk.read_bytes()[: len(WRITERS) * AREA * BLOCK] == (tmp_path / "copy1").read_bytes()
