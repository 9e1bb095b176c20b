# SPDX-License-Identifier: BSD-3-Clause
"""Use of processors while fio runs, sampled on a thread."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from nvmf.lab.machine import busy

_EVERY = 0.2


@dataclass(frozen=True)
class Moment:
    """The processor time used until a moment, in seconds."""

    when: float
    busy: float
    stolen: float
    total: float
    process: float | None
    switches: int | None
    """Context switches of the process."""


def process_seconds(pid: int) -> float | None:
    """Return the processor time that a process has used; None if it does not exist."""
    total = 0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return total * 1e-9


def context_switches(pid: int) -> int | None:
    """Return the context switches of all threads of a process; None if it does not exist."""
    total = 0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for line in (task / "status").read_text().splitlines():
                if line.startswith(("voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:")):
                    total += int(line.split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return total


def moment(pid: int | None) -> Moment:
    """Return the processor time used so far, by the machine and by a process."""
    used = busy()
    process = process_seconds(pid) if pid is not None else None
    switches = context_switches(pid) if pid is not None else None
    return Moment(time.monotonic(), used["busy"], used["stolen"], used["total"], process, switches)


@dataclass
class Sampler:
    """A context manager that samples until its end."""

    pid: int | None
    moments: list[Moment] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Sampler:
        self.moments.append(moment(self.pid))
        self._thread = threading.Thread(target=self._run, name="nvmf-lab-samples", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        assert self._thread is not None
        self._thread.join()
        self.moments.append(moment(self.pid))

    def _run(self) -> None:
        while not self._end.wait(_EVERY):
            self.moments.append(moment(self.pid))

    def process_seconds(self) -> float | None:
        """Return the processor time of the process, from the beginning to the end."""
        first, last = self.moments[0].process, self.moments[-1].process
        return last - first if first is not None and last is not None else None

    def context_switches(self) -> int | None:
        """Return the context switches of the process, from the beginning to the end."""
        first, last = self.moments[0].switches, self.moments[-1].switches
        return last - first if first is not None and last is not None else None

    def part(self, name: str) -> float:
        """Return the part of the processors' time that was busy or stolen, 0 to 1."""
        first, last = self.moments[0], self.moments[-1]
        total = last.total - first.total
        used = float(getattr(last, name)) - float(getattr(first, name))
        return used / total if total > 0 else 0.0

    def rows(self) -> list[tuple[int, float, float | None, float | None]]:
        """Return a row for each interval.

        Milliseconds, busy part of the machine, processors that the process used, and its context
        switches per second.
        """
        made = []
        for before, after in zip(self.moments, self.moments[1:], strict=False):
            total, took = after.total - before.total, after.when - before.when
            if total <= 0 or took <= 0:
                continue
            cpus = None
            if before.process is not None and after.process is not None:
                cpus = (after.process - before.process) / took
            switches = None
            if before.switches is not None and after.switches is not None:
                switches = (after.switches - before.switches) / took
            ms = int((after.when - self.moments[0].when) * 1000)
            made.append((ms, (after.busy - before.busy) / total, cpus, switches))
        return made
