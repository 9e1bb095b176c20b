# SPDX-License-Identifier: BSD-3-Clause
"""NVMe commands through the kernel's devices (Linux include/uapi/linux/nvme_ioctl.h).

Each call blocks until the command has ended; other threads run meanwhile.
"""

from __future__ import annotations

import ctypes
import errno as errnos
import fcntl
import mmap
import os
import struct
from typing import TYPE_CHECKING

from nvmf.initiator.base.errors import ConnectionLost, NvmeError
from nvmf.initiator.kernel.errors import KernelError
from nvmf.spec.sqe import Sqe

if TYPE_CHECKING:
    from collections.abc import Iterator

_PASSTHRU = struct.Struct("<BBHIIIQQ9I")
"""struct nvme_passthru_cmd: opcode, flags, rsvd1, nsid, cdw2, cdw3, metadata, addr, metadata_len,
data_len, cdw10 to cdw15, timeout_ms, result."""
_RESULT = struct.Struct("<I")
_READ_WRITE = 3


def _iowr(number: int) -> int:
    return _READ_WRITE << 30 | _PASSTHRU.size + _RESULT.size << 16 | ord("N") << 8 | number


ADMIN, IO = _iowr(0x41), _iowr(0x43)


def submit(
    file: int,
    request: int,
    sqe: bytes,
    name: str,
    memory: mmap.mmap | None = None,
    length: int = 0,
    *,
    lba: int | None = None,
    blocks: int | None = None,
) -> int:
    """Run a command with length bytes of memory; return dword 0 of its completion.

    Raises NvmeError, KernelError or ConnectionLost.
    """
    entry = Sqe.decode(sqe)
    # While this is exported, until the command has ended, the memory cannot be closed.
    export = None if memory is None else ctypes.c_char.from_buffer(memory)
    address = 0 if export is None else ctypes.addressof(export)
    command = bytearray(
        _PASSTHRU.pack(
            entry.opcode, 0, 0, entry.nsid, entry.cdw2, entry.cdw3, 0, address, 0, length,
            entry.cdw10, entry.cdw11, entry.cdw12, entry.cdw13, entry.cdw14, entry.cdw15,
            0,  # the timeout: the kernel's own
        )
        + bytes(_RESULT.size)
    )  # fmt: skip
    about = entry.nsid if request == IO else None
    try:
        status = fcntl.ioctl(file, request, command)
    except OSError as error:
        raise _failed(error, name) from None
    finally:
        del export  # a traceback would keep it
    (result,) = _RESULT.unpack_from(command, _PASSTHRU.size)
    if status:
        raise NvmeError.of(
            name, status, dw0=result, io=request == IO, nsid=about, lba=lba, blocks=blocks
        )
    return int(result)


def _failed(error: OSError, name: str) -> Exception:
    number = error.errno or 0
    if number in (errnos.EACCES, errnos.EPERM):
        return KernelError(f"{name}: the kernel takes NVMe commands from root only: try sudo")
    if number in (errnos.ENODEV, errnos.ENXIO, errnos.EINTR, errnos.EWOULDBLOCK, errnos.ENOLINK):
        return ConnectionLost(f"{name}: the kernel cannot reach the controller: {error.strerror}")
    return KernelError(
        f"{name}: the kernel did not run it: {error.strerror}; see dmesg", errno=number
    )


class Device:
    """An open device node, for commands; close() it."""

    def __init__(self, path: str, flags: int = os.O_RDWR) -> None:
        try:
            self.file = os.open(path, flags | os.O_CLOEXEC)
        except PermissionError:
            raise KernelError(f"cannot open {path}: this requires root: try sudo") from None
        except OSError as error:
            raise KernelError(f"cannot open {path}: {error.strerror}", errno=error.errno) from None

    def admin(self, sqe: bytes, name: str, length: int = 0) -> tuple[bytes, int]:
        """Run an admin command; return length bytes, and dword 0 of its completion."""
        if not length:
            return b"", submit(self.file, ADMIN, sqe, name)
        with mmap.mmap(-1, length) as memory:
            result = submit(self.file, ADMIN, sqe, name, memory, length)
            return memory[:length], result

    def close(self) -> None:
        """Idempotent."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pieces(offset: int, length: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield (offset, length) of the parts of a transfer."""
    while length > 0:
        part = min(most, length)
        yield offset, part
        offset += part
        length -= part
