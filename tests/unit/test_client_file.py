# SPDX-License-Identifier: BSD-3-Clause
"""A namespace as a file, used by Python's standard library."""

from __future__ import annotations

import errno
import io
import os
import random
import secrets
import shutil
import tarfile
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from nvmf.initiator import ConnectionLost, NvmeError
from nvmf.initiator.sync import Controller, Namespace, connect
from nvmf.initiator.sync.file import NamespaceFile
from support.clientlab import OPTIONS, url
from support.served import Served


@pytest.fixture(params=[1, 2])
def disk(controller: Controller, request: pytest.FixtureRequest) -> Namespace:
    """A namespace with blocks of 512 or 4096 bytes."""
    return controller.namespace(request.param)


def test_copied(disk: Namespace, tmp_path: Path) -> None:
    """shutil.copyfileobj, to the disk and from it."""
    data = secrets.token_bytes((1 << 20) + 77)
    with disk.open("r+b") as file:
        shutil.copyfileobj(io.BytesIO(data), file)
        assert file.tell() == len(data)
    with disk.open() as file, (tmp_path / "back").open("wb") as back:
        shutil.copyfileobj(file, back)
    found = (tmp_path / "back").read_bytes()
    assert len(found) == disk.size
    assert found[: len(data)] == data
    with disk.open() as file:
        assert file.readall() == file.read() + found
        file.seek(-77, os.SEEK_END)
        assert file.read() == found[-77:]
        assert file.read(1) == b""


