# SPDX-License-Identifier: BSD-3-Clause
"""A fake kernel's initiator, made of files: a sysfs tree, device nodes, /dev/nvme-fabrics and a
log.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from pathlib import Path

from nvmf.initiator.kernel.klog import KernelLog
from nvmf.initiator.kernel.system import FabricsFile, System

NQN = "nqn.2014-08.org.example:disk"
HOSTNQN = "nqn.2014-08.org.nvmexpress:uuid:7d9c5c26-0000-4000-8000-0000000000aa"
HOSTID = "7d9c5c26-0000-4000-8000-0000000000aa"
OPTIONS = (
    "instance=-1,cntlid=-1,transport=%s,traddr=%s,trsvcid=%s,nqn=%s,queue_size=%d,nr_io_queues=%d,"
    "reconnect_delay=%d,ctrl_loss_tmo=%d,keep_alive_tmo=%d,hostnqn=%s,host_traddr=%s,hostid=%s,"
    "duplicate_connect,disable_sqflow,nr_write_queues=%d,nr_poll_queues=%d,tos=%d,"
    "fast_io_fail_tmo=%d,discovery\n"
)
"""The options that a kernel without authentication reports."""


class FakeLog(KernelLog):
    """The lines set by a test, as since() would return them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def mark(self) -> None:
        pass

    def since(self, *, passing_over: Collection[str] = ()) -> list[str]:
        return self.lines


class FakeKernel:
    """A machine whose kernel is made of files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.written: list[str] = []
        self.known: str | None = OPTIONS
        """The options that the kernel reports; None if it does not report them."""
        self.fails: int | None = None
        """The errno of a failed write."""
        self.opening: int | None = None
        """The errno of opening the device."""
        self.log = FakeLog()
        self.sysfs, self.dev, self.etc = folder / "sys", folder / "dev", folder / "etc"
        for path in (self.sysfs / "class" / "nvme", self.dev, self.etc):
            path.mkdir(parents=True)
        self.system = System(
            sysfs=self.sysfs,
            dev=self.dev,
            etc=self.etc,
            modprobe="/nonexistent/modprobe",
            open_fabrics=lambda _: _FakeFile(self),
            log=self.log,
            euid=0,
        )

    def controller(self, number: int = 0, *, subsystem: int = 0, **attributes: object) -> str:
        """Create a controller; return its name."""
        name = f"nvme{number}"
        shown = {
            "transport": "rdma",
            "address": "traddr=192.0.2.1,trsvcid=4420",
            "state": "live",
            "cntlid": number + 1,
            "subsysnqn": NQN,
            "hostnqn": HOSTNQN,
            "hostid": HOSTID,
            "model": "nvmeof-rdma",
            "serial": "S1",
            "firmware_rev": "1",
            "queue_count": 3,
            "sqsize": 127,
            "kato": 5,
            **attributes,
        }
        folder = self.sysfs / "class" / "nvme" / name
        self._write(folder, shown | {"delete_controller": "", "reset_controller": ""})
        above = self.sysfs / "class" / "nvme-subsystem" / f"nvme-subsys{subsystem}"
        wanted = ("subsysnqn", "model", "serial", "firmware_rev")
        self._write(above, {key: shown[key] for key in wanted} | {"iopolicy": "numa"})
        (above / name).symlink_to(folder)
        (self.dev / name).touch()
        return name

    def namespace(
        self, nsid: int, *, controller: int = 0, head: str | None = None, sectors: int = 16384
    ) -> str:
        """Create a namespace of a controller; head is its block device if it is multipath."""
        path = f"nvme{controller}n{nsid}" if head is None else head.replace("n", f"c{controller}n")
        if head is not None:
            subsystem, instance = head.removeprefix("nvme").split("n")
            path = f"nvme{subsystem}c{controller}n{instance}"
        block = head or path
        self._write(self.sysfs / "class" / "nvme" / f"nvme{controller}" / path, {"nsid": nsid})
        folder = self.sysfs / "class" / "block" / block
        self._write(folder, {"size": sectors, "nsid": nsid, "uuid": HOSTID, "nuse": 100})
        self._write(folder / "queue", {"logical_block_size": 512})
        (self.dev / block).touch()
        return block

    @staticmethod
    def _write(folder: Path, attributes: dict[str, object]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in attributes.items():
            (folder / name).write_text(f"{value}\n")


class _FakeFile(FabricsFile):
    """An open device of a fake kernel."""

    def __init__(self, kernel: FakeKernel) -> None:
        if kernel.opening is not None:
            raise OSError(kernel.opening, "it cannot be opened")
        self._kernel = kernel
        self._made = False

    def read(self) -> str:
        if self._made:
            return "instance=0,cntlid=1\n"
        if self._kernel.known is None:
            raise OSError(errno.EINVAL, "there is no controller")
        return self._kernel.known

    def write(self, line: bytes) -> None:
        if self._kernel.fails is not None:
            raise OSError(self._kernel.fails, "it cannot be written")
        self._kernel.written.append(line.decode())
        self._made = True

    def __exit__(self, *_: object) -> None:
        pass
