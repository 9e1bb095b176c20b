# SPDX-License-Identifier: BSD-3-Clause
"""A leg of a mirror whose file system fills: it is lost, and comes back when there is room."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import nvmf.target
from nvmf.initiator import connect
from nvmf.replication import FileReplica
from nvmf.target import ServerError
from support.loopdevice import loop_device
from support.mirrorlab import (
    Remote,
    clean,
    data_of,
    header_of,
    leg_of,
    mirror_text,
    state_of,
    until,
)
from support.replicas import files

SIZE = 4 << 20
ROOM = 8 << 20
STRIDE = 128
"""Blocks from one write to the next: each is in pages of the file that have no memory yet."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """Take all the room of a file system."""
    path = folder / "something-else"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return path


def make_sparse(path: Path) -> None:
    """Free the memory of the zeroes on a leg; what is read from it stays the same."""
    assert not any(data_of(path))
    start = header_of(path).geometry.start
    words = ["fallocate", "--punch-hole", "--offset", str(start), "--length", str(SIZE)]
    subprocess.run([*words, str(path)], check=True)


def page(number: int) -> bytes:
    return number.to_bytes(4, "little") * 1024


@pytest.mark.parametrize("kind", ["file", "namespace"])
async def test_a_leg_that_fills(tmp_path: Path, small: Path, kind: str) -> None:
    """Data acknowledged meanwhile is there, and on the leg when it is back."""
    others = files(tmp_path, 2, SIZE)
    path = small / "leg"
    path.touch()
    os.truncate(path, SIZE)
    async with AsyncExitStack() as stack:
        name, leg = str(path), f'path = "{path}"'
        if kind == "namespace":
            remote = Remote(path)
            stack.push_async_callback(remote.stop)
            await remote.start()
            name, leg = remote.name, remote.leg
        legs = [*(f'path = "{one}"' for one in others), leg]
        target = await stack.enter_async_context(nvmf.target.serve(mirror_text(legs)))
        controller = await stack.enter_async_context(connect(target.url))
        disk = controller.namespace(1)
        await clean(target, 3)
        await asyncio.to_thread(make_sparse, path)
        await disk.write(0, page(1))
        ballast = await asyncio.to_thread(fill, small)
        for n in range(1, 32):
            await disk.write(n * STRIDE, page(n + 1))
        told = "free space" if kind == "file" else "Capacity Exceeded"

        def is_lost() -> bool:
            leg = leg_of(target, name)  # it is tried again each second
            return leg["state"] == "lost" and told in (leg["reason"] or "")

        await until(is_lost)
        assert state_of(target)["state"] == "degraded"
        for n in range(32):
            assert await disk.read(n * STRIDE, 8) == page(n + 1)
        ballast.unlink()
        await clean(target, 3)
        for n in range(32):
            assert await disk.read(n * STRIDE, 8) == page(n + 1)
        await disk.write(32 * STRIDE - 8, page(33))
    assert data_of(path) == data_of(others[0]) == data_of(others[1])
    assert data_of(path)[STRIDE * 512 :][:4096] == page(2)


async def test_a_creation_that_has_failed_is_repeated(tmp_path: Path, small: Path) -> None:
    """Although a leg has the header of the first attempt, which nobody has ever used."""
    (local,) = files(tmp_path, 1, SIZE)
    path = small / "leg"
    path.touch()
    os.truncate(path, SIZE)
    ballast = await asyncio.to_thread(fill, small)
    text = mirror_text([f'path = "{local}"', f'path = "{path}"'])
    with pytest.raises(ServerError, match="free space in the file system"):
        await nvmf.target.serve(text)
    ballast.unlink()
    async with nvmf.target.serve(text) as target, connect(target.url) as controller:
        await controller.namespace(1).write(0, page(1))
        await clean(target, 2)
    assert data_of(local) == data_of(path)


@pytest.fixture
def thin(small: Path) -> Iterator[Path]:
    """A block device that has room only for what the small file system can hold."""
    with loop_device(small / "device", SIZE) as found:
        yield found


async def test_what_could_not_be_written_is_not_read(small: Path, thin: Path) -> None:
    """The page cache still has it, and after a power failure nothing would."""
    held = os.open(thin, os.O_RDONLY)  # its page cache stays when the replica is closed
    replica = FileReplica(thin)
    try:
        await replica.fence()
        ballast = await asyncio.to_thread(fill, small)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            await replica.write(1 << 20, page(1))
        ballast.unlink()
        await replica.fence()
        await replica.flush()
        assert await replica.read(1 << 20, 4096) == bytes(4096)
        await replica.write(1 << 20, page(2))
        assert await replica.read(1 << 20, 4096) == page(2)
    finally:
        await replica.close()
        os.close(held)
    assert (small / "device").read_bytes()[1 << 20 :][:4096] == page(2)