def test_archive(disk: Namespace, tmp_path: Path) -> None:
    """A tar archive on the disk itself."""
    made = {f"file{number}": secrets.token_bytes(number * 1000) for number in range(20)}
    with disk.open("wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in made.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with disk.open() as file, tarfile.open(fileobj=io.BufferedReader(file)) as archive:
        found = {}
        for member in archive:
            part = archive.extractfile(member)
            assert part is not None
            found[member.name] = part.read()
    assert found == made


def test_random_writes(disk: Namespace) -> None:
    """After writes of any length and offset, raw and buffered, the disk equals a bytearray."""
    chance = random.Random(5)
    with disk.open("r+b") as file:
        model = bytearray(file.read(100_000))
        stream = io.BufferedRandom(file, 8192)
        for writer in [file] * 60 + [stream] * 200:
            offset = chance.randrange(90_000)
            data = chance.randbytes(chance.choice([0, 1, 511, 512, 513, 4096, 5000]))
            writer.seek(offset)
            assert writer.write(data) == len(data)
            model[offset : offset + len(data)] = data
            if chance.random() < 0.3:
                writer.seek(offset)
                assert writer.read(len(data)) == data
        stream.flush()
        assert disk.pread(100_000, 0) == model
        stream.close()
    assert file.closed


def test_the_end_of_the_disk(disk: Namespace) -> None:
    with disk.open("r+b") as file:
        file.seek(-3, os.SEEK_END)
        with pytest.raises(OSError, match="cannot write 4 bytes") as raised:
            file.write(b"1234")
        assert raised.value.errno == errno.ENOSPC
        assert file.write(b"123") == 3
        assert disk.pread(3, disk.size - 3) == b"123"
        file.seek(1 << 60)
        assert file.read(5) == b""
        with pytest.raises(OSError, match="cannot write 1 bytes"):
            file.write(b"1")
        assert file.write(b"") == 0


def test_modes(disk: Namespace) -> None:
    with disk.open("rb") as file:
        assert (file.readable(), file.writable(), file.seekable()) == (True, False, True)
        assert file.mode == "rb"
        assert repr(file) == f"<NamespaceFile of {file.name}, {disk.size} bytes, rb>"
        with pytest.raises(io.UnsupportedOperation, match="reading only"):
            file.write(b"x")
        with pytest.raises(OSError, match="cannot seek to byte -1"):
            file.seek(-1)
        with pytest.raises(ValueError, match="whence"):
            file.seek(0, 9)
        with pytest.raises(io.UnsupportedOperation):
            file.truncate(0)
        with pytest.raises(io.UnsupportedOperation):
            file.fileno()
    with pytest.raises(ValueError, match="closed"):
        file.read(1)
    with disk.open("wb") as file, pytest.raises(io.UnsupportedOperation, match="writing only"):
        file.read(1)
    with pytest.raises(ValueError, match="mode rb, wb or r\\+b, not 'a'"):
        disk.open("a")
    NamespaceFile.__new__(NamespaceFile).flush()  # what is left of it: its finaliser does this


def test_closed_controller(target: Served) -> None:
    with connect(url(target.port), **OPTIONS) as controller:
        file = controller.namespace(1).open("r+b")
        file.write(b"x")
        file.flush()
    with pytest.raises(ConnectionLost):
        file.read(1)
    file.close()


def test_a_read_is_copied_once(controller: Controller) -> None:
    """A read's peak use of memory is its length, and a read out of range allocates nothing."""
    disk = controller.namespace(1)
    disk.read(0, 1)
    length = 4 << 20
    tracemalloc.start()
    try:
        found: Any = disk.read(0, length // 512)
        assert tracemalloc.get_traced_memory()[1] < length * 1.2
        del found
        found = disk.pread(length - 1, 1)
        assert tracemalloc.get_traced_memory()[1] < length * 1.3
        del found
        tracemalloc.reset_peak()
        with pytest.raises(NvmeError, match="Read of 1073741824 blocks"):
            disk.read(0, 1 << 30)
        with pytest.raises(NvmeError, match="pread of 1073741824 bytes at offset 5"):
            disk.pread(1 << 30, 5)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


class SlowDisk:
    """A disk in memory: a write waits for `go_on`, and a number of flushes fail."""

    nsid, block_size, size = 1, 512, 8192

    def __init__(self) -> None:
        self.data = bytearray(self.size)
        self.calls: list[str] = []
        self.failing = 0
        self.writing, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def pread(self, n: int, offset: int) -> bytes:
        return bytes(self.data[offset : offset + n])

    def preadinto(self, buffer: Any, offset: int) -> int:
        memoryview(buffer)[:] = self.data[offset : offset + len(buffer)]
        return len(buffer)

    def pwrite(self, buffer: Any, offset: int) -> int:
        self.writing.set()
        self.go_on.wait()
        self.data[offset : offset + len(buffer)] = buffer
        self.calls.append("write")
        return len(buffer)

    def flush(self) -> None:
        self.calls.append("flush")
        if self.failing:
            self.failing -= 1
            raise OSError(errno.EIO, "a Flush failed")


def test_a_flush_that_failed_is_sent_again() -> None:
    """flush() and close() send a Flush until one has succeeded, and then none."""
    disk = SlowDisk()
    file = NamespaceFile(disk, "r+b")
    file.write(b"x" * 512)
    disk.failing = 2
    for _ in range(2):
        with pytest.raises(OSError, match="a Flush failed"):
            file.flush()
    file.close()
    assert disk.calls == ["write", "flush", "flush", "flush"]
    disk.failing = 1
    file = NamespaceFile(disk, "r+b")
    file.write(b"x")
    with pytest.raises(OSError, match="a Flush failed"):
        file.close()


def test_a_flush_beside_a_write() -> None:
    """A Flush that was sent before a write ended does not count for that write."""
    disk = SlowDisk()
    file = NamespaceFile(disk, "r+b")
    file.write(b"x" * 512)
    disk.writing.clear()
    disk.go_on.clear()
    writer = threading.Thread(target=file.write, args=(b"y" * 512,))
    writer.start()
    assert disk.writing.wait(60)
    file.flush()
    disk.go_on.set()
    writer.join()
    file.flush()
    file.flush()
    assert disk.calls == ["write", "flush", "write", "flush"]
    file.close()
