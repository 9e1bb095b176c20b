# SPDX-License-Identifier: BSD-3-Clause
"""A namespace through the kernel, with a file as block device: I/O, and its errors."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nvmf.initiator import NvmeError
from nvmf.initiator.base.memory import BorrowedMemory, KernelMemory
from nvmf.initiator.kernel import sysfs
from nvmf.initiator.kernel.namespace import KernelNamespace
from nvmf.spec.identify import IdentifyNamespace, NamespaceIds
from nvmf.spec.status import Status
from support.fakekernel import FakeKernel


class _Threadless:
    """A controller of a namespace that is a file."""

    max_transfer = 1 << 20

    def check_usable(self) -> None: ...

    async def on_thread(self, work: Callable[[], Any]) -> Any:
        return work()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelNamespace:
    kernel = FakeKernel(tmp_path)
    monkeypatch.setattr("os.O_DIRECT", 0)  # the tests' file system may not support it
    kernel.controller(0)
    (kernel.dev / kernel.namespace(1)).write_bytes(bytes(1 << 20))
    (one,) = sysfs.controllers(kernel.system)
    (block,) = sysfs.namespaces(one, kernel.system)
    controller: Any = _Threadless()
    info = IdentifyNamespace(nsze=2048)
    return KernelNamespace(controller, block, info, NamespaceIds(), kernel.sysfs / "none")


async def test_file_io(disk: KernelNamespace) -> None:
    data = bytes(range(256)) * 4096
    await disk.write(0, data, fua=True)
    assert await disk.read(0, 2048) == data
    await disk.write(3, b"\7" * 512)
    await disk.flush()
    into = bytearray(1536)
    assert await disk.readinto(2, into) == 1536
    assert into == data[1024:1536] + b"\7" * 512 + data[2048:2560]
    assert (disk.blocks, disk.size, disk.block_size) == (2048, 1 << 20, 512)
    disk.close()


async def test_file_bytes(disk: KernelNamespace) -> None:
    data = bytes(range(256)) * 4096
    assert await disk.pwrite(data, 0) == len(data)
    for n, offset in ((1, 3), (512, 512), (700, 511), (600_000, 1), (len(data), 0)):
        assert await disk.pread(n, offset) == data[offset : offset + n]
    into = [bytearray(3), bytearray(600)]
    assert await disk.preadv(into, 5) == 603
    assert b"".join(into) == data[5:608]
    assert await disk.pwritev([b"a" * 256, b"b" * 256], 512) == 512
    assert await disk.pread(514, 511) == data[511:512] + b"a" * 256 + b"b" * 256 + data[:1]
    with pytest.raises(ValueError, match="whole blocks of 512 bytes"):
        await disk.pwrite(b"x", 0)
    with pytest.raises(NvmeError, match=r"pread of 2 bytes at offset 1048575 .*1048576 bytes"):
        await disk.pread(2, (1 << 20) - 1)
    with pytest.raises(NvmeError, match="Read of 1099511627776 blocks at LBA 0"):
        await disk.read(0, 1 << 40)
    with pytest.raises(TypeError, match="lba is a whole number, not '0'"):
        await disk.read("0", 1)  # type: ignore[arg-type]
    with BorrowedMemory(bytearray(512)) as borrowed:
        await disk.readinto(0, borrowed)
        assert bytes(borrowed.exported) == data[:512]
    memory = KernelMemory(512)
    memory.close()
    for closed in (borrowed, memory):
        with pytest.raises(ValueError, match=r"closed|released"):
            await disk.write(0, closed)
    assert await disk.read(0, 1) == data[:512]
    disk.close()


async def test_file_grows(disk: KernelNamespace) -> None:
    """A read past the known end checks whether the file has grown."""
    with pytest.raises(NvmeError, match=r"Read of 1 block at LBA 2048 .*LBA Out of Range"):
        await disk.read(2048, 1)
    os.truncate(disk.path, (1 << 20) + 512)
    assert await disk.read(2048, 1) == bytes(512)
    assert disk.blocks == 2049
    disk.close()


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (errno.ENOSPC, Status.CAPACITY_EXCEEDED),
        (errno.ENODATA, Status.WRITE_FAULT),
        (errno.EROFS, Status.NAMESPACE_WRITE_PROTECTED),
        (errno.EBADE, Status.RESERVATION_CONFLICT),
    ],
)
async def test_file_errors(
    disk: KernelNamespace, monkeypatch: pytest.MonkeyPatch, number: int, status: Status
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, "it fails")

    monkeypatch.setattr("os.pwritev", fail)
    with pytest.raises(NvmeError, match="Write of 1 block at LBA 7 in namespace 1") as raised:
        await disk.write(7, bytes(512))
    assert raised.value.status == status
    disk.close()
