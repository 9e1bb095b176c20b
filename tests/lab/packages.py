# SPDX-License-Identifier: BSD-3-Clause
"""Debian packages without installing any: a separate apt, and running programs from them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class CannotPrepare(Exception):
    """The kernel cannot be obtained: what was tried, what came back, and what to do."""


class Apt:
    """An apt with the machine's mirror, the suites of a different release, and its own folder of
    lists: those of packages, or of their sources if `kind` is deb-src.
    """

    def __init__(self, folder: Path, suites: Sequence[str], *, kind: str = "deb") -> None:
        self._folder = folder
        self.suites = suites
        for part in ("parts", "lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        mirror = next(mirrors(), None)
        if mirror is None:
            raise CannotPrepare(
                f"apt's sources name no mirror of {codename() or 'this release'}: add the one "
                "that this machine installs from to its apt sources."
            )
        sources = "".join(
            f"{kind} [signed-by={KEYRING}] {mirror} {suite} main\n" for suite in suites
        )
        (folder / "parts" / "lab.list").write_text(sources)
        self.mirror = mirror

    def update(self) -> None:
        if not KEYRING.exists():
            raise CannotPrepare(f"there is no {KEYRING}: install debian-archive-keyring.")
        say(f"  reading the package lists of {self.mirror}")
        run(*self._command("apt-get"), "update")

    def newest_kernel(self, series: str = "") -> str:
        """Return the highest release, of a series if given, in the default flavour."""
        wanted = re.escape(series) if series else r"[0-9]+\.[0-9]+"
        pattern = re.compile(rf"linux-image-({wanted}\.[0-9.]+[-+][0-9a-z.~+]+-amd64)")
        names = output(*self._command("apt-cache"), "pkgnames", "linux-image-")
        known = [match[1] for match in map(pattern.fullmatch, names.split()) if match]
        known.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
        for release in reversed(known):
            if self._show(f"linux-image-{release}") and self._show(f"linux-headers-{release}"):
                return release
        raise CannotPrepare(
            f"{self.mirror} has no linux-image-{series or '*'}.*-amd64 with its headers:"
            " see that the machine's apt names a full Debian mirror."
        )

    def depends(self, package: str, pattern: str) -> list[str]:
        """Return the packages on which it depends, if they match the pattern."""
        line = re.search(r"^Depends: (.*)$", self._show(package), re.M)
        return sorted(set(re.findall(pattern, line[1] if line else "")))

    def build_dependencies(self, release: str) -> list[str]:
        """Return the packages with which the headers package of the release builds."""
        return self.depends(f"linux-headers-{release}", r"linux-(?:headers|kbuild)-[^ ,|]+")

    def with_all_dependencies(self, *packages: str) -> list[Path]:
        """Return the files of packages with all their dependencies, as for an empty machine."""
        say(f"  fetching {', '.join(packages)}, and what they need")
        run(
            *self._command("apt-get"), "install", "--download-only", "-y",
            "--no-install-recommends", *packages,
        )  # fmt: skip
        return sorted((self._folder / "cache" / "archives").glob("*.deb"))

    def download(self, package: str, to: Path) -> Path:
        before = set(to.glob("*.deb"))
        say(f"  fetching {package}")
        run(*self._command("apt-get"), "download", package, cwd=to)
        (file,) = set(to.glob("*.deb")) - before
        return file

    def source(self, package: str, to: Path) -> Path:
        """Return the archive of a package's source, as its authors released it."""
        say(f"  fetching the source of {package}")
        options = ("--download-only", "--tar-only", "--only-source")
        run(*self._command("apt-get"), "source", *options, package, cwd=to)
        (file,) = to.glob(f"{package}_*.orig.tar.*")
        return file

    def _show(self, package: str) -> str:
        return output(*self._command("apt-cache"), "show", "--no-all-versions", package, fail="")

    def _command(self, program: str) -> list[str]:
        options = {
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": str(self._folder / "parts"),
            "Dir::State::Lists": str(self._folder / "lists"),
            "Dir::State::Status": "/dev/null",
            "Dir::Cache": str(self._folder / "cache"),
            "APT::Sandbox::User": "",
            "Debug::NoLocking": "true",  # the lock would be in the folder of the status file
            "APT::Default-Release": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        return [
            program,
            "-q",
            *(word for key in options for word in ("-o", f"{key}={options[key]}")),
        ]


def codename() -> str:
    found = re.search(r"^VERSION_CODENAME=\"?(\w+)", Path("/etc/os-release").read_text(), re.M)
    return found[1] if found else ""


def mirrors() -> Iterator[str]:
    """Yield the mirrors that this machine's apt uses for its own release."""
    etc = Path("/etc/apt")
    for file in sorted([etc / "sources.list", *(etc / "sources.list.d").glob("*.list")]):
        if file.exists():
            line = r"^\s*deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+"
            yield from re.findall(rf"{line}{codename()}/?\s", file.read_text(), re.M)
    for file in sorted((etc / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text()):
            if re.search(rf"^Suites:.*\b{codename()}(\s|$)", stanza, re.M | re.I):
                yield from re.findall(r"^URIs:\s*(\S+)", stanza, re.M | re.I)


def say(text: str) -> None:
    print(text, flush=True)


def run(*command: str, cwd: Path | None = None) -> None:
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


def output(*command: str, fail: str | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and fail is None:
        raise CannotPrepare(f"'{' '.join(command)}' failed: {done.stderr.strip()}")
    return done.stdout.strip() if not done.returncode else fail or ""
