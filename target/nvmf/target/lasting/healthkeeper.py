# SPDX-License-Identifier: BSD-3-Clause
"""Stores the counters of the SMART logs in the state folder: one file for the whole target.

The file is written when subsystems are added or removed, when the target stops, at most once a
minute while commands run, and once an hour for the hours: never for a command, and never by the
event loop's thread.  A crash loses at most the last minute, and is counted as an unsafe shutdown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypedDict

from nvmf.check import checked
from nvmf.json import JSON
from nvmf.target.lasting.health import SUBSYSTEMS_MOST, SubsystemBody, SubsystemHealth
from nvmf.target.lasting.state import DamagedState, seal, set_aside, unseal, write_atomically
from nvmf.target.lasting.threads import Threads

log = logging.getLogger("nvmf.target")

FILE = "health.json"
SAVE_EVERY = 60.0
"""Minimum seconds between two writes, except for an administrator's changes."""
IDLE_EVERY = 3600.0
"""Seconds between writes of the hours if nothing else has changed."""
_KIND = "health"
_FORMAT = 1


class HealthKeeper:
    """The counters of all subsystems.  folder: where to store them; None: not stored."""

    def __init__(
        self, folder: Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = None if folder is None else folder / FILE
        self._clock = clock
        self._subsystems: dict[str, SubsystemHealth] = {}
        self._written: dict[str, SubsystemBody] = {}
        """The content of the file, without the seconds."""
        self._failed = False
        """The last write failed."""
        self._saving = asyncio.Lock()
        self._threads = Threads("health", 1)
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._load()

    # ---- counters in memory ----

    def subsystem(self, nqn: str) -> SubsystemHealth:
        """Return the counters of a subsystem, created if new."""
        return self._subsystems.setdefault(nqn, SubsystemHealth())

    def power_on(self, nqn: str) -> None:
        """Record that a subsystem is served from now on."""
        self.subsystem(nqn).power_on(self._clock())

    def take_back(self, nqn: str) -> None:
        """Undo power_on(): the subsystem is not served after all."""
        one = self.subsystem(nqn)
        if one.on:
            one.on = False
            one.power_cycles -= 1

    def power_off(self, nqn: str) -> None:
        """Record that a subsystem is no longer served; went() follows for its namespaces."""
        self.subsystem(nqn).power_off(self._clock())

    def look(self, nqn: str) -> SubsystemHealth:
        """Return the counters of a subsystem, updated to the present."""
        found = self.subsystem(nqn)
        found.look(self._clock())
        return found

    def end(self) -> None:
        """Take the final counts before an orderly end of the engine."""
        for nqn, one in self._subsystems.items():
            if one.on:
                self.power_off(nqn)  # which reads the busy times of its namespaces
            one.all_went()

    # ---- the file ----

    def stir(self) -> None:
        """Schedule a check for changes to write."""
        if self._path is None:
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + SAVE_EVERY:
                return
            self._timer.cancel()
        self._timer = loop.call_later(SAVE_EVERY, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look_and_save())

    async def _look_and_save(self) -> None:
        if await self.save() or self._failed:
            self.stir()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_EVERY, self._look)

    async def save(self) -> bool:
        """Write changes; return whether there were any.  A failure is logged once."""
        if self._path is None:
            return False
        async with self._saving:
            for nqn in self._subsystems:
                self.look(nqn)
            self._forget_some()
            body = {nqn: one.body() for nqn, one in self._subsystems.items()}
            plain = {nqn: _plain(one) for nqn, one in body.items()}
            if plain == self._written:
                return False
            data = seal(_KIND, {"format": _FORMAT, "subsystems": body})
            try:
                await self._threads.run(partial(write_atomically, self._path, data))
            except OSError as error:
                self._tell(error)
            else:
                self._written = plain
                if self._failed:
                    log.info("%s can be written again", self._path)
                self._failed = False
            return True

    async def close(self) -> None:
        """Stop the timer and write the file for the last time."""
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self.save()

    def _tell(self, error: OSError) -> None:
        if not self._failed:
            log.error(
                "%s cannot be written (%s): if this persists, the counters of SMART logs are lost "
                "when the target ends; will retry every %g s",
                self._path,
                error.strerror,
                SAVE_EVERY,
            )
        self._failed = True

    def _forget_some(self) -> None:
        absent = [nqn for nqn, one in self._subsystems.items() if not one.on]
        for nqn in absent[:-SUBSYSTEMS_MOST]:
            if not any(space.live for space in self._subsystems[nqn].spaces.values()):
                del self._subsystems[nqn]

    def _load(self) -> None:
        """Load the counters of earlier runs; subsystems not shut down get an unsafe shutdown."""
        if self._path is None:
            return
        lost = "the counters of SMART logs start at zero"
        try:
            self._subsystems = unseal(self._path, _KIND, _decode, lost) or {}
        except DamagedState as error:
            self._leave(error)
        for one in self._subsystems.values():
            one.unsafe_shutdowns += one.on
            one.on = False

    def _leave(self, error: DamagedState) -> None:
        path = self._path
        assert path is not None
        try:
            kept = set_aside(path)
        except OSError as again:
            self._path = None
            log.error("%s; it cannot be renamed (%s): they are not stored", error, again.strerror)
        else:
            log.error("%s; it was renamed to %s", error, kept.name)


class _Body(TypedDict):
    """The content of the file."""

    format: int
    subsystems: dict[str, SubsystemBody]


def _decode(value: JSON) -> dict[str, SubsystemHealth]:
    body = checked(_Body, value, name=_KIND)
    if body["format"] != _FORMAT:
        raise ValueError(f"its format is {body['format']}, not {_FORMAT}")
    return {nqn: SubsystemHealth.of_body(one) for nqn, one in body["subsystems"].items()}


def _plain(body: SubsystemBody) -> SubsystemBody:
    """Return the values whose change requires a write: the log has whole hours and minutes."""
    return {
        **body,
        "on_seconds": int(body["on_seconds"] / 3600),
        "busy_seconds": int(body["busy_seconds"] / 60),
    }
