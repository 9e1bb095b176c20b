# SPDX-License-Identifier: BSD-3-Clause
"""Systems under test: set up, checked, purged, described to fio, and taken down."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from nvmf.config import ConfigError
from nvmf.config import load as load_target
from nvmf.initiator import TransportId
from nvmf.initiator.sync import connect
from nvmf.lab import guard
from nvmf.lab.errors import LabError
from nvmf.lab.fio import Fio
from nvmf.lab.model import FileSystem, MethodConfig, NullSystem, RemoteSystem, System, TargetSystem
from nvmf.lab.serving import NQN, Target, configuration, legs_of, processors, run_command
from nvmf.lab.store import Results
from nvmf.lab.timeline import Timeline, begin_faults
from nvmf.relay.errors import RelayError
from nvmf.relay.relays import Relays

_MARK = "user.nvmeof-lab"
"""Attribute of a file that a run has made: its results directory."""


class Running:
    """A system that is set up; a context manager that takes it down."""

    def __init__(
        self,
        system: System,
        fio: Fio,
        method: MethodConfig,
        results: Results,
        named: frozenset[str],
    ) -> None:
        self.system = system
        self.size = 0
        """Bytes that fio uses."""
        self.fresh = False
        """Whether its file was made now: nothing has been written to it."""
        self._fio = fio
        self._method = method
        self._results = results
        self._named = named
        self._folder = results.folder
        self._log = results.folder / f"system-{system.name}.log"
        self._stack = ExitStack()
        self._target: Target | None = None
        self._legs: list[Target] = []
        """The targets of the legs of a mirror."""
        self._relay: Relays | None = None
        self._where: list[str] = []
        self._may_write: bool | None = None

    def __enter__(self) -> Running:
        try:
            if self.system.setup:
                self._command(self.system.setup, "set-up")
            if self.system.teardown:
                self._stack.callback(self._command, self.system.teardown, "tear-down")
            self._begin()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _command(self, command: str, what: str) -> None:
        run_command(command, self.system.ssh, self._log, f"system {self.system.name}: {what}")

    def _begin(self) -> None:
        """Start what is served, and find fio's lines and the size."""
        system = self.system
        if isinstance(system, NullSystem):
            self.size = system.size
            self._where = ["ioengine=null", f"filesize={system.size}", "filename=null"]
        elif isinstance(system, FileSystem):
            self._file(system.path, system.size)
            self.size = min(_size(system.path), system.size or 1 << 62)
            self._where = [f"ioengine={system.engine}", f"direct={int(system.direct)}"]
            self._where.append("filename=" + str(system.path).replace(":", "\\:"))
        elif isinstance(system, RemoteSystem):
            self._remote(TransportId.parse(system.url), system.nsid)
        else:
            self._serve(system)
        if self._method.size:
            self.size = min(self.size, self._method.size)
        self._where.append(f"size={self.size}")
        if cpus := processors(getattr(system, "reactors", 1), self._method.pin)[1]:
            self._where += [f"cpus_allowed={','.join(map(str, cpus))}"]

    def _serve(self, system: TargetSystem) -> None:
        self._fio.need_engine()
        if system.path is not None:
            self._file(system.path, system.size)
        nqn, config = NQN, self._folder / f"system-{system.name}.toml"
        if system.config is not None:
            try:
                nqn = load_target(system.config).subsystems[0].nqn
            except (ConfigError, IndexError) as error:
                raise LabError(f"system {system.name}: cannot serve it: {error}") from None
            config = system.config
        else:
            cpus = processors(system.reactors, self._method.pin)[0]
            legs = self._serve_legs(system, cpus)
            config.write_text(configuration(system, cpus, legs, sleeps=_crowded(legs)))
        faults = bool(system.faults)
        self._target = Target(system.name, config, self._log, faults=faults)
        self._stack.callback(self._target.close)
        if faults:
            self._permanent(system)
        where = self._target.traddr, self._target.trsvcid
        if system.wire:
            where = self._relayed(system, where)
        self._remote(TransportId(*where, nqn, {"device": system.device}), system.nsid)

    def _serve_legs(self, system: TargetSystem, cpus: list[int] | None) -> list[str]:
        """Start the targets of the legs of a mirror; return their URLs."""
        urls: list[str] = []
        for leg in (legs := legs_of(system)):
            config = self._folder / f"system-{leg.name}.toml"
            config.write_text(configuration(leg, cpus, sleeps=_crowded(legs)))
            target = Target(leg.name, config, self._log)
            self._stack.callback(target.close)
            self._legs.append(target)
            place = TransportId(target.traddr, target.trsvcid, NQN)
            urls.append(f"{place}?device={system.device}")
        return urls

    def _relayed(self, system: TargetSystem, where: tuple[str, str]) -> tuple[str, str]:
        """Start a relay before the target; return its address."""
        self._relay = Relays()
        self._stack.callback(self._relay.close)
        try:
            made = self._relay.open(system.device, (where[0], int(where[1])))
        except (RelayError, OSError) as error:
            raise LabError(f"system {system.name}: there is no relay: {error}") from None
        permanent = [fault for fault in system.wire if fault.begin is None]
        said = [f"Fault on purpose, system {system.name}: {one.summary()}." for one in permanent]
        self._results.add_doubts(
            [
                f"System {system.name} is behind a relay, which is slower than the wire itself.",
                *said,
            ]
        )
        for fault in permanent:
            self._relay.begin(fault)
        return made[0], str(made[1])

    def _permanent(self, system: TargetSystem) -> None:
        assert self._target is not None
        begin_faults(self._target.socket, system.faults)
        said = [one.summary() for one in system.faults if one.begin is None]
        self._results.add_doubts([f"Fault on purpose, system {system.name}: {s}." for s in said])

    def _remote(self, place: TransportId, nsid: int) -> None:
        """Use our engine for a namespace, after a look at it."""
        engine = self._fio.need_engine()
        try:
            with connect(place) as controller:
                self.size = controller.namespace(nsid).size
        except (OSError, RuntimeError, LookupError, ValueError) as error:
            raise LabError(f"system {self.system.name}: cannot use {place}: {error}") from None
        name = f"traddr={place.traddr} trsvcid={place.trsvcid} subnqn={place.subnqn} nsid={nsid}"
        self._where = [f"ioengine=external:{engine}", "filename=" + name.replace(":", "\\:")]
        device = place.options.get("device")
        if device in ("iwarp", "roce", "system"):
            self._where.append(f"device={device}")
        self._place = place

    def _file(self, path: Path, size: int | None) -> None:
        """Make a file that does not exist, and remove it afterwards.

        It is marked, so that a run that was killed finds its own file again.
        """
        if path.exists():
            if _mark(path) == str(self._folder.absolute()).encode():
                self._stack.callback(path.unlink, missing_ok=True)
                self._may_write = True
            return
        if size is None:
            raise LabError(
                f"system {self.system.name}: {path} does not exist, and there is no size"
            )
        try:
            with path.open("xb") as made:
                os.posix_fallocate(made.fileno(), 0, size)
            with contextlib.suppress(OSError):  # not every file system has attributes
                os.setxattr(path, _MARK, str(self._folder.absolute()).encode())
        except OSError as error:
            path.unlink(missing_ok=True)
            raise LabError(
                f"system {self.system.name}: cannot make {path}: {error.strerror}"
            ) from None
        self._stack.callback(path.unlink, missing_ok=True)
        self._may_write = self.fresh = True

    @property
    def where(self) -> list[str]:
        """fio's lines for the system."""
        return self._where

    @property
    def pid(self) -> int | None:
        """The process whose use of processors is sampled."""
        if self._target is not None:
            return self._target.pid
        if self.system.pid_file is not None:
            try:
                return int(self.system.pid_file.read_text())
            except (OSError, ValueError):
                return None
        return None

    @property
    def socket(self) -> Path | None:
        """The administration socket of a served target."""
        return self._target.socket if self._target is not None else None

    def timeline(self) -> Timeline:
        """Return the faults of a measurement."""
        if not isinstance(self.system, TargetSystem):
            return Timeline(self.socket, ())
        return Timeline(self.socket, [*self.system.faults, *self.system.wire], self._relay)

    def death(self) -> str | None:
        """Return a sentence if the system has died."""
        targets = [self._target, *self._legs] if self._target is not None else self._legs
        return next((said for one in targets if (said := one.death())), None)

    def allow_writing(self) -> bool:
        """Return whether data may be destroyed; remembered in the results for --resume.

        Raises:
            LabError: The data cannot be read.
        """
        return self._why_not() is None

    def refusal(self) -> LabError | None:
        """Return the error if the system must not be written to."""
        why = self._why_not()
        return guard.refuse(self.system.name, self._identity(), why) if why else None

    def _why_not(self) -> str | None:
        system, key = self.system, f"ours:{self.system.name}"
        if isinstance(system, NullSystem) or self._may_write:
            return None
        if isinstance(system, TargetSystem) and not (system.path or system.config):
            return None
        path = system.path if isinstance(system, TargetSystem | FileSystem) else None
        device = path is not None and path.is_block_device()
        identity = self._identity()
        if device and path is not None and self._target is None:
            guard.why_not_file(path)  # never a mounted one, even if it is named
        if (
            system.overwrite == identity
            or identity in self._named
            or self._results.meta(key) == identity
        ):
            self._may_write = True
        else:
            why = self._data()
            if why is not None:
                return why
            self._results.set_meta(key, identity)
            self._may_write = True
        return None

    def _identity(self) -> str:
        """Return the name by which data may be destroyed: a path or an NQN."""
        system = self.system
        if isinstance(system, TargetSystem | FileSystem) and system.path is not None:
            return str(system.path)
        return self._place.subnqn

    def _data(self) -> str | None:
        system = self.system
        if isinstance(system, FileSystem):
            return guard.why_not_file(system.path)
        nsid = system.nsid if isinstance(system, TargetSystem | RemoteSystem) else 1
        with connect(self._place) as controller:
            disk = controller.namespace(nsid)
            return guard.why_not_empty(lambda offset, n: disk.pread(n, offset), disk.size)

    def purge(self) -> str | None:
        """Erase the system; return a doubt if that is not possible."""
        if self.system.purge:
            self._command(self.system.purge, "purge")
            return None
        if isinstance(self.system, FileSystem):
            path = self.system.path
            tool = ["blkdiscard", "-f"] if path.is_block_device() else ["fallocate", "-p", "-l"]
            words = [*tool, str(path)] if path.is_block_device() else [
                *tool, str(self.size), str(path)
            ]  # fmt: skip
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode == 0:
                return None
            return f"System {self.system.name} was not purged: {done.stderr.strip()}."
        return f"System {self.system.name} was not purged: it has no purge command."


def _size(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return file.seek(0, os.SEEK_END)
    except OSError as error:
        raise LabError(f"cannot open {path}: {error.strerror}") from None


def _mark(path: Path) -> bytes:
    try:
        return os.getxattr(path, _MARK)
    except OSError:
        return b""


def _crowded(legs: Sequence[object]) -> bool:
    """Whether a mirror with these legs has more processes than there are processors."""
    return len(legs) + 2 > len(os.sched_getaffinity(0)) if legs else False
