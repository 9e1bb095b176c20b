# SPDX-License-Identifier: BSD-3-Clause
"""Fetch an unmodified Debian kernel, unpack it beside the tree, and build siw for it.

Nothing is installed, and no work is repeated: an existing kernel is used, without access to the
network.  Debian builds every other RDMA module that the lab needs, but not siw.

Run as a program, it prepares the given series: ``python -m lab.prepare 6.12 6.1 newest``, and with
``nvme-cli`` the tests of nvme-cli.  The newest kernel is the one that is newest when it is fetched;
if it or these tests cannot be obtained, the reason is stored for the tests, and this is not an
error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import newest, nvme_cli_suite
from lab.packages import Apt, CannotPrepare, codename, output, run, say

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "lab"
SERIES = ("6.12", "6.1")
"""The kernels of the matrix; a plain run uses the first one."""
NEWEST = "newest"
"""The name of the kernel that is newer than these; `series_of` returns its series."""

_SUITES = ("bookworm", "bookworm-updates", "bookworm-backports")
FORMAT = 1
"""Incremented when the result changes, so that older results are built again."""


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel."""

    series: str
    release: str
    """The release, as uname reports it."""
    package_version: str
    format: int = FORMAT

    @property
    def folder(self) -> Path:
        return CACHE / self.series

    @property
    def image(self) -> Path:
        return self.folder / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        return self.folder / "lib" / "modules" / self.release


def prepared(series: str) -> Kernel | None:
    """Return the kernel of the series, if it is already there."""
    try:
        kernel = Kernel(**json.loads((CACHE / series / "kernel.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    whole = kernel.format == FORMAT and kernel.image.exists()
    return kernel if whole and (kernel.modules / "extra" / "siw.ko").exists() else None


def series_of(name: str) -> str:
    """Return the series of a kernel's name: 7.3 for the newest, if there is one already."""
    if name != NEWEST:
        return name
    try:
        return (CACHE / NEWEST).read_text().strip()
    except OSError:
        return NEWEST


def excuse() -> str:
    """Return the reason why there is no newest kernel, if known."""
    try:
        return (CACHE / "no-newest").read_text().strip()
    except OSError:
        return f"it was not prepared: ./dev lab --kernel {NEWEST} does that."


def prepare(series: str) -> Kernel:
    """Return the kernel of the series; fetch and build it if it is missing."""
    if kernel := prepared(series_of(series)):
        return kernel
    if output("dpkg", "--print-architecture") != "amd64":
        raise CannotPrepare("the lab's kernel is for amd64 only, and this machine is another.")
    say(f"Kernel {series} for the lab, into {CACHE}:")
    if series == NEWEST:
        apt = Apt(CACHE / "apt-newest", newest.SUITES)
        apt.update()
        release = apt.newest_kernel()
        series = ".".join(release.split(".")[:2])
        if series in SERIES:
            raise CannotPrepare(f"{apt.mirror} has no kernel newer than {series}.")
    else:
        suites = dict.fromkeys(filter(None, (codename(), *_SUITES)))
        apt = Apt(CACHE / "apt", tuple(suites))
        apt.update()
        release = apt.newest_kernel(series)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="nvmf-lab-") as work:
        kernel = _make(apt, series, release, Path(work))
    if apt.suites == newest.SUITES:
        (CACHE / NEWEST).write_text(series + "\n")
    say(f"  {kernel.release} ({kernel.package_version}) is ready.")
    return kernel


def _make(apt: Apt, series: str, release: str, work: Path) -> Kernel:
    """Unpack and build in a separate folder (make does not support blanks in paths), then move
    it.
    """
    unpacked, siw = work / "kernel", work / "siw"
    image = apt.download(f"linux-image-{release}", work)
    version = output("dpkg-deb", "-f", str(image), "Version")
    split = apt.suites == newest.SUITES
    if split:
        newest.unpack(apt, release, work, unpacked)
    else:
        _unpack(image, unpacked)
    source = apt.download(f"linux-source-{series}", work)
    _unpack_siw(source, series, siw)
    if split:
        newest.build_siw(apt, release, siw, work)
    else:
        _fetch_and_build_siw(apt, release, siw, work)
    kernel = Kernel(series, release, version)
    extra = unpacked / "lib" / "modules" / release / "extra"
    extra.mkdir()
    run("strip", "-g", "-o", str(extra / "siw.ko"), str(siw / "siw.ko"))
    run("depmod", "-b", str(unpacked), release)
    for unused in ("usr/share", f"boot/System.map-{release}"):
        path = unpacked / unused
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    shutil.rmtree(kernel.folder, ignore_errors=True)
    shutil.move(unpacked, kernel.folder)
    (kernel.folder / "kernel.json").write_text(json.dumps(asdict(kernel)) + "\n")
    return kernel


def _unpack(image: Path, to: Path) -> None:
    say("  unpacking the image")
    run("dpkg-deb", "-x", str(image), str(to))
    if (to / "usr/lib/modules").exists():  # later kernels have no separate /lib
        shutil.move(to / "usr/lib/modules", to / "lib/modules")


def _unpack_siw(package: Path, series: str, to: Path) -> None:
    """Extract only siw, directly from the package: a tar.xz within a tar."""
    to.mkdir()
    inner = f"./usr/src/linux-source-{series}.tar.xz"
    wanted = f"linux-source-{series}/drivers/infiniband/sw/siw"
    run(
        *("bash", "-o", "pipefail", "-c"),
        'dpkg-deb --fsys-tarfile "$1" | tar -xO "$2" | tar -xJ -C "$3" --strip-components=5 "$4"',
        *("bash", str(package), inner, str(to), wanted),
    )
    package.unlink()


def _fetch_and_build_siw(apt: Apt, release: str, siw: Path, work: Path) -> None:
    headers = work / "headers"
    for package in [f"linux-headers-{release}", *apt.build_dependencies(release)]:
        file = apt.download(package, work)
        run("dpkg-deb", "-x", str(file), str(headers))
        file.unlink()
    say("  building siw")
    _build_siw(headers / "usr" / "src", release, siw)


def _build_siw(source: Path, release: str, siw: Path) -> None:
    """Build the module outside of the kernel's tree, with the compiler of this machine."""
    tree = source / f"linux-headers-{release}"
    for name in ("Makefile", ".kernelvariables"):  # they contain the path of an installation
        file = tree / name
        if file.exists():
            file.write_text(re.sub(r"(?<![\w.])/usr/src", str(source), file.read_text()))
    for link in [path for path in source.rglob("*") if path.is_symlink()]:
        target = os.readlink(link)
        if target.startswith("/usr/"):
            link.unlink()
            link.symlink_to(source.parents[1] / target[1:])
    # Without BTF of modules: it requires pahole, and is not used here.
    options = ("CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "CC=gcc")
    run("make", "-s", "-C", str(tree), f"M={siw}", f"-j{os.cpu_count()}", *options, "modules")


def main(arguments: Sequence[str]) -> int:
    for series in arguments or SERIES[:1]:
        if series == nvme_cli_suite.PACKAGE:
            nvme_cli_suite.prepare(CACHE)
            continue
        try:
            prepare(series)
        except (CannotPrepare, OSError) as error:
            if series == NEWEST:
                CACHE.mkdir(parents=True, exist_ok=True)
                (CACHE / "no-newest").write_text(f"{error}\n")
                say(f"The newest kernel could not be prepared, and its tests are skipped: {error}")
                continue
            print(f"lab: kernel {series} could not be prepared: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
