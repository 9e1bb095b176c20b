# SPDX-License-Identifier: BSD-3-Clause
"""Access to the machine for the checks: files of /proc and /sys, programs, limits.

All access is through one object, so that tests can simulate a machine.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

_PROGRAM_SECONDS = 10.0
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Level(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    NOTE = "note"
    """For information; there is no fault."""
    WARNING = "warning"
    """It works, but not as well as it could."""
    PROBLEM = "problem"
    """It does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    level: Level
    text: str
    """The finding, as a clause without a full stop."""
    remedy: str = ""
    """How to correct it."""


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface that has an address."""

    name: str
    mtu: int
    """Bytes."""
    up: bool
    addresses: tuple[str, ...]


class Machine:
    """This machine, or a different one whose files are under root."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def path(self, name: str) -> Path:
        """Return the path of the file with this absolute name."""
        return self._root / name.lstrip("/")

    def read(self, name: str) -> str | None:
        """Return the stripped content of a file; None if it cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; an empty list if the folder cannot be read."""
        try:
            return sorted(entry.name for entry in self.path(folder).iterdir())
        except OSError:
            return []

    def output(self, *command: str) -> str | None:
        """Return the output of a program; None if it is missing, fails or times out."""
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=_PROGRAM_SECONDS,
                stdin=subprocess.DEVNULL,
                env={"PATH": _PATH, "LC_ALL": "C"},
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout

    def limit(self, number: int) -> int | None:
        """Return the limit of a resource (RLIMIT_...) for a target; None if unlimited.

        This is the soft limit, but for descriptors the hard limit, to which a target raises it.
        """
        limit = resource.getrlimit(number)[number == resource.RLIMIT_NOFILE]
        return None if limit == resource.RLIM_INFINITY else limit

    @property
    def cpus(self) -> set[int]:
        """The CPUs that this process may run on."""
        return os.sched_getaffinity(0)

    @property
    def root_user(self) -> bool:
        """Whether this process runs as root."""
        return os.geteuid() == 0

    @cached_property
    def memory(self) -> dict[str, int]:
        """The values of /proc/meminfo in bytes; HugePages_ counts as numbers of pages."""
        found = {}
        for line in (self.read("/proc/meminfo") or "").splitlines():
            name, _, rest = line.partition(":")
            words = rest.split()
            if words and words[0].isdecimal():
                found[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
        return found

    @cached_property
    def modules(self) -> set[str]:
        """Kernel modules that are loaded or built in."""
        return {name.replace("-", "_") for name in self.names("/sys/module")}

    @cached_property
    def interfaces(self) -> list[Interface] | None:
        """Network interfaces with their addresses; None if iproute2 cannot list them."""
        text = self.output("ip", "-j", "address", "show")
        if text is None:
            return None
        try:
            return [
                Interface(
                    str(entry["ifname"]),
                    int(entry["mtu"]),
                    "UP" in entry["flags"],
                    tuple(str(info["local"]) for info in entry["addr_info"] if "local" in info),
                )
                for entry in json.loads(text)
            ]
        except (ValueError, KeyError, TypeError):
            return None

    def interface_of(self, address: str) -> Interface | None:
        """Return the interface that has an address; None if there is no such interface."""
        for interface in self.interfaces or []:
            if address in interface.addresses:
                return interface
        return None

    @cached_property
    def rdma_links(self) -> dict[str, str]:
        """The network interface of each RDMA device that has one."""
        found = {}
        for device in self.names("/sys/class/infiniband"):
            for name in self.names(f"/sys/class/infiniband/{device}/ports/1/gid_attrs/ndevs"):
                netdev = self.read(f"/sys/class/infiniband/{device}/ports/1/gid_attrs/ndevs/{name}")
                if netdev:
                    found[device] = netdev
                    break
            else:
                parent = self.read(f"/sys/class/infiniband/{device}/parent")
                if parent:
                    found[device] = parent
        return found
