# SPDX-License-Identifier: BSD-3-Clause
"""Checks of a block device in the guest, used by every row of the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.cells import QUICKLY
from lab.guest import Guest
from lab.kernel_host import BlockDevice

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True)
class Load:
    """One fio job: written in random order, then read back and verified."""

    block: str
    """A size, or a range of them."""
    depth: int
    jobs: int = 1
    size: int = 4 * MIB
    """Bytes that each job writes."""

    def __str__(self) -> str:
        return f"{self.block} qd{self.depth} x{self.jobs}"

    def section(self, path: str) -> str:
        block = f"bsrange={self.block}" if "-" in self.block else f"bs={self.block}"
        return (
            f"[{self}]\nstonewall\nfilename={path}\n{block}\niodepth={self.depth}\n"
            f"numjobs={self.jobs}\nsize={self.size}\noffset_increment={self.size}\n"
        )


# 4 KiB to 1 MiB, and special cases: one block, and mixed sizes.
LOADS = (
    Load("4k", 1, size=512 * KIB),
    Load("4k", 32, 2, size=2 * MIB),
    Load("4k", 128, 4, size=MIB),
    Load("16k", 16, 2, size=2 * MIB),
    Load("64k", 8, 4, size=2 * MIB),
    Load("128k", 32, 2),
    Load("1m", 4, 2),
    Load("4k-1m", 16, 2),
)
BRIEF = (
    Load("4k", 1, size=128 * KIB),
    Load("4k", 128, 4, size=512 * KIB),
    Load("64k", 8, 2, size=MIB),
    Load("1m", 4, 2, size=2 * MIB),
    Load("4k-1m", 16, 2, size=2 * MIB),
)
"""The same sizes with less data, for namespaces and kernels other than the first."""
SMALL = (Load("512", 16, size=64 * KIB), Load("512-8k", 32, size=512 * KIB))
"""Loads for devices with blocks of 512 bytes."""
QUICK = (Load("4k", 32, 2, size=512 * KIB), Load("4k-1m", 16, size=2 * MIB))
QUICK_SMALL = (Load("512-8k", 32, size=256 * KIB), Load("4k-1m", 16, size=MIB))
"""Loads of ``./dev test``, which shows that a cell works and leaves the rest to the whole lab."""


def loads(block_size: int, *, thorough: bool) -> tuple[Load, ...]:
    """Return the loads for a namespace with blocks of this size."""
    if QUICKLY:
        return QUICK_SMALL if block_size == 512 else QUICK
    return (SMALL if block_size == 512 else ()) + (LOADS if thorough else BRIEF)


_GLOBAL = """\
[global]
ioengine=libaio
direct=1
thread
randrepeat=0
group_reporting
"""
_VERIFY = """\
rw=randwrite
verify=crc32c
verify_fatal=1
verify_dump=0
verify_state_save=0
"""


def fio_verify(guest: Guest, device: BlockDevice, loads: Sequence[Load] = LOADS) -> None:
    """Write and verify, with the kernel's asynchronous I/O and without its page cache."""
    jobs = _GLOBAL + _VERIFY + "".join(load.section(device.path) for load in loads)
    # --output-format=terse would fill the log; normal prints the latencies of every job.
    guest.run(["fio", "--output-format=normal", "-"], stdin=jobs, timeout=480, quiet=True)


def fio_mixed(guest: Guest, device: BlockDevice, seconds: int = 3) -> None:
    """Run reads, writes, flushes and trims of mixed sizes at the same time."""
    common = f"filename={device.path}\ntime_based\nruntime={seconds}\n"
    jobs = _GLOBAL + (
        f"[mixed]\n{common}rw=randrw\nbsrange=4k-256k\niodepth=16\nnumjobs=2\nfsync=16\n"
        f"[trims]\n{common}rw=randtrim\nbs=64k\niodepth=4\n"
    )
    guest.run(["fio", "-"], stdin=jobs, timeout=240, quiet=True)


def pattern(guest: Guest, device: BlockDevice, byte: int, offset: int, length: int) -> None:
    """Fill a part of the device with one byte, and wait until it is durable."""
    guest.run(
        f"head -c {length} /dev/zero | tr '\\0' '\\{byte:03o}' |"
        f" dd of={device.path} bs=64k seek={offset} oflag=seek_bytes,direct conv=fsync"
        " iflag=fullblock status=none"
    )


def expect(guest: Guest, device: BlockDevice, byte: int, offset: int, length: int) -> None:
    """Check that a part of the device contains only this byte."""
    guest.run(
        f"cmp <(head -c {length} /dev/zero | tr '\\0' '\\{byte:03o}')"
        f" <(dd if={device.path} bs=64k skip={offset} count={length}"
        " iflag=skip_bytes,count_bytes,direct status=none)"
    )


def zeroing(guest: Guest, device: BlockDevice) -> bool:
    """Write Zeroes and Deallocate change exactly the blocks that they name.

    Returns whether DLFEAT says that deallocated blocks read as zeroes; if so, they must.
    """
    block, path, nsid = device.block_size, device.path, str(device.nsid)
    start, length, middle = 8 * MIB, MIB, 8 * MIB + MIB // 2
    pattern(guest, device, 0xA5, start, length)
    first, count = (start + 64 * KIB) // block, 128 * KIB // block
    # The count of the command is 0's based.
    guest.run(["nvme", "write-zeroes", path, "-n", nsid, "-s", str(first), "-c", str(count - 1)])
    expect(guest, device, 0xA5, start, 64 * KIB)
    expect(guest, device, 0, start + 64 * KIB, 128 * KIB)
    expect(guest, device, 0xA5, start + 192 * KIB, length - 192 * KIB)
    guest.run(["blkdiscard", "-z", "-o", str(start), "-l", str(middle - start), path])
    expect(guest, device, 0, start, middle - start)
    expect(guest, device, 0xA5, middle, start + length - middle)
    guest.run(["nvme", "dsm", path, "-n", nsid, "-d", "-s", f"{start // block},{middle // block}",
               "-b", f"{count},{count}"])  # fmt: skip
    expect(guest, device, 0xA5, middle + 128 * KIB, start + length - middle - 128 * KIB)
    identify = guest.run(["nvme", "id-ns", path, "-o", "json"]).json()
    zeroes = bool(identify["dlfeat"] & 7 == 1)
    if zeroes:
        expect(guest, device, 0, middle, 128 * KIB)
    guest.run(["blkdiscard", "-o", str(start), "-l", str(length), path])
    if zeroes:
        expect(guest, device, 0, start, length)
    return zeroes


def flush(guest: Guest, device: BlockDevice) -> None:
    """Check that Flush succeeds, with or without a volatile cache."""
    guest.run(["nvme", "flush", device.path, "-n", str(device.nsid)])
    guest.run(["blockdev", "--flushbufs", device.path])
