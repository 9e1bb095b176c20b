# SPDX-License-Identifier: BSD-3-Clause
"""The newest kernel that Debian builds for its stable release: trixie's backports.

Its packages may need a different Debian than this machine's: siw is built with the compiler and
the kernel's tools of that one, unpacked into a folder and run in it (chroot), with nothing
installed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lab.packages import Apt, run, say

SUITES = ("trixie", "trixie-updates", "trixie-backports")
TOOLS = (
    *("base-files", "bash", "coreutils", "dash", "findutils", "gcc-14", "grep", "gzip", "make"),
    *("mawk", "sed"),
)
"""Packages required to build a module, in addition to the kernel's own."""

_CHROOT = """
root=$1
shift
mount -t proc proc "$root/proc"
exec env -i PATH=/usr/sbin:/usr/bin chroot "$root" "$@"
"""


def unpack(apt: Apt, release: str, work: Path, to: Path) -> None:
    """Unpack the kernel; its image is a separate package, unlike in older ones."""
    for package in apt.depends(f"linux-image-{release}", r"linux-(?:binary|modules|base)-[^ ,|]+"):
        if package.endswith(release):
            file = apt.download(package, work)
            run("dpkg-deb", "-x", str(file), str(to))
            file.unlink()
    (to / "lib").mkdir()
    shutil.move(to / "usr/lib/modules", to / "lib/modules")
    (to / "boot").mkdir()
    modules = to / "lib/modules" / release
    shutil.move(modules / "vmlinuz", to / "boot" / f"vmlinuz-{release}")
    shutil.move(modules / "config", to / "boot" / f"config-{release}")
    (modules / "System.map").unlink(missing_ok=True)


def build_siw(apt: Apt, release: str, siw: Path, work: Path) -> None:
    """Build the module in that folder, in a separate Debian."""
    root = work / "root"
    files = apt.with_all_dependencies(*TOOLS, f"linux-headers-{release}")
    # Its symbolic links for /bin and /lib.
    files.sort(key=lambda file: not file.name.startswith("base-files_"))
    for file in files:
        run("dpkg-deb", "-x", str(file), str(root))
        file.unlink()
    (root / "usr/bin/awk").symlink_to("mawk")  # the installation normally does this
    shutil.move(siw, root / "siw")
    say("  building siw")
    # Root needs no user namespace, and in a chroot none can be created.
    mine = () if os.getuid() == 0 else ("--map-root-user",)
    run(
        *("unshare", *mine, "--mount", "--pid", "--fork", "sh", "-euc", _CHROOT, "sh", str(root)),
        *("make", "-s", "-C", f"/usr/src/linux-headers-{release}", "M=/siw"),
        *(f"-j{os.cpu_count()}", "CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"),
    )
    shutil.move(root / "siw", siw)
