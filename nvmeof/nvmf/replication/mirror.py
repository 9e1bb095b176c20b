# SPDX-License-Identifier: BSD-3-Clause
"""Mirror: a block device on several replicas."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast
from uuid import uuid4

from nvmf.replication.machine import (
    Blank,
    Damaged,
    LegState,
    Misplaced,
    Op,
    ReplicaError,
    ReplicationError,
)
from nvmf.replication.mirrorbase import MirrorState
from nvmf.replication.mirrorformat import Geometry
from nvmf.replication.mirrormany import submit_many
from nvmf.replication.mirrorparts import What
from nvmf.replication.pacing import Paced
from nvmf.replication.replica import Replica
from nvmf.replication.shell import Shell

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True)
class ReplicaStatus:
    """A replica of a mirror."""

    name: str
    state: LegState
    why: str
    """Why it is out."""
    lagging: int
    """Regions in which it lags."""
    refused: bool = False
    """It is out because its content cannot be used."""


class Mirror:
    """A block device: written to all replicas, acknowledged at the quorum, read from any in sync.

    Opening it fences the earlier writer, whose operations end with Deposed.  Concurrent reads and
    writes are linearizable for each block.  With fewer replicas than the quorum, operations wait.
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
        adopt_blank: bool = False,
    ) -> None:
        """Create the object; create() or open() sends the first command.

        Args:
            replicas: Always the same ones, in the same order: at most 15.
            quorum: Replicas that have a write before it is acknowledged. A mirror of n replicas is
                opened with max(quorum, n - quorum + 1) of them.
            timeout: Seconds after which a replica that does not answer is lost.
            patience: Seconds for which a write that a quorum has waits for the other replicas.
                After that they lag in its region, and are resynchronised.
            resync_rate: Maximum bytes a second to copy while the mirror is in use; None: no limit.
            retry: Seconds after which a replica that was lost is tried again, and the others are
                asked whether they are there while nobody writes.
            lost: Called with name and reason when a replica was lost; its exceptions are logged.
            adopt_blank: A replica that is tried again may be blank, and is then copied as a whole.
        """
        self._core = Paced(len(replicas), quorum, patience=patience)
        self._core.rate = resync_rate
        self._shell = Shell(self._core, replicas, timeout)
        self._replicas = self._shell.replicas
        self._retry = retry
        self._adopt_blank = adopt_blank
        self._changing = asyncio.Lock()
        """Held while a replica that is out is tried again or replaced."""
        if lost:
            self._shell.tell(lost)
        self._tasks: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._used = asyncio.Event()
        """Set by a write: a mirror in which nothing happens has the time told once a second."""

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
        return MirrorState.CLOSED if self._shell.fault else self._core.state

    @property
    def replicas(self) -> list[ReplicaStatus]:
        """Return the status of each replica."""
        lags = [0] * len(self._replicas)
        for region in self._core.regions():
            for index in range(len(lags)):
                lags[index] += region.lag >> index & 1
        pairs = zip(self._replicas, self._core.legs, lags, strict=True)
        return [
            ReplicaStatus(r.name, leg.state, leg.why, lag, isinstance(leg.error, Damaged))
            for r, leg, lag in pairs
        ]

    @property
    def form(self) -> Geometry:
        """Its size, regions and members; known when it is open."""
        return self._core.shape

    @property
    def epoch(self) -> int:
        """Return the epoch of this writer; known when the mirror is open."""
        return self._core.epoch

    @property
    def resync_rate(self) -> float | None:
        """See Mirror; can be changed at any time."""
        return self._core.rate

    @resync_rate.setter
    def resync_rate(self, rate: float | None) -> None:
        self._core.rate = rate

    @property
    def size(self) -> int:
        """Bytes; known when it is open."""
        return self._core.shape.size

    @property
    def block_size(self) -> int:
        """Bytes of a block; known when it is open."""
        return self._core.shape.block

    async def create(self, *, region: int = 1 << 20, block: int = 0) -> None:
        """Make the replicas a new mirror, and open it.

        What is on them is lost: the data of the first replica is what the mirror has, and the
        others are copied from it.

        Args:
            region: Bytes that an entry of the dirty map stands for.
            block: Bytes of a block at least; default: of the replicas.
        """
        for replica in self._replicas:
            await replica.fence()
        block = max(block, *(replica.unit for replica in self._replicas))
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
        self._begin()

    async def reshape(self, old: Geometry, epoch: int, places: Sequence[int]) -> None:
        """Open a mirror with different replicas or a different quorum than it has.

        Its earlier Mirror was closed, while all replicas that stay had everything.

        Args:
            old: The form of that one.
            epoch: The epoch of that one.
            places: The index that each replica had there; -1: it is new, and what is on it is lost.
                At most one is new, and at most one is missing.

        Raises:
            ReplicationError: A replica is lost, too small or in use. Open the mirror in its old
                form again; if that fails, in the new one.
        """
        core = self._core
        await self._shell.ask(lambda op: core.run(op, core.reshape(old, epoch, places)))
        self._begin()

    def _begin(self) -> None:
        core = self._core
        core.clock = asyncio.get_running_loop().time
        core.wake = self._wake
        for lane in range(core.most_lanes):
            core.run(Op(), core.resync(lane))
        core.run(Op(), core.beats())
        self._shell.pump()
        always = (self._ticks(), self._retries(), self._look_in())
        self._tasks = [asyncio.create_task(each) for each in always]

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
        self._used.set()
        await self._shell.ask(lambda op: core.submit(op, What.WRITE, offset, bytes(data)))
        core.used = core.clock()

    async def write_many(self, offsets: Iterable[int], data: Buffer) -> None:
        """Write many blocks with one call: consecutive parts of data, of one length, to offsets.

        When this returns, all of them are persistent on a quorum. Each is linearizable by itself.

        Raises:
            Deposed: A different writer has taken over: each may or may not have been written.
            ValueError: They are not whole blocks, overlap, or are not in the mirror.
        """
        core, places, whole = self._core, list(offsets), bytes(memoryview(data))
        if not places and not whole:
            return
        core.used = core.clock()
        self._used.set()
        length = len(whole) // max(len(places), 1)
        await self._shell.ask(lambda op: submit_many(core, op, places, whole, length))
        core.used = core.clock()

    async def rejoin(self, index: int) -> None:
        """Take a replica that was lost in again now, rather than at the next retry.

        Raises:
            ReplicationError: It cannot be taken in; the reason is also in its status.
        """
        async with self._changing:
            is_in = self._core.legs[index].state is LegState.IN
            if not is_in or self.state in (MirrorState.CLOSED, MirrorState.DEPOSED):
                await self._rejoin(index)  # or the reason why it cannot be

    async def _rejoin(self, index: int) -> None:
        await self._shell.ask(lambda op: self._core.run(op, self._core.rejoin(index)))

    async def _adopt(self, index: int) -> None:
        await self._shell.ask(lambda op: self._core.run(op, self._core.adopt(index)))

    async def replace(
        self,
        index: int,
        replica: Replica,
        blank: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Use a different replica, while the mirror is in use.

        Args:
            index: The replica that it replaces, which is lost or not.
            replica: The new one.
            blank: Called when the old one is closed. Returns whether what is on the new one is
                lost, and it is copied as a whole; otherwise it has to be the same one, reached in a
                different way. Raises ReplicationError if it cannot be used. Default: it is lost.

        Raises:
            ReplicationError: It cannot be used; the old one is lost until it is tried again.
        """
        core = self._core
        async with self._changing:
            others = [i for i in core.inside() if i != index]
            if len(others) < min(core.quorum, len(core.legs) - 1):
                raise ReplicationError(
                    f"cannot replace replica {index}: too few others are in ({core.reasons()}); "
                    "bring them back first"
                )
            if any(all(region.lag >> i & 1 for i in others) for region in core.regions()):
                raise ReplicationError(
                    f"cannot replace replica {index}: no other one has all data yet; wait until a "
                    "different replica is in sync"
                )
            self._shell.call(core.lose, index, ReplicaError("it is being replaced"))
            old = await self._shell.exchange(index, replica)
            self._shell.pump()
            await self._shell.release(old)
            try:
                fresh = await blank() if blank else True
                await (self._adopt(index) if fresh else self._rejoin(index))
            except BaseException:
                await self._shell.exchange(index, old)
                await replica.close()
                raise

    async def stirred(self) -> None:
        """Wait until a replica has answered or failed since the last call, at most a second."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._shell.events.wait()
        self._shell.events.clear()

    async def clean(self) -> None:
        """Wait until all replicas are in and have everything."""
        while self.state is not MirrorState.CLEAN:
            self._shell.events.clear()
            if self.state is MirrorState.DEPOSED:
                raise self._core.refusal()
            if self._shell.fault:
                raise self._shell.refusal()
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
        self._shell.call(self._core.tick, self._core.clock())
        self._shell.pump()

    async def _ticks(self) -> None:
        core = self._core
        while True:
            self._tick()
            busy = core.ops or core.wanted or core.written or self.state is not MirrorState.CLEAN
            if busy:
                await asyncio.sleep(max(core.patience / 2, 0.005))
                continue
            self._used.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._used.wait()

    async def _retries(self) -> None:
        while self.state is not MirrorState.DEPOSED:
            await asyncio.sleep(self._retry)
            for index, leg in enumerate(self._core.legs):
                if leg.state is LegState.OUT:
                    async with self._changing:
                        if leg.state is LegState.OUT:
                            await self._try_again(index)

    async def _look_in(self) -> None:
        """Notice replicas that are gone, and a writer that has taken over, without a write."""
        core = self._core
        while self.state is not MirrorState.DEPOSED:
            await asyncio.sleep(self._retry)
            if not core.written:
                with contextlib.suppress(ReplicationError):
                    await self._shell.ask(lambda op: core.run(op, core.look_in()))

    async def _try_again(self, index: int) -> None:
        with contextlib.suppress(ReplicationError):
            await self._rejoin(index)
            return
        with contextlib.suppress(ReplicationError):
            match self._core.legs[index].error:
                case Blank() if self._adopt_blank:
                    await self._adopt(index)
                case Misplaced(index=place) if self._core.legs[place].state is LegState.OUT:
                    other = await self._shell.exchange(index, self._replicas[place])
                    await self._shell.exchange(place, other)
