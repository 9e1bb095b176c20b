# SPDX-License-Identifier: BSD-3-Clause
"""The files of a guest that needs no file of the host after its boot: a target, and little else.

QEMU does not save a guest that has mounted a folder of the host.  So the programs that this one
runs, their libraries, Python's modules and the kernel's are all in its initramfs, which stays its
root.  Each has the path that it has on the host.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from lab import network
from lab.initramfs import PORT, Archive, with_dependencies
from lab.network import CannotRun
from lab.prepare import ROOT, Kernel

TARGET = ROOT / "tests" / "lab" / "loaded_target.py"
PYTHON = "/usr/bin/python3"
_AGENT = Path(__file__).with_name("agent.py")
_MODULES = (
    *("virtio_pci", "virtio_console", "virtio_net", "configfs"),
    *("nfit", "nd_pmem", "dax_pmem", "device_dax"),
    *("rdma_ucm", "ib_uverbs"),
)
_DEVICES = ("rdma_rxe", "siw")
"""Loaded when a test wants them: rxe takes the embedded device's UDP port."""
_CRC = "crc32_generic"
"""rxe loads it by the algorithm's name.  Later kernels have CRC-32 as a built-in function, and no
such module."""
_PROGRAMS = ("bash", "busybox", "ip", "modprobe", "ndctl", "rdma")
_SOURCES = tuple(ROOT / name for name in ("nvmeof", "target", "initiator", "config"))
_LIBRARY = Path(os.__file__).parent
_UNUSED = {"__pycache__", "test", "idlelib", "tkinter", "lib2to3", "ensurepip", "pydoc_data"}
_PROVIDERS = ("rxe", "siw")

_INIT = """\
#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C TERM=dumb
export PYTHONPATH={path}
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox --install -s 2> /dev/null
mkdir -p /dev/pts /dev/shm /run/lab /tmp /var/lib
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
ln -s /proc/self/fd /dev/fd
modprobe -a {modules}
ulimit -l unlimited
ulimit -n 65536
ip link set lo up
ip addr add {address}/24 dev eth0
ip link set eth0 mtu {mtu} up
for port in /sys/class/virtio-ports/*; do
    [ "$(cat "$port/name")" = {port} ] && name=${{port##*/}}
done
{python} -I {agent} "/dev/$name" < /dev/null > /dev/console 2>&1
poweroff -f
"""


def build(kernel: Kernel, to: Path) -> None:
    """Write the initramfs to a file."""
    archive = _Root()
    for folder in ("proc", "sys", "dev", "root", "etc"):
        archive.folder(folder)
    for name in ("bin", "sbin", "lib", "lib64"):
        archive.link(name, f"usr/{name}")
    archive.text("init", _init())
    lists = kernel.modules.glob("modules.*")
    crc = (_CRC,) if list(kernel.modules.rglob(f"{_CRC}.ko*")) else ()
    for path in [*lists, *with_dependencies(kernel, (*_MODULES, *_DEVICES, *crc))]:
        place = path.resolve().relative_to(kernel.modules.resolve())
        archive.place(f"usr/lib/modules/{kernel.release}/{place}", path)
    binaries = [_program(name) for name in _PROGRAMS]
    binaries.append(Path(PYTHON))
    wanted = [Path(path) for path in _of_target()] + [TARGET, _AGENT]
    wanted += [path for path in _LIBRARY.rglob("*.py") if not _UNUSED & set(path.parts)]
    wanted += (_LIBRARY / "lib-dynload").glob("*.so")
    for name in _PROVIDERS:
        wanted.append(Path(f"/etc/libibverbs.d/{name}.driver"))
        wanted += Path("/usr/lib").glob(f"*/libibverbs/lib{name}-rdmav*.so")
    wanted += [path for path in _libraries() if path.name in ("libibverbs.so.1", "librdmacm.so.1")]
    binaries += [path for path in wanted if ".so" in path.name]
    for path in [*binaries, *wanted, *_needed(binaries)]:
        archive.add(path)
    to.write_bytes(archive.done())


def _init() -> str:
    site = sorted({path for path in sys.path if path.endswith("site-packages")})
    return _INIT.format(
        path=":".join(map(str, [*_SOURCES, *site])),
        address=network.GUEST,
        mtu=network.MTU,
        port=PORT,
        modules=" ".join(_MODULES),
        python=PYTHON,
        agent=_AGENT,
    )


class _Root(Archive):
    """An archive with files of the host, once each, under their paths."""

    def __init__(self) -> None:
        super().__init__()
        self._there: set[Path] = set()

    def text(self, name: str, text: str) -> None:
        """Add a script."""
        self._parents(Path("/", name))
        self.file(name, text.encode(), 0o755)

    def add(self, path: Path) -> None:
        """Add a file, under its path without links of folders."""
        path = path.parent.resolve() / path.name
        self.place(str(path)[1:], path)

    def place(self, name: str, path: Path) -> None:
        """Add a file under a different path."""
        to = Path("/", name)
        if to not in self._there:
            self._there.add(to)
            self._parents(to)
            stat = path.stat()
            self.file(name, path.read_bytes(), stat.st_mode & 0o777, int(stat.st_mtime))

    def _parents(self, path: Path) -> None:
        for folder in reversed(path.parents[:-1]):
            if folder not in self._there:
                self._there.add(folder)
                self.folder(str(folder)[1:])


def _program(name: str) -> Path:
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if not found:
        raise CannotRun(f"there is no {name}: ./dev lab installs it.")
    return Path(found)


def _of_target() -> list[str]:
    """Return the files that a target uses, except programs."""
    done = subprocess.run(
        [sys.executable, str(TARGET), "--files"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CannotRun(f"cannot list the files of a target: {done.stderr}")
    listed: list[str] = json.loads(done.stdout)
    return listed


def _libraries() -> list[Path]:
    """Return the libraries that ld.so knows."""
    shown = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    return [Path(path) for path in re.findall(r"x86-64.*=> (\S+)", shown.stdout)]


def _needed(binaries: Iterable[Path]) -> list[Path]:
    """Return the libraries of programs and libraries."""
    shown = subprocess.run(
        ["/usr/bin/ldd", *map(str, binaries)], capture_output=True, text=True, check=False
    )
    return [Path(path) for path in re.findall(r"(?:=> |\t)(/\S+) \(0x", shown.stdout)]
