# SPDX-License-Identifier: BSD-3-Clause
"""Paths of the kernel's files, which tests replace."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from nvmf.initiator.kernel.klog import KernelLog

_MOST = 4096
"""Maximum bytes of an answer of the device."""


class FabricsFile:
    """An open /dev/nvme-fabrics, for one write and one read; it does not seek.

    The errors are those of the system calls.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def read(self) -> str:
        """Return, before a write, the supported options, and after a write the new controller."""
        return os.read(self._file, _MOST).decode(errors="replace")

    def write(self, line: bytes) -> None:
        """Connect; blocks until the connection is made or has failed."""
        os.write(self._file, line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


@dataclass(frozen=True, slots=True)
class System:
    """Roots of the files that this package reads and writes."""

    sysfs: Path = Path("/sys")
    dev: Path = Path("/dev")
    etc: Path = Path("/etc/nvme")
    modprobe: str = "modprobe"
    open_fabrics: Callable[[Path], FabricsFile] = FabricsFile
    log: KernelLog = field(default_factory=KernelLog)
    euid: int = field(default_factory=os.geteuid)

    @property
    def fabrics(self) -> Path:
        """The device that creates controllers."""
        return self.dev / "nvme-fabrics"

    def controllers(self) -> frozenset[str]:
        """Return the names of the existing NVMe controllers."""
        return frozenset(names(self.sysfs / "class" / "nvme"))


def names(folder: Path) -> list[str]:
    """Return the sorted names in a folder; an empty list if it does not exist."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
