# SPDX-License-Identifier: BSD-3-Clause
"""A mirror overwrites no file system, though some leave the first bytes of a disk free."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import nvmf.target
from nvmf.initiator import connect
from nvmf.replication import FileReplica, ReplicaError
from nvmf.target import ServerError
from support.loopdevice import loop_device
from support.mirrorlab import clean, leg_of, mirror_text, until
from support.replicas import files

SIZE = 4 << 20
BTRFS = 0x10000
"""Offset of the first superblock of btrfs."""


def holding(path: Path) -> bytes:
    """Make a file that has data where a file system can have it, and nothing before."""
    content = bytes(BTRFS) + b"_BHRfS_M" + bytes(SIZE - BTRFS - 8)
    path.write_bytes(content)
    return content


async def test_a_new_mirror(tmp_path: Path) -> None:
    (local,) = files(tmp_path, 1, SIZE)
    disk = tmp_path / "disk"
    content = holding(disk)
    with pytest.raises(ServerError, match="it has data that is not of a mirror"):
        await nvmf.target.serve(mirror_text([f'path = "{local}"', f'path = "{disk}"']))
    assert disk.read_bytes() == content


async def test_a_leg_that_comes_back(tmp_path: Path) -> None:
    """As after a name of a disk was given to a different one."""
    paths = files(tmp_path, 3, SIZE)
    text = mirror_text([f'path = "{path}"' for path in paths])
    async with nvmf.target.serve(text) as target, connect(target.url) as controller:
        await clean(target, 3)
    content = holding(paths[2])
    async with nvmf.target.serve(text) as target, connect(target.url) as controller:
        await until(lambda: leg_of(target, str(paths[2]))["state"] == "refused")
        assert "other data" in (leg_of(target, str(paths[2]))["reason"] or "")
        await controller.namespace(1).write(0, bytes(4096))
    assert paths[2].read_bytes() == content


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """A block device."""
    with loop_device(tmp_path / "device", SIZE) as found:
        yield found


async def test_a_disk_that_is_in_use(device: Path) -> None:
    """As a mounted one is."""
    replica = FileReplica(device)
    mounted = os.open(device, os.O_RDWR | os.O_EXCL)
    try:
        with pytest.raises(ReplicaError, match="it is mounted, or held by another program"):
            await replica.fence()
    finally:
        os.close(mounted)
    await replica.fence()
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EBUSY)):
            os.open(device, os.O_RDWR | os.O_EXCL)
    finally:
        await replica.close()
