# SPDX-License-Identifier: BSD-3-Clause
"""Fetch an unmodified Debian kernel, unpack it beside the tree, and build siw for it.

Nothing is installed, and nothing is done a second time: a kernel that is there is used, without
asking the network.  Debian builds every other RDMA module that the lab needs, but not siw.

Run as a program it prepares the series it is given: ``prepare.py 6.12 6.1``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "lab"
SERIES = ("6.12", "6.1")
"""The kernels of the matrix; the first one is what a plain run uses."""

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FORMAT = 1
"""Goes up when what is made changes, so that older ones are made anew."""


class CannotPrepare(Exception):
    """The kernel could not be had: what was tried, what came back, and what to do."""


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel."""

    series: str
    release: str
    """What uname says."""
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
    """The kernel of the series, where it is there already."""
    try:
        kernel = Kernel(**json.loads((CACHE / series / "kernel.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    whole = kernel.format == FORMAT and kernel.image.exists()
    return kernel if whole and (kernel.modules / "extra" / "siw.ko").exists() else None


def prepare(series: str) -> Kernel:
    """The kernel of the series; fetched and built where it is not there."""
    if kernel := prepared(series):
        return kernel
    if _output("dpkg", "--print-architecture") != "amd64":
        raise CannotPrepare("the lab's kernel is for amd64 only, and this machine is another.")
    apt = _Apt(CACHE / "apt")
    _say(f"Kernel {series} for the lab, into {CACHE / series}:")
    apt.update()
    release = apt.newest_kernel(series)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="nvmf-lab-") as work:
        kernel = _make(apt, series, release, Path(work))
    _say(f"  {kernel.release} ({kernel.package_version}) is ready.")
    return kernel


def _make(apt: _Apt, series: str, release: str, work: Path) -> Kernel:
    """Unpack and build in a folder of its own (make knows no blanks in paths), then move it."""
    unpacked, headers, siw = work / "kernel", work / "headers", work / "siw"
    image = apt.download(f"linux-image-{release}", work)
    version = _output("dpkg-deb", "-f", str(image), "Version")
    _say("  unpacking the image")
    _run("dpkg-deb", "-x", str(image), str(unpacked))
    if (unpacked / "usr/lib/modules").exists():  # later kernels have no /lib of their own
        shutil.move(unpacked / "usr/lib/modules", unpacked / "lib/modules")
    image.unlink()
    for package in [f"linux-headers-{release}", *apt.build_dependencies(release)]:
        file = apt.download(package, work)
        _run("dpkg-deb", "-x", str(file), str(headers))
        file.unlink()
    source = apt.download(f"linux-source-{series}", work)
    _say("  building siw")
    _unpack_siw(source, series, siw)
    _build_siw(headers / "usr" / "src", release, siw)
    kernel = Kernel(series, release, version)
    extra = unpacked / "lib" / "modules" / release / "extra"
    extra.mkdir()
    _run("strip", "-g", "-o", str(extra / "siw.ko"), str(siw / "siw.ko"))
    _run("depmod", "-b", str(unpacked), release)
    for unused in ("usr/share", f"boot/System.map-{release}"):
        path = unpacked / unused
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    shutil.rmtree(kernel.folder, ignore_errors=True)
    shutil.move(unpacked, kernel.folder)
    (kernel.folder / "kernel.json").write_text(json.dumps(asdict(kernel)) + "\n")
    return kernel


def _unpack_siw(package: Path, series: str, to: Path) -> None:
    """Only siw, straight out of the package: a tar.xz within a tar."""
    to.mkdir()
    inner = f"./usr/src/linux-source-{series}.tar.xz"
    wanted = f"linux-source-{series}/drivers/infiniband/sw/siw"
    _run(
        *("bash", "-o", "pipefail", "-c"),
        'dpkg-deb --fsys-tarfile "$1" | tar -xO "$2" | tar -xJ -C "$3" --strip-components=5 "$4"',
        *("bash", str(package), inner, str(to), wanted),
    )
    package.unlink()


def _build_siw(source: Path, release: str, siw: Path) -> None:
    """Build the module out of the tree, with the compiler of this machine."""
    tree = source / f"linux-headers-{release}"
    for name in ("Makefile", ".kernelvariables"):  # they name where they would be installed
        file = tree / name
        if file.exists():
            file.write_text(re.sub(r"(?<![\w.])/usr/src", str(source), file.read_text()))
    for link in [path for path in source.rglob("*") if path.is_symlink()]:
        target = os.readlink(link)
        if target.startswith("/usr/"):
            link.unlink()
            link.symlink_to(source.parents[1] / target[1:])
    # Without BTF of modules: it wants pahole, and nothing here reads it.
    options = ("CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "CC=gcc")
    _run("make", "-s", "-C", str(tree), f"M={siw}", f"-j{os.cpu_count()}", *options, "modules")


class _Apt:
    """An apt of our own: the machine's mirror, but the suites that have the kernels."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for part in ("parts", "lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        mirror = next(_mirrors(), None)
        if mirror is None:
            raise CannotPrepare(
                f"apt's sources name no mirror of {_codename() or 'this release'}: add the one "
                "that this machine installs from to its apt sources."
            )
        suites = ["bookworm", "bookworm-updates", "bookworm-backports"]
        if _codename() not in ("bookworm", ""):
            suites.insert(0, _codename())
        sources = "".join(f"deb [signed-by={KEYRING}] {mirror} {suite} main\n" for suite in suites)
        (folder / "parts" / "lab.list").write_text(sources)
        self._mirror = mirror

    def update(self) -> None:
        if not KEYRING.exists():
            raise CannotPrepare(f"there is no {KEYRING}: install debian-archive-keyring.")
        _say(f"  reading the package lists of {self._mirror}")
        _run(*self._command("apt-get"), "update")

    def newest_kernel(self, series: str) -> str:
        """The highest release of the series, in the flavour without a name."""
        pattern = re.compile(rf"linux-image-({re.escape(series)}\.[0-9.]+[-+][0-9a-z.~+]+-amd64)")
        names = _output(*self._command("apt-cache"), "pkgnames", f"linux-image-{series}.")
        known = [match[1] for match in map(pattern.fullmatch, names.split()) if match]
        known.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
        for release in reversed(known):
            if self._show(f"linux-image-{release}") and self._show(f"linux-headers-{release}"):
                return release
        raise CannotPrepare(
            f"{self._mirror} has no linux-image-{series}.*-amd64 with its headers:"
            " see that the machine's apt names a full Debian mirror."
        )

    def build_dependencies(self, release: str) -> list[str]:
        """What the headers package of the release builds with."""
        depends = re.search(r"^Depends: (.*)$", self._show(f"linux-headers-{release}"), re.M)
        names = re.findall(r"linux-(?:headers|kbuild)-[^ ,|]+", depends[1] if depends else "")
        return sorted(set(names))

    def download(self, package: str, to: Path) -> Path:
        before = set(to.glob("*.deb"))
        _say(f"  fetching {package}")
        _run(*self._command("apt-get"), "download", package, cwd=to)
        (file,) = set(to.glob("*.deb")) - before
        return file

    def _show(self, package: str) -> str:
        return _output(*self._command("apt-cache"), "show", "--no-all-versions", package, fail="")

    def _command(self, program: str) -> list[str]:
        options = {
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": str(self._folder / "parts"),
            "Dir::State::Lists": str(self._folder / "lists"),
            "Dir::State::Status": "/dev/null",
            "Dir::Cache": str(self._folder / "cache"),
            "APT::Sandbox::User": "",
            "APT::Default-Release": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        return [
            program,
            "-q",
            *(word for key in options for word in ("-o", f"{key}={options[key]}")),
        ]


def _codename() -> str:
    found = re.search(r"^VERSION_CODENAME=\"?(\w+)", Path("/etc/os-release").read_text(), re.M)
    return found[1] if found else ""


def _mirrors() -> Iterator[str]:
    """The mirrors that this machine's apt uses for its own release."""
    etc = Path("/etc/apt")
    for file in sorted([etc / "sources.list", *(etc / "sources.list.d").glob("*.list")]):
        if file.exists():
            line = r"^\s*deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+"
            yield from re.findall(rf"{line}{_codename()}/?\s", file.read_text(), re.M)
    for file in sorted((etc / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text()):
            if re.search(rf"^Suites:.*\b{_codename()}(\s|$)", stanza, re.M | re.I):
                yield from re.findall(r"^URIs:\s*(\S+)", stanza, re.M | re.I)


def _say(text: str) -> None:
    print(text, flush=True)


def _run(*command: str, cwd: Path | None = None) -> None:
    environment = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        end = "\n".join(f"  | {line}" for line in done.stdout.splitlines()[-30:])
        name = " ".join(command)
        raise CannotPrepare(f"'{name[:300]}' ended with status {done.returncode}:\n{end}")


def _output(*command: str, fail: str | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and fail is None:
        raise CannotPrepare(f"'{' '.join(command)}' failed: {done.stderr.strip()}")
    return done.stdout.strip() if not done.returncode else fail or ""


def main(arguments: Sequence[str]) -> int:
    for series in arguments or SERIES[:1]:
        try:
            prepare(series)
        except (CannotPrepare, OSError) as error:
            print(f"lab: kernel {series} could not be prepared: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
