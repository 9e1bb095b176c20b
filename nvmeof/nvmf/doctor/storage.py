# SPDX-License-Identifier: BSD-3-Clause
"""The storage of namespaces: files and devices."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from nvmf.config.models import BdevConfig, Config, NamespaceConfig
from nvmf.config.units import format_size
from nvmf.doctor.machine import Finding, Level, Machine

_UNUSABLE = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
"""Kinds of files that no store uses; to open a pipe may take forever."""


def stores(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check that each file or device exists, can be opened, is not in use, and has space."""
    for subsystem in config.subsystems if config else ():
        for nsid, namespace in subsystem.numbered():
            where = f"namespace {nsid} of {subsystem.nqn}"
            if namespace.path is not None:
                yield from _store(machine, where, namespace, namespace.path)
            for leg in namespace.legs:
                if leg.path is not None:
                    yield from _store(machine, f"leg of {where}", namespace, leg.path)
    for bdev in config.bdevs if config else ():
        if bdev.path is not None:
            yield from _store(machine, f"bdev {bdev.name}", bdev, bdev.path)


def _store(
    machine: Machine, where: str, namespace: NamespaceConfig | BdevConfig, path: Path
) -> Iterator[Finding]:
    try:
        found = path.stat()
    except OSError as error:
        text = f"{where}: {path}: {error.strerror}"
        if isinstance(namespace, NamespaceConfig) and namespace.hotplug:
            yield Finding("storage", Level.NOTE, f"{text}; the target waits for it (hotplug)")
            return
        remedy = "Correct the path."
        if error.errno == errno.ENOENT:
            remedy = _absent(path, None if namespace.store == "mirror" else namespace.size)
        yield Finding("storage", Level.PROBLEM, text, remedy)
        return
    kind = _UNUSABLE.get(stat.S_IFMT(found.st_mode))
    if namespace.store == "file" and stat.S_ISCHR(found.st_mode):
        kind = "a character device"
    if kind is not None:
        text = f"{where}: {path} is {kind}"
        yield Finding("storage", Level.PROBLEM, text, "Correct the path.")
        return
    try:
        # O_EXCL on a block device fails if it is mounted or part of another device.
        flags = os.O_RDONLY if namespace.read_only else os.O_RDWR
        block = stat.S_ISBLK(found.st_mode)
        os.close(os.open(path, flags | (os.O_EXCL if block else 0) | os.O_CLOEXEC))
    except OSError as error:
        yield _not_opened(where, path, error)
        return
    if block:
        yield from _block_device(machine, where, namespace, path, found)
    else:
        yield from _regular(where, namespace, path, found)


def _absent(path: Path, size: int | None) -> str:
    """Return the remedy for a path that does not exist: only a regular file can be created."""
    if path.is_relative_to("/dev") and not path.is_relative_to("/dev/shm"):
        return "Connect the device, or correct the path: lsblk lists block devices."
    return f"truncate -s {size or '10G'} {path}"


def _not_opened(where: str, path: Path, error: OSError) -> Finding:
    if error.errno == errno.EBUSY:
        remedy = f"See what uses it: lsblk {path}. Two writers destroy a file system."
        return Finding("storage", Level.PROBLEM, f"{where}: {path} is in use", remedy)
    text = f"{where}: {path} cannot be opened: {error.strerror}"
    if error.errno in (errno.EROFS, errno.EPERM, errno.EACCES):
        remedy = "Give the target's user write permission, or set read_only = true."
        return Finding("storage", Level.PROBLEM, text, remedy)
    return Finding("storage", Level.PROBLEM, text, "See the kernel log: dmesg.")


def _block_device(
    machine: Machine,
    where: str,
    namespace: NamespaceConfig | BdevConfig,
    path: Path,
    found: os.stat_result,
) -> Iterator[Finding]:
    queue = f"/sys/dev/block/{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}/queue"
    logical = int(machine.read(f"{queue}/logical_block_size") or 512)
    physical = int(machine.read(f"{queue}/physical_block_size") or 512)
    if namespace.block_size < logical:
        yield Finding(
            "storage",
            Level.PROBLEM,
            f"{where}: blocks of {namespace.block_size} bytes, but {path} has blocks of {logical}",
            f"block_size = {logical}",
        )
    elif namespace.block_size < physical:
        yield Finding(
            "storage",
            Level.NOTE,
            f"{where}: {path} has physical blocks of {physical} bytes, the namespace blocks of"
            f" {namespace.block_size}",
            f"block_size = {physical} avoids read-modify-write cycles.",
        )
    else:
        yield Finding("storage", Level.OK, f"{where}: {path} can be used")


def _regular(
    where: str, namespace: NamespaceConfig | BdevConfig, path: Path, found: os.stat_result
) -> Iterator[Finding]:
    room = os.statvfs(path)
    free = room.f_bavail * room.f_frsize
    missing = max(namespace.size or 0, found.st_size) - found.st_blocks * 512
    if missing > free and not namespace.read_only:
        yield Finding(
            "storage",
            Level.WARNING,
            f"{where}: {path} may grow by {format_size(missing)}, but its file system has only"
            f" {free / (1 << 30):.1f} GiB left: writes would fail with Capacity Exceeded",
            "Free space, or reduce size.",
        )
    else:
        yield Finding("storage", Level.OK, f"{where}: {path} can be used")
