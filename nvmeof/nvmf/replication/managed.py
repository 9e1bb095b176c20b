# SPDX-License-Identifier: BSD-3-Clause
"""The store of a namespace with store = "mirror": a Mirror on the legs of a configuration.

It creates the mirror if all legs are blank, else it opens it.  Legs are known by their headers, so
that the order of the configuration does not matter.  A leg that is replaced is copied while hosts
use the mirror; for more or fewer legs it is closed and opened again, and commands wait meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from nvmf.config.mirror import LegConfig
from nvmf.config.models import NamespaceConfig
from nvmf.errors import Error
from nvmf.replication.machine import LegState, ReplicationError
from nvmf.replication.mirror import Mirror
from nvmf.replication.mirrorbase import MirrorState
from nvmf.replication.replica import Replica
from nvmf.replication.survey import (
    Absent,
    Found,
    arrange,
    examine,
    form_of,
    look,
    release,
    replica_for,
    unused,
)
from nvmf.replication.watching import Watching
from nvmf.rpc.mirror import MirrorChange, MirrorStatus
from nvmf.target.io.mirrored import Mirrored

_log = logging.getLogger(__name__)

_OPEN_FOR = 15.0
"""Seconds in which enough legs have to be there when the target starts."""
_RETRY = 1.0
"""Seconds between two attempts to open the mirror."""
_SMALL = 256 << 20
"""Bytes of a leg below which regions are smaller."""


class ManagedMirror(Mirrored):
    """See the module."""

    def __init__(self, config: NamespaceConfig, where: str) -> None:
        """where: the namespace, for messages."""
        self._config = config
        self._replicas: dict[LegConfig, Replica] = {}
        self._legs: list[LegConfig | None] = []
        """By their index in the mirror; None: a leg that the configuration does not have."""
        self._mirror: Mirror | None = None
        self._watching = Watching(where)
        self._away = False
        """A leg could not be reached when the mirror was opened last."""
        self._usable = asyncio.Event()
        self._users = 0
        self._unused = asyncio.Event()
        self._unused.set()
        self._changing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    # ---- the store ----

    async def open(self) -> None:
        """Create the mirror or become its writer; wait for legs that are not there yet."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _OPEN_FOR
        away, said = True, ""
        while self._mirror is None:
            try:
                self._mirror = await self._opened(self._config.legs)
            except Error as error:
                # The second time that all legs are there, waiting does not help.
                if loop.time() + _RETRY > end or not (away or self._away):
                    raise OSError(errno.EIO, str(error)) from error
                if (why := str(error)) != said:
                    said = why
                    _log.warning("%s: waiting for the legs: %s", self._watching.where, why)
                away = self._away
                await asyncio.sleep(_RETRY)
        self.block_size = self._mirror.block_size
        self.size = self._mirror.size
        self._usable.set()
        self._see()
        self._tasks += [asyncio.create_task(self._watch()), asyncio.create_task(self._follow())]

    async def read(self, offset: int, length: int) -> bytes:
        """Read from a leg that is in sync."""
        async with self._use() as mirror:
            return await mirror.read(offset, length)

    async def write(self, offset: int, data: bytes) -> None:
        """Write to all legs; when a quorum has it, it is stable."""
        async with self._use() as mirror:
            await mirror.write(offset, data)

    async def close(self) -> None:
        """Disconnect from the legs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._mirror is not None:
            await self._mirror.close()

    @asynccontextmanager
    async def _use(self) -> AsyncIterator[Mirror]:
        while not self._usable.is_set():
            await self._usable.wait()
        assert self._mirror is not None
        self._users += 1
        self._unused.clear()
        try:
            yield self._mirror
        finally:
            self._users -= 1
            if not self._users:
                self._unused.set()

    # ---- opening ----

    def _replica(self, leg: LegConfig | None) -> Replica:
        if leg is None:
            return Absent()
        found = self._replicas.get(leg)
        if found is None:
            found = self._replicas[leg] = self._new(leg)
        return found

    def _new(self, leg: LegConfig) -> Replica:
        return replica_for(leg, self._config.block_size, reserve=self._config.fence != "none")

    def _on(self, legs: Sequence[LegConfig | None], quorum: int) -> Mirror:
        return Mirror(
            [self._replica(leg) for leg in legs],
            quorum,
            resync_rate=self._config.resync_rate or None,
            adopt_blank=True,
        )

    async def _opened(self, legs: Sequence[LegConfig]) -> Mirror:
        found = unused(await asyncio.gather(*(look(self._replica(leg)) for leg in legs)))
        self._away = any(one.away for one in found)
        shape = form_of(found)
        if shape is None:
            return await self._created(legs, found)
        chosen = [legs[at] if at is not None else None for at in arrange(found, shape)]
        mirror = self._on(chosen, shape.quorum)
        try:
            await mirror.open()
        except BaseException:
            await mirror.close()
            raise
        self._legs = chosen
        self._drop_unused()
        return mirror

    async def _created(self, legs: Sequence[LegConfig], found: Sequence[Found]) -> Mirror:
        """Make blank legs a mirror."""
        pairs = list(zip(legs, found, strict=True))
        away = [f"{leg.name}: {one.why}" for leg, one in pairs if one.away]
        wrong = [
            f"{leg.name}: {one.why or 'it was made a leg, and never taken in'}"
            for leg, one in pairs
            if not (one.blank or one.away)
        ]
        if wrong:
            raise ReplicationError(
                f"no leg belongs to a mirror, and not all are blank ({'; '.join(wrong + away)})"
            )
        if away:
            raise ReplicationError(f"legs of a new mirror cannot be opened ({'; '.join(away)})")
        mirror = self._on(legs, self._config.legs_needed)
        small = min(self._replica(leg).size for leg in legs) < _SMALL
        try:
            region = 64 << 10 if small else 1 << 20
            await mirror.create(region=region, block=self._config.block_size)
        except ValueError as error:
            await mirror.close()
            raise ReplicationError(str(error)) from error
        except BaseException:
            await mirror.close()
            raise
        self._legs = [*legs]
        return mirror

    # ---- states ----

    def status(self) -> MirrorStatus:
        """Return the latest state, at most a moment old."""
        return self._watching.status

    def listen(self, told: Callable[[MirrorChange], None]) -> None:
        """Call told for each change of a state, past and future."""
        self._watching.listen(told)

    def _see(self) -> None:
        self._watching.see(self._mirror, [leg.name if leg else None for leg in self._legs])

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if self._mirror is not None:
                await self._mirror.stirred()
            began = loop.time()
            self._see()
            await asyncio.sleep(max(0.1, 20 * (loop.time() - began)))  # many regions take long

    async def resync(self) -> None:
        """Try all legs again that are lost; take over again from a different writer, and after an
        internal error.
        """
        async with self._changing:
            mirror = self._mirror
            if mirror is None or mirror.state in (MirrorState.DEPOSED, MirrorState.CLOSED):
                try:
                    await self._again(self._present())
                except Error as error:
                    raise OSError(errno.EIO, str(error)) from error
                return
            failed = []
            for index, one in enumerate(mirror.replicas):
                if one.state is not LegState.IN:  # or it is being tried again
                    try:
                        await mirror.rejoin(index)
                    except ReplicationError as error:
                        failed.append(f"{one.name}: {error}")
        if failed:
            raise OSError(errno.EIO, "; ".join(failed))

    # ---- changes ----

    def _present(self) -> list[LegConfig]:
        return [leg for leg in self._legs if leg is not None]

    async def _follow(self) -> None:
        """Open a mirror again that was closed, and change it to what the configuration says."""
        said = ""
        while True:
            try:
                if self._mirror is None:
                    async with self._changing:
                        if self._mirror is None:
                            await self._again(self._present() or self._config.legs)
                elif self._differs(self._mirror):
                    await self.reconfigure(self._config)
                said = ""
            except (OSError, Error) as error:
                if (why := str(getattr(error, "strerror", error))) != said:
                    said = why
                    _log.warning("%s: %s; it is tried again", self._watching.where, why)
            await asyncio.sleep(_RETRY)

    def _differs(self, mirror: Mirror) -> bool:
        wanted = {leg.name for leg in self._config.legs}
        have = {leg.name if leg else None for leg in self._legs}
        return wanted != have or mirror.form.quorum != self._config.legs_needed

    async def reconfigure(self, config: NamespaceConfig) -> None:
        """Have the legs, the quorum and the rate of a configuration."""
        async with self._changing:
            before = self._config
            try:
                await self._reconfigure(config)
            except Error as error:
                self._config = before
                raise OSError(errno.EIO, str(error)) from error
            finally:
                self._see()

    async def _reconfigure(self, config: NamespaceConfig) -> None:
        mirror = self._mirror
        if mirror is None:
            raise ReplicationError("the mirror is not open")
        mirror.resync_rate = config.resync_rate or None
        self._config = config
        wanted = {leg.name: leg for leg in config.legs}
        for index, leg in enumerate(self._legs):
            if leg and leg.name in wanted and wanted[leg.name] != leg:
                await self._replace(index, wanted[leg.name])
        here = {leg.name for leg in self._present()}
        new = [leg for leg in config.legs if leg.name not in here]
        gone = [i for i, leg in enumerate(self._legs) if leg is None or leg.name not in wanted]
        while gone and new:
            await self._replace(gone.pop(0), new.pop(0))
        for leg in new:
            legs = [*self._legs, leg]
            await self._reshape(legs, [*range(len(self._legs)), -1], config)
        for index in reversed(gone):
            last = len(self._legs) - 1
            places = [last if i == index else i for i in range(last)]
            await self._reshape([self._legs[place] for place in places], places, config)
        if self._mirror is not None and self._mirror.form.quorum != config.legs_needed:
            await self._reshape(self._legs, [*range(len(self._legs))], config)

    async def _replace(self, index: int, leg: LegConfig) -> None:
        mirror, old = self._mirror, self._legs[index]
        assert mirror is not None
        replica, before = self._new(leg), self._replicas.get(old) if old else None
        fresh = False

        async def blank() -> bool:
            nonlocal fresh
            found = await examine(leg, mirror.form, self._config.block_size, replica, before)
            header = found.header
            fresh = header is None or (header.geometry, header.index) != (mirror.form, index)
            if header is not None and fresh and header.geometry == mirror.form:
                raise ReplicationError(f"{leg.name} is already a leg of the mirror")
            return fresh

        await mirror.replace(index, replica, blank)
        if old is not None and before is not None:
            del self._replicas[old]
            if fresh and old.name != leg.name:  # else it is the same, by a different name
                self._let_go(before)
        self._replicas[leg] = replica
        self._legs[index] = leg

    async def _reshape(
        self, legs: Sequence[LegConfig | None], places: list[int], config: NamespaceConfig
    ) -> None:
        mirror = self._mirror
        assert mirror is not None
        if -1 in places:
            leg = legs[places.index(-1)]
            assert leg is not None
            unit = self._config.block_size
            found = await examine(leg, mirror.form, unit, self._replica(leg), None)
            if found.header is not None and found.header.geometry == mirror.form:
                raise ReplicationError(f"{leg.name} is already a leg of the mirror")
        every = mirror.replicas
        chosen = [every[at] for at in places if at >= 0]
        late = [one for one in chosen if one.lagging or one.state is not LegState.IN]
        if late:
            said = "; ".join(f"{one.name}: {one.why or 'it is resynchronised'}" for one in late)
            raise ReplicationError(
                f"legs can be added and removed while all others are in sync, not now ({said}); "
                "wait, or replace or remove the leg that is lost first"
            )
        quorum = min(config.legs_needed, len(legs))
        async with self._paused():
            form, epoch = mirror.form, mirror.epoch
            await mirror.close()
            self._mirror = None
            made = self._on(legs, quorum)
            try:
                await made.reshape(form, epoch, places)
            except Error:
                await made.close()
                with contextlib.suppress(Error):  # else it is tried again: _follow()
                    await self._again(self._present(), legs)
                raise
            self._mirror, self._legs = made, [*legs]
        self._drop_unused()

    def _drop_unused(self) -> None:
        for leg in self._replicas.keys() - set(self._present()):
            self._let_go(self._replicas.pop(leg))

    def _let_go(self, replica: Replica) -> None:
        """Close a replica that is no leg, and let others use it."""
        task = asyncio.create_task(release(replica))
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _again(self, *choices: Sequence[LegConfig | None]) -> None:
        """Open the mirror again, on the first of these legs with which it can be opened."""
        async with self._paused():
            if self._mirror is not None:
                await self._mirror.close()
                self._mirror = None
            failed = ""
            for legs in choices:
                try:
                    self._mirror = await self._opened([leg for leg in legs if leg is not None])
                    return
                except Error as error:
                    failed = failed or str(error)
            raise ReplicationError(failed)

    @asynccontextmanager
    async def _paused(self) -> AsyncIterator[None]:
        """Let commands wait while the mirror is closed."""
        self._usable.clear()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.time_limit):
                    await self._unused.wait()
            yield
        finally:
            if self._mirror is not None:
                self._usable.set()
