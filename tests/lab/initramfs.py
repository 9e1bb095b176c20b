# SPDX-License-Identifier: BSD-3-Clause
"""The guest's first files, which mount the host's root and continue there.

The guest's root is the host's ``/``, read-only over 9p, under an overlay in memory: everything
that is installed or built on the host is there, and changes inside are temporary.
"""

from __future__ import annotations

import lzma
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab import network
from lab.network import CannotRun
from lab.prepare import Kernel

BOOT_MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "virtio_net")
PORT = "nvmf.lab"

# The initramfs: load the modules, mount the root, switch to it.
_FIRST = """\
#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
$B mount -t devtmpfs dev /dev
for module in /modules/*; do $B insmod $module; done
$B mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 root /ro
$B mount -t tmpfs -o size=50% rw /rw
$B mkdir /rw/upper /rw/work
$B mount -t overlay -o lowerdir=/ro,upperdir=/rw/upper,workdir=/rw/work overlay /new
for folder in dev proc sys; do $B mount --move /$folder /new/$folder; done
$B mount -t tmpfs run /new/run
$B mkdir /new/run/lab
$B cp /second /agent.py /new/run/lab
exec $B switch_root /new /bin/sh /run/lab/second
"""

# On the root: the mounts that programs expect, the network, the agent.
_SECOND = """\
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TERM=dumb
mkdir -p /dev/pts /dev/shm /lib/modules/{release}
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount --bind {modules} /lib/modules/{release}
modprobe configfs
mount -t configfs configfs /sys/kernel/config
mount -t debugfs debugfs /sys/kernel/debug
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
hostname nvmf-lab
ulimit -l unlimited
ulimit -n 65536
echo 8 > /proc/sys/kernel/printk
ip link set lo up
if [ -e /sys/class/net/eth0 ]; then
    ip addr add {address}/24 dev eth0
    ip addr add {address6}/64 dev eth0 nodad
    ip link set eth0 mtu {mtu} up
fi
for port in /sys/class/virtio-ports/*; do
    [ "$(cat "$port/name")" = {port} ] && name=${{port##*/}}
done
"""

# The agent is the whole system, ...
_ALONE = """\
/usr/bin/python3 -I /run/lab/agent.py "/dev/$name" < /dev/null > /dev/console 2>&1
busybox poweroff -f
"""

# ... or a service of a systemd that starts only its own basic units.  The host's enabled units
# are for the host; hardware detection would load all modules, and a cleanup would remove all
# files of the host's /tmp one by one.
_SYSTEMD = """\
rm -rf /.dockerenv /etc/systemd/system /etc/fstab /etc/systemd/network
mkdir -p /run/systemd/system /etc/systemd/system /var/log/journal
: > /etc/fstab
for unit in systemd-udev-trigger systemd-modules-load systemd-hwdb-update ldconfig \\
    systemd-tmpfiles-setup systemd-tmpfiles-setup-dev systemd-update-utmp systemd-journal-flush \\
    rdma-load-modules@ rdma-ndd systemd-binfmt systemd-random-seed; do
    ln -s /dev/null /run/systemd/system/$unit.service
done
cat > /run/systemd/system/lab-agent.service <<END
[Unit]
DefaultDependencies=no
After=systemd-journald.socket
[Service]
ExecStart=/bin/sh -c '/usr/bin/python3 -I /run/lab/agent.py /dev/$name; exec busybox poweroff -f'
StandardOutput=tty
TTYPath=/dev/console
LimitMEMLOCK=infinity
LimitNOFILE=65536
Environment=PATH=$PATH HOME=/root LC_ALL=C.UTF-8 TERM=dumb PYTHONDONTWRITEBYTECODE=1
END
cat > /run/systemd/system/lab.target <<END
[Unit]
DefaultDependencies=no
Wants=lab-agent.service systemd-udevd.service systemd-journald.service
AllowIsolate=yes
END
exec /lib/systemd/systemd --unit=lab.target --log-target=kmsg --show-status=0 < /dev/null
"""


def build(kernel: Kernel, to: Path, *, systemd: bool = False) -> None:
    """Write the initramfs of a guest to a file; with systemd, that is its first process."""
    archive = Archive()
    for folder in ("bin", "modules", "proc", "sys", "dev", "ro", "rw", "new"):
        archive.folder(folder)
    busybox = shutil.which("busybox", path="/usr/bin:/bin")
    if not busybox:
        raise CannotRun("there is no busybox: ./dev lab installs busybox-static.")
    archive.file("bin/busybox", Path(busybox).read_bytes(), 0o755)
    archive.file("init", _FIRST.encode(), 0o755)
    for number, module in enumerate(with_dependencies(kernel, BOOT_MODULES)):
        data = module.read_bytes()
        name = f"modules/{number:02}-{module.name.removesuffix('.xz')}"
        archive.file(name, lzma.decompress(data) if module.suffix == ".xz" else data)
    second = (_SECOND + (_SYSTEMD if systemd else _ALONE)).format(
        release=kernel.release,
        modules=_quoted(kernel.modules),
        address=network.GUEST,
        address6=network.GUEST6,
        mtu=network.MTU,
        port=PORT,
    )
    archive.file("second", second.encode())
    archive.file("agent.py", Path(__file__).with_name("agent.py").read_bytes())
    to.write_bytes(archive.done())


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def with_dependencies(kernel: Kernel, names: Sequence[str]) -> list[Path]:
    """Return the files of modules, each after its dependencies."""
    files: dict[Path, None] = {}
    needed = _listed(kernel)
    for module in names:
        shown = subprocess.run(
            ["/sbin/modprobe", "-d", kernel.folder, "-S", kernel.release, "--show-depends", module],
            capture_output=True,
            text=True,
            check=True,
        )
        for line in shown.stdout.splitlines():
            if line.startswith("insmod "):
                file = Path(line.removeprefix("insmod ").strip())
                # Those that the host's kernel has built in are not shown.
                files.update(dict.fromkeys([*needed.get(file.name, ()), file]))
    return list(files)


def _listed(kernel: Kernel) -> dict[str, list[Path]]:
    """Return what depmod says that each module needs, in the order of loading."""
    found = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        name, _, needed = line.partition(":")
        found[Path(name).name] = [kernel.modules / one for one in reversed(needed.split())]
    return found


class Archive:
    """A cpio archive in the kernel's format ("newc")."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._inode = 0

    def folder(self, name: str) -> None:
        self._entry(name, 0o040755, b"")

    def file(self, name: str, data: bytes, mode: int = 0o644, time: int = 0) -> None:
        self._entry(name, 0o100000 | mode, data, time)

    def link(self, name: str, to: str) -> None:
        self._entry(name, 0o120777, to.encode())

    def done(self) -> bytes:
        self._entry("TRAILER!!!", 0, b"")
        return bytes(self._data)

    def _entry(self, name: str, mode: int, data: bytes, time: int = 0) -> None:
        self._inode += 1
        text = name.encode() + b"\0"
        fields = [self._inode, mode, 0, 0, 1, time, len(data), 0, 0, 0, 0, len(text), 0]
        self._data += b"070701" + b"".join(b"%08X" % field for field in fields) + text
        self._pad()
        self._data += data
        self._pad()

    def _pad(self) -> None:
        self._data += bytes(-len(self._data) % 4)
