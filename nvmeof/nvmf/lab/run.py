# SPDX-License-Identifier: BSD-3-Clause
"""A run: systems in turns (A B A B), round by round; each measurement is kept at once."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from nvmf.lab import fio as fio_module
from nvmf.lab.errors import LabError
from nvmf.lab.fio import Fio
from nvmf.lab.live import Live
from nvmf.lab.machine import doubts, throttle_count
from nvmf.lab.model import Lab
from nvmf.lab.plan import Load, loads
from nvmf.lab.sampling import Sampler
from nvmf.lab.steady import FIGURE, Steady, judge
from nvmf.lab.store import Results
from nvmf.lab.systems import Running
from nvmf.lab.timeline import counters

ROOM = 64 << 20
"""Bytes that must be free where the results are."""


class Run:
    """A run on an open results directory, new or continued."""

    def __init__(
        self, lab: Lab, fio: Fio, results: Results, live: Live, named: Iterable[str] = ()
    ) -> None:
        self._lab = lab
        self._fio = fio
        self._results = results
        self._live = live
        self._named = frozenset(named)
        self._loads = loads(lab)
        self._dead: dict[str, str] = {}
        self._done = {
            (str(row["system"]), str(row["load"]), int(row["round"]))
            for row in results.rows("SELECT system, load, round FROM round WHERE error IS NULL")
        }

    def measure(self) -> list[str]:
        """Run the missing measurements; return a sentence for each failure.

        Raises:
            LabError: No further measurement is possible; the results so far are kept.
        """
        method = self._lab.method
        machine = self._results.machine()
        self._results.add_doubts(doubts(machine))
        failures: list[str] = []
        try:
            with ExitStack() as stack:
                running: dict[str, Running] = {}
                for system in self._lab.systems:
                    made = Running(system, self._fio, method, self._results, self._named)
                    try:
                        running[system.name] = stack.enter_context(made)
                    except LabError as error:
                        self._gave_up(system.name, str(error), failures)
                for said in failures if running else ():  # else they are the error
                    self._live.say(said)
                self._prepare(running)
                number = 0
                while self._continues(number):
                    number += 1
                    self._round(number, running, failures)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise LabError(self._full()) from None
            raise
        if throttle_count() > machine["throttled"]:
            self._results.add_doubts(["A processor was slowed down because of its temperature."])
        if len(self._dead) == len(self._lab.systems):
            raise LabError("no system could be measured:\n" + "\n".join(failures))
        return failures

    def _prepare(self, running: dict[str, Running]) -> None:
        """Refuse to destroy data; purge and fill the systems that may be written to."""
        method = self._lab.method
        writes = any(load.writes for load in self._loads)
        for system in running.values():
            refusal = system.refusal() if writes else None
            if refusal is not None:
                raise refusal
        for name, system in running.items():
            if self._results.meta(f"prepared:{name}") == "yes" and not self._volatile(system):
                continue
            if system.system.kind == "null" or not (method.fill or method.purge):
                continue
            if not system.allow_writing():
                said = f"System {name} was not preconditioned: it has data, and is only read."
                self._results.add_doubts([said])
                continue
            self._live.say(f"preparing {name}")
            if method.purge and (doubt := system.purge()):
                self._results.add_doubts([doubt])
            if method.fill:
                text = fio_module.fill_text(
                    system.where, system.system.options, method.fill, system.size
                )
                self._fio_run(system, f"fill-{name}", text, None)
            self._results.set_meta(f"prepared:{name}", "yes")

    @staticmethod
    def _volatile(system: Running) -> bool:
        """Return whether a system's data is lost between a run and its continuation."""
        path = getattr(system.system, "path", None)
        return system.fresh or (system.system.kind == "target" and path is None)

    def _round(self, number: int, running: dict[str, Running], failures: list[str]) -> None:
        for load in self._loads:
            for system in self._lab.systems:
                key = (system.name, load.key, number)
                if key in self._done or system.name in self._dead:
                    self._live.skip()
                    continue
                self._live.begin(system.name, load.title, number)
                try:
                    self._measurement(running[system.name], load, number)
                    self._done.add(key)
                except LabError as error:
                    said = running[system.name].death() or str(error)
                    self._keep_failure(system.name, load, number, said)
                    self._live.failed(system.name, load.title, number, said)
                    if running[system.name].death():
                        self._gave_up(system.name, said, failures)
                        self._live.say(failures[-1])
                    else:
                        failures.append(f"{system.name}: {load.title}, round {number}: {said}")

    def _measurement(self, running: Running, load: Load, number: int) -> None:
        """Run fio once, and keep the results."""
        name = measurement(running.system.name, load, number)
        options = running.system.options
        text = fio_module.job_text(load, running.where, options, self._lab.method)
        method = self._lab.method
        started = time.time()
        before = counters(running.socket)
        with Sampler(running.pid) as sampler, running.timeline() as timeline:
            found = self._fio_run(running, name, text, method.runtime + method.ramp)
        after = counters(running.socket)
        if timeline.problem is not None:
            raise LabError(f"a fault could not be started or ended: {timeline.problem}")
        result = fio_module.read(found)
        if not result.ios:
            raise LabError("fio completed no I/O")
        used, switches = sampler.process_seconds(), sampler.context_switches()
        # fio counts nothing during the ramp, but the target works: at the same rate.
        share = method.runtime / max(method.runtime + method.ramp, 1e-9)
        row = {
            **about(running.system.name, load, number),
            "started": started,
            "seconds": time.time() - started,
            **fio_module.columns(result),
            "target_cpu_us_per_io": None if used is None else used * share * 1e6 / result.ios,
            "target_context_switches_per_io": (
                None if switches is None else switches * share / result.ios
            ),
            "target_counters": _difference(before, after),
            "machine_busy": sampler.part("busy"),
            "stolen": sampler.part("stolen"),
            "fio": f"fio/{name}.json",
        }
        logs = self._results.folder / "fio"
        latencies = fio_module.latencies(logs)
        self._results.add_round(
            row, fio_module.series(logs), sampler.rows(), timeline.events, latencies
        )
        if sampler.part("stolen") > 0.02:
            said = "The hypervisor took more than 2 % of the processors' time in some measurements."
            self._results.add_doubts([said])
        self._live.end(running.system.name, load.title, number, result.iops, result.mean_ns)

    def _fio_run(
        self, running: Running, name: str, text: str, seconds: float | None
    ) -> dict[str, object]:
        """Run fio on a job file; seconds: how long it should take, None for unknown."""
        folder = self._results.folder / "fio"
        for old in folder.glob("log_*.log"):
            old.unlink()
        (folder / f"{name}.fio").write_text(text)
        (folder / f"{name}.json").unlink(missing_ok=True)
        process = fio_module.start(self._fio, folder, name)
        late = None if seconds is None else time.monotonic() + seconds + self._lab.method.timeout
        try:
            while True:
                try:
                    process.wait(0.5)
                    break
                except subprocess.TimeoutExpired:
                    if late is not None and time.monotonic() > late:
                        raise LabError(
                            f"fio did not end within {self._lab.method.timeout:g} s after its "
                            "runtime, and was killed"
                        ) from None
                    if said := running.death():
                        raise LabError(said) from None
        finally:
            fio_module.stop(process)
        return fio_module.check(folder, name, process.returncode)

    def _keep_failure(self, system: str, load: Load, number: int, said: str) -> None:
        row = {**about(system, load, number), "started": time.time(), "seconds": 0, "error": said}
        self._results.add_round(row)

    def _gave_up(self, name: str, said: str, failures: list[str]) -> None:
        self._dead[name] = said
        failures.append(f"{said}; system {name} was not measured further")

    def _continues(self, number: int) -> bool:
        """Return whether a further round is wanted after this one."""
        method = self._lab.method
        if len(self._dead) == len(self._lab.systems):
            return False
        if _free(self._results.folder) < ROOM:
            raise LabError(self._full())
        if number < method.rounds:
            return True
        if not method.until_steady or number >= method.max_rounds:
            return False
        if all(steady.reached for steady in self._tracked(number)):
            return False
        self._live.more(len(self._loads) * len(self._lab.systems))
        return True

    def _tracked(self, number: int) -> list[Steady]:
        """Return the judgements that decide whether the run is over."""
        method = self._lab.method
        found = []
        for load in self._loads:
            if method.track and load.workload.name not in method.track:
                continue
            for system in self._lab.systems:
                if system.name in self._dead or system.kind == "null":
                    continue
                rows = self._results.rows(
                    f"SELECT {FIGURE[method.steady]} AS figure FROM round WHERE system = ? AND "
                    "load = ? AND round <= ? AND error IS NULL ORDER BY round",
                    *(system.name, load.key, number),
                )
                figures = [float(row["figure"]) for row in rows]
                found.append(judge(figures, method.window, method.excursion, method.slope))
        return found

    def _full(self) -> str:
        folder = self._results.folder
        return (
            f"the file system of {folder} is full. What was measured is kept: make room, then "
            f"continue with nvmeof lab run --resume {folder}"
        )


def _difference(before: Mapping[str, int], after: Mapping[str, int]) -> str | None:
    if not before or not after:
        return None
    return json.dumps({name: after[name] - before[name] for name in before})


def measurement(system: str, load: Load, number: int) -> str:
    """Return the name of the files of a measurement."""
    return f"r{number:03}-{system}-{load.key.replace('/', '-')}"


def about(system: str, load: Load, number: int) -> dict[str, object]:
    """Return the columns that identify a measurement."""
    work = load.workload
    return {
        "system": system,
        "load": load.key,
        "round": number,
        "workload": work.name,
        "title": load.title,
        "rw": None if work.job_file or work.trace else work.rw,
        "bs": load.bs,
        "iodepth": load.iodepth,
        "numjobs": load.numjobs,
        "rwmixread": load.rwmixread,
    }


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free
