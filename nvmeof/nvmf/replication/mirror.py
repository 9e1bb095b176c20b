# SPDX-License-Identifier: BSD-3-Clause
"""Mirror: a block device on several replicas."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, cast
from uuid import uuid4

from nvmf.replication.machine import LegState, Op, ReplicationError, Steps
from nvmf.replication.mirrorbase import MirrorState
from nvmf.replication.mirrorformat import Geometry
from nvmf.replication.mirrorparts import What
from nvmf.replication.mirrortasks import MirrorTasks
from nvmf.replication.replica import Replica
from nvmf.replication.shell import Shell

_QUIET = 0.1
"""Seconds without a read or write after which copying is not limited."""
_SLACK = 0.02
"""Seconds by which copying may catch up."""


@dataclass(frozen=True)
class ReplicaStatus:
    """A replica of a mirror."""

    name: str
    state: LegState
    why: str
    """Why it is out."""
    lagging: int
    """Regions in which it lags."""


class _Paced(MirrorTasks):
    """Copies at most rate bytes a second while others use the mirror, else as fast as it can."""

    rate: float | None = None
    used = -_QUIET
    """When the mirror was last read or written."""
    wake: Callable[[float], object] = staticmethod(lambda _: None)
    """Called with seconds, after which tick() is to be called."""
    clock: Callable[[], float] = staticmethod(lambda: 0.0)
    _due = 0.0

    def _limited(self) -> bool:
        return bool(self.rate) and (bool(self.ops) or self.clock() - self.used < _QUIET)

    def width(self) -> int:
        return 1 if self._limited() else self.most_chunks

    def pace(self, length: int) -> Steps[None]:
        yield []
        if not self.rate or not self._limited():
            return
        # A pause that was too long is made up for, or the error of many short ones would add up.
        self._due = max(self._due, self.clock() - _SLACK) + length / self.rate
        while (left := self._due - self.clock()) > 0 and not self.deposed and self._limited():
            self.wake(left)
            yield self.work


class Mirror:
    """A block device: written to all replicas, acknowledged at the quorum, read from any in sync.

    One writer: opening a mirror fences the earlier one, whose operations end with Deposed.  Reads
    and writes of any number of tasks may overlap.  For each block they are linearizable.  While
    fewer replicas than the quorum are there, operations wait.
    """

    def __init__(
        self,
        replicas: Sequence[Replica],
        quorum: int,
        *,
        timeout: float = 5.0,
        patience: float = 0.05,
        resync_rate: float | None = 32e6,
        retry: float = 1.0,
        lost: Callable[[str, str], None] | None = None,
    ) -> None:
        """Create the object; create() or open() sends the first command.

        Args:
            replicas: Always the same ones, in the same order: at most 15.
            quorum: Replicas that have a write before it is acknowledged. A mirror of n replicas is
                opened with max(quorum, n - quorum + 1) of them.
            timeout: Seconds after which a replica that does not answer is lost.
            patience: Seconds for which a write that a quorum has waits for the other replicas.
                After that they lag in its region, and are resynchronised.
            resync_rate: Bytes a second to copy at most while the mirror is read or written. None:
                as many as possible, as when it is not used.
            retry: Seconds after which a replica that was lost is tried again.
            lost: Called with the name of a replica that was lost, and the reason.
        """
        self._replicas = replicas
        self._core = _Paced(len(replicas), quorum, patience=patience)
        self._core.rate = resync_rate
        self._shell = Shell(self._core, replicas, timeout)
        self._retry = retry
        if lost:
            self._core.watch = lambda index, why: lost(replicas[index].name, why)
        self._tasks: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def state(self) -> MirrorState:
        """The state of the mirror."""
        return self._core.state

    @property
    def replicas(self) -> list[ReplicaStatus]:
        """Return the status of each replica."""
        lags = [0] * len(self._replicas)
        for region in self._core.regions():
            for index in range(len(lags)):
                lags[index] += region.lag >> index & 1
        pairs = zip(self._replicas, self._core.legs, lags, strict=True)
        return [ReplicaStatus(r.name, leg.state, leg.why, lag) for r, leg, lag in pairs]

    @property
    def size(self) -> int:
        """Bytes; known when it is open."""
        return self._core.shape.size

    @property
    def block_size(self) -> int:
        """Bytes of a block; known when it is open."""
        return self._core.shape.block

    async def create(self, *, region: int = 1 << 20) -> None:
        """Make the replicas a new mirror, and open it.

        What is on them is lost: the data of the first replica is what the mirror has, and the
        others are copied from it.

        Args:
            region: Bytes that an entry of the dirty map stands for.
        """
        for replica in self._replicas:
            await replica.fence()
        block = max(replica.unit for replica in self._replicas)
        room = min(replica.size for replica in self._replicas)
        core = self._core
        shape = Geometry.fit(uuid4().bytes, len(core.legs), core.quorum, block, region, room)
        await self._shell.ask(lambda op: core.run(op, core.create(shape)))
        await self.open()

    async def open(self) -> None:
        """Become the writer: fence the earlier one, and find out which replica has what.

        Raises:
            QuorumLost: Too few replicas can be reached, or only those that lack something.
        """
        core = self._core
        await self._shell.ask(lambda op: core.run(op, core.takeover_now()))
        core.clock = asyncio.get_running_loop().time
        core.wake = self._wake
        core.run(Op(), core.resync())
        self._shell.pump()
        self._tasks = [asyncio.create_task(self._ticks()), asyncio.create_task(self._retries())]

    async def read(self, offset: int, length: int) -> bytes:
        """Return whole blocks.

        Raises:
            Deposed: A different writer has taken over.
        """
        core = self._core
        core.used = core.clock()
        found = await self._shell.ask(lambda op: core.submit(op, What.READ, offset, length=length))
        core.used = core.clock()
        return cast(bytes, found)

    async def write(self, offset: int, data: bytes) -> None:
        """Write whole blocks; when this returns they are persistent on a quorum.

        Raises:
            Deposed: A different writer has taken over: it may or may not have been written.
        """
        core = self._core
        core.used = core.clock()
        await self._shell.ask(lambda op: core.submit(op, What.WRITE, offset, bytes(data)))
        core.used = core.clock()

    async def rejoin(self, index: int) -> None:
        """Take a replica that was lost in again now, rather than at the next retry."""
        await self._shell.ask(lambda op: self._core.run(op, self._core.rejoin(index)))

    async def clean(self) -> None:
        """Wait until all replicas are in and have everything."""
        while self.state is not MirrorState.CLEAN:
            self._shell.events.clear()
            if self.state is MirrorState.DEPOSED:
                raise self._core.refusal()
            await self._shell.events.wait()

    async def close(self) -> None:
        """Wait for what is under way (unless the mirror is blocked), and disconnect."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.state in (MirrorState.CLEAN, MirrorState.DEGRADED):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._shell.timeout):
                    await self._shell.ask(lambda op: self._core.run(op, self._core.close()))
        await self._shell.close()
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._tick()

    def _tick(self) -> None:
        self._core.tick(self._core.clock())
        self._shell.pump()

    async def _ticks(self) -> None:
        while True:
            self._tick()
            await asyncio.sleep(max(self._core.patience / 2, 0.005))

    async def _retries(self) -> None:
        while self.state is not MirrorState.DEPOSED:
            await asyncio.sleep(self._retry)
            for index, leg in enumerate(self._core.legs):
                if leg.state is LegState.OUT:
                    with contextlib.suppress(ReplicationError):
                        await self.rejoin(index)
