# SPDX-License-Identifier: BSD-3-Clause
"""Log: an append-only log on several replicas, for a database's write-ahead log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self, cast
from uuid import uuid4

from nvmf.replication import logformat as form
from nvmf.replication.appending import tail_word
from nvmf.replication.logcore import Append, LogState
from nvmf.replication.machine import LegState, Op, ReplicationError
from nvmf.replication.recovery import LogTasks
from nvmf.replication.replica import Replica
from nvmf.replication.shell import Shell


class Log:
    """An append-only log.  Records are bytes; each has an LSN, which grows from record to record.

    Any number of tasks may append at the same time: records that wait for the replicas at the same
    time travel together.  QuorumLost ends what cannot be acknowledged; call recover() when the
    replicas are back.  Deposed: a different Log object, here or elsewhere, has taken over.
    """

    def __init__(
        self, replicas: Sequence[Replica], quorum: int, *, timeout: float = 5.0, depth: int = 4
    ) -> None:
        """Create the object; create() or recover() sends the first command.

        Args:
            replicas: Always the same ones, in the same order.
            quorum: Replicas that have a record before append() returns. A log of n replicas is
                recovered with max(quorum, n - quorum + 1) of them.
            timeout: Seconds after which a replica that does not answer is lost.
            depth: Frames under way; the records that come meanwhile share the next one.
        """
        self._replicas = replicas
        self._quorum = quorum
        self._depth = depth
        self._timeout = timeout
        self._start()

    def _start(self) -> None:
        self._core = LogTasks(len(self._replicas), self._quorum, depth=self._depth)
        self._shell = Shell(self._core, self._replicas, self._timeout)

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
    def state(self) -> LogState:
        """The state of the log."""
        return LogState.BROKEN if self._shell.fault else self._core.state

    @property
    def replicas(self) -> list[tuple[str, LegState, str]]:
        """Name and state of each replica, and why it is out."""
        pairs = zip(self._replicas, self._core.legs, strict=True)
        return [(replica.name, leg.state, leg.why) for replica, leg in pairs]

    @property
    def head(self) -> int:
        """The LSN at which the oldest record is, or after it."""
        return self._core.head

    @property
    def tail(self) -> int:
        """All records have a lower LSN."""
        return self._core.tail

    @property
    def tail_words(self) -> list[str]:
        """How each replica writes the log's tail word, such as "atomic-write"; "": it does not."""
        has = self._core.header.tail
        return [tail_word(replica) if has else "" for replica in self._replicas]

    async def create(self, size: int | None = None, *, tail: bool | None = None) -> None:
        """Make the replicas a new log of size bytes (as many as they have), and open it.

        What is on them is lost.

        Args:
            size: Bytes of the log.
            tail: Whether the log has tail words; None: if all replicas can write them.

        Raises:
            ReplicationError: The log cannot be created there.
        """
        for replica in self._replicas:
            await replica.fence()
        unable = [replica.name for replica in self._replicas if not tail_word(replica)]
        if tail and unable:
            raise ReplicationError(
                f"cannot create a log with tail words: {', '.join(unable)} cannot write them; use "
                "remote memory with the method write-flush-tail, or a log without tail words"
            )
        words = not unable if tail is None else tail
        unit = max(replica.unit for replica in self._replicas)
        room = min(replica.size for replica in self._replicas) - form.START
        room -= form.SLOT if words else 0
        await self._shell.ask(
            lambda op: self._core.run(
                op, self._core.create(uuid4().bytes, unit, min(size or room, room), tail=words)
            )
        )
        await self.recover()

    async def recover(self) -> None:
        """Become the writer: afterwards the log has all that was acknowledged, and is open.

        Raises:
            QuorumLost: Too few replicas can be reached.
            Damaged: The replicas that can be reached do not have all that was acknowledged.
        """
        if self.state is not LogState.CLOSED:
            await self._shell.close()
            self._start()
        await self._shell.ask(lambda op: self._core.run(op, self._core.recover()))

    async def append(self, record: bytes) -> int:
        """Append a record; its LSN, when a quorum has made it persistent.

        Raises:
            LogFull: Truncate the log first.
            QuorumLost: The record may or may not be there after recover().
        """

        def begin(op: Op) -> None:
            self._core.append(Append(op.end_as, data=bytes(record)))

        return cast(int, await self._shell.ask(begin))

    async def truncate(self, lsn: int) -> int:
        """Forget the records before lsn, as far as whole frames allow; the new head."""
        return cast(
            int,
            await self._shell.ask(lambda op: self._core.run(op, self._core.truncate(lsn))),
        )

    async def records(self, lsn: int = 0) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (LSN, record) of all acknowledged records from lsn on, in order."""
        at: int | None = max(lsn, self.head)
        while at is not None:
            position = at
            found, at = cast(
                tuple[list[tuple[int, bytes]], int | None],
                await self._shell.ask(
                    lambda op, position=position: self._core.run(  # type: ignore[misc]
                        op, self._core.fetch(position)
                    )
                ),
            )
            for where, record in found:
                if where >= lsn:
                    yield where, record

    async def rejoin(self, index: int) -> None:
        """Bring a replica that was lost up to date, while the log is in use."""
        await self._shell.ask(lambda op: self._core.run(op, self._core.rejoin(index)))

    async def close(self) -> None:
        """Disconnect from the replicas; what is not acknowledged may or may not be there."""
        await self._shell.close()
