# SPDX-License-Identifier: BSD-3-Clause
"""A guest that boots once, is saved, and then continues from there any number of times.

The saved state has everything but the NVDIMMs, whose files are shared: the guest that continues has
what the last one left in them.  So the saved guest must not have read them, except the labels of
the namespaces, which are written once.  The guest's memory is a file, of which each guest that
continues has a private copy, page by page; so it takes a second, and no more memory than it
changes.
"""

from __future__ import annotations

import itertools
import json
import shlex
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from lab import smallroot
from lab.guest import BOOT_SECONDS, Guest
from lab.network import Network
from lab.prepare import Kernel
from lab.running import GuestError, Running

MEMORY = "1G"


class Monitor:
    """The control connection of an emulator (QMP)."""

    def __init__(self, path: Path) -> None:
        """Connect to an emulator, which may just have started."""
        self._socket = socket.socket(socket.AF_UNIX)
        end = time.monotonic() + 60
        while self._socket.connect_ex(str(path)):
            if time.monotonic() > end:
                raise GuestError("QEMU does not listen for commands")
            time.sleep(0.005)
        self._file = self._socket.makefile("rb")
        self._file.readline()  # its greeting
        self.do("qmp_capabilities")

    def do(self, command: str, **arguments: object) -> dict[str, Any]:
        """Run a command, and return its result."""
        said = {"execute": command, "arguments": arguments}
        self._socket.sendall(json.dumps(said).encode() + b"\n")
        while line := self._file.readline():
            answer = json.loads(line)
            if "error" in answer:
                raise GuestError(f"QEMU refused {command}: {answer['error']['desc']}")
            if "return" in answer:
                return cast(dict[str, Any], answer["return"])
        raise GuestError(f"QEMU ended during {command}")

    def leave_shared_memory(self) -> None:
        """Let a migration leave out memory that is a shared file."""
        shared = [{"capability": "x-ignore-shared", "state": True}]
        self.do("migrate-set-capabilities", capabilities=shared)

    def wait_migrated(self, seconds: float) -> None:
        """Wait until the migration has ended."""
        end = time.monotonic() + seconds
        while (state := self.do("query-migrate")).get("status") != "completed":
            if state.get("status") == "failed" or time.monotonic() > end:
                raise GuestError(f"the guest cannot be saved or continue: {state}")
            time.sleep(0.005)

    def close(self) -> None:
        """Disconnect."""
        self._file.close()
        self._socket.close()


@dataclass(frozen=True)
class Snapshot:
    """A saved guest."""

    kernel: Kernel
    cable: Network
    folder: Path
    memories: tuple[Path, ...]
    running: dict[int, str]
    """The commands that run in it."""


class SmallGuest(Guest):
    """A guest that can be saved: see smallroot."""

    _share = "on"
    _more: tuple[str, ...] = ()

    def __init__(
        self,
        kernel: Kernel,
        cable: Network,
        folder: Path,
        memories: Sequence[Path] = (),
        *,
        boot_seconds: float = BOOT_SECONDS,
    ) -> None:
        """Boot it.

        Args:
            kernel: See Guest.
            cable: See Guest.
            folder: For its memory and its state, while it or what is made of it is in use.
            memories: See Guest.
            boot_seconds: See Guest.
        """
        self._cable = cable
        self._where = folder
        super().__init__(kernel, cable, memory=MEMORY, memories=memories, boot_seconds=boot_seconds)

    def _root(self) -> list[str]:
        initrd = self._where / "initrd"
        if not initrd.exists():
            smallroot.build(self.kernel, initrd)
        ram = f"memory-backend-file,id=ram,size={MEMORY},mem-path={self._where}/ram"
        monitor = f"unix:{self._folder}/monitor,server=on,wait=off"
        return [
            *("-object", f"{ram},share={self._share}", "-machine", "memory-backend=ram"),
            *("-qmp", monitor, "-initrd", str(initrd), *self._more),
        ]

    def _monitor(self) -> Monitor:
        return Monitor(self._folder / "monitor")

    def save(self) -> Snapshot:
        """Save it, and end it."""
        monitor = self._monitor()
        monitor.do("stop")
        monitor.leave_shared_memory()
        monitor.do("migrate", uri=f"exec:cat > {shlex.quote(str(self._where / 'state'))}")
        monitor.wait_migrated(120)
        monitor.close()
        commands = {number: one.command for number, one in self._running.items()}
        self.power_off()
        return Snapshot(self.kernel, self._cable, self._where, self.memories, commands)


class Revived(SmallGuest):
    """A guest that continues where it was saved."""

    _share = "off"
    _more = ("-S", "-incoming", "defer")

    def __init__(self, snapshot: Snapshot) -> None:
        """Let it continue."""
        self._state = snapshot.folder / "state"
        self.commands = {
            number: Running(command, self._signal_of(number), quiet=False)
            for number, command in snapshot.running.items()
        }
        """The commands that were running when it was saved, by number."""
        super().__init__(snapshot.kernel, snapshot.cable, snapshot.folder, snapshot.memories)

    def _wake(self) -> None:
        self._running.update(self.commands)
        self._numbers = itertools.count(max(self.commands, default=0) + 1)
        try:
            monitor = self._monitor()
            monitor.leave_shared_memory()
            monitor.do("migrate-incoming", uri=f"exec:cat {shlex.quote(str(self._state))}")
            monitor.wait_migrated(120)
            monitor.do("cont")
            monitor.close()
        except (OSError, GuestError):
            self.power_off()
            self.close()
            raise
        self._ready.set()
