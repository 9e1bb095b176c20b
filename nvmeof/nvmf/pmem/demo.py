# SPDX-License-Identifier: BSD-3-Clause
"""The demonstration: a log on three targets, two crashes, and a check of all that was acknowledged.

1. Three targets are started, and eight tasks append records to a log with a quorum of two.
2. One target is killed while they append; they go on.
3. The writer ends while they append. A new writer recovers the log with the two other targets.
4. The lost target is started again, and is resynchronised while records are appended.
5. A different target is killed. What the resynchronised one has is needed now: the log is
   recovered once more.

After each recovery every acknowledged record must be there, once, with its content and its place.
At the end the methods of persistence are measured, and what the replication costs.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from nvmf.initiator import TransportId
from nvmf.initiator.base.identity import host_identity
from nvmf.pmem.bench import Plan, Results, measure
from nvmf.pmem.demotarget import DemoError, Device, Target, Targets
from nvmf.pmem.platform import METHODS
from nvmf.pmem.remote import RemoteMemory
from nvmf.pmem.replicarows import ReplicaPlan, ReplicaResults
from nvmf.pmem.replicated import LOADS, measure_all
from nvmf.replication import Log, NamespaceReplica, ReplicationError

FILE_BYTES = 16 << 20
QUORUM = 2
_WRITERS = 8
_LOG_METHODS: dict[Device, tuple[str, ...]] = {
    "iwarp": ("nvme-fua", "write-send"),
    "roce": ("nvme-fua", "write-send", "write-flush", "write-flush-tail"),
}
"""The methods with which a log is measured."""
MAX_RECORDS = 20000
"""As many as the ring of the log has space for."""


@dataclass(frozen=True, slots=True)
class Check:
    """The contents of the log after a recovery."""

    when: str
    acknowledged: int
    """Records that had been acknowledged before."""
    found: int
    """Records of these that the log has at their LSN with their content."""
    seconds: float
    """Duration of the recovery."""

    @property
    def good(self) -> bool:
        """Whether nothing is missing."""
        return self.found == self.acknowledged


@dataclass(slots=True)
class Outcome:
    """The result of the demonstration."""

    killed: list[int] = field(default_factory=list)
    """Process IDs of the targets that were killed."""
    records: int = 0
    """Records that were acknowledged in all."""
    without: int = 0
    """Records that were acknowledged while a target was dead."""
    checks: list[Check] = field(default_factory=list)
    resync_seconds: float = 0.0
    bench: Results = field(default_factory=Results)
    replicas: ReplicaResults = field(default_factory=ReplicaResults)

    @property
    def good(self) -> bool:
        """Whether every acknowledged record was found each time."""
        return len(self.checks) == 2 and all(check.good for check in self.checks)


def content(number: int) -> bytes:
    """Return the record of a number: its length and its bytes follow from it."""
    word = sha256(b"%d" % number).digest()
    return b"%d:" % number + word * (1 + word[0] % 4)


class Writer:
    """Appends records, and keeps those that were acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, bytes] = {}
        """By LSN."""
        self._next = 0
        self._more = asyncio.Event()

    async def run(self, log: Log, until: float = math.inf) -> None:
        """Append with several tasks until this many records are acknowledged, or forever."""
        tasks = [asyncio.create_task(self._append(log, until)) for _ in range(_WRITERS)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _append(self, log: Log, until: float) -> None:
        while len(self.acknowledged) < until:
            record = content(self._next)
            self._next += 1
            self.acknowledged[await log.append(record)] = record
            self._more.set()

    async def reached(self, count: int) -> None:
        """Wait until this many records are acknowledged."""
        while len(self.acknowledged) < count:
            self._more.clear()
            await self._more.wait()


async def run(
    outcome: Outcome,
    *,
    records: int = 3000,
    seconds: float = 1.0,
    rounds: int = 1,
    sizes: tuple[int, ...] = (4096,),
    depths: tuple[int, ...] = (1,),
    folder: str | None = None,
    device: Device = "iwarp",
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Run the demonstration.

    Args:
        outcome: Where the results go, as they are known.
        records: Records to append, about, up to MAX_RECORDS.
        seconds: Of each measurement of a method.
        rounds: Measurements of the floor and the methods, in turn.
        sizes: Bytes of an operation of these.
        depths: Operations outstanding.
        folder: Where the targets' files are; default: /dev/shm.
        device: The embedded device of the targets and of the host.
        say: Told what happens, a sentence each.

    Raises:
        OSError: A target did not start, or could not be reached.
        ReplicationError: The log could not go on.
    """
    host = host_identity(None, None).nqn
    async with Targets(FILE_BYTES, host, folder, device) as targets:
        one = targets.all[0]
        await _need_memory(one, device)
        say(f"three targets run, with 16 MiB each, mapped, in {one.path.parent}")
        await _Play(outcome, targets.all, records, say).play()
        await one.start()  # without the log's reservation
        say(f"target 1 runs again; its methods of persistence are measured, {seconds:g} s each")
        plan = Plan(
            place=TransportId.of(one.url),
            nsid=1,
            hostnqn=host,
            device=device,
            methods=METHODS,
            sizes=sizes,
            depths=depths,
            seconds=seconds,
            rounds=rounds,
            processes=(one.pid,),
            force=True,
        )
        await measure(plan, outcome.bench, lambda done, total, what: say(f"measuring {what}"))
        if len(os.sched_getaffinity(0)) <= len(targets.all):
            # Targets that poll would take processor time from processes with work.
            say("the targets run again without polling: there are more processes than processors")
            await targets.stop_polling()
        replicas = ReplicaPlan(
            tuple(target.url for target in targets.all),
            QUORUM,
            sizes,
            depths,
            seconds,
            processes=tuple(target.pid for target in targets.all),
            hostnqn=host,
            methods=_LOG_METHODS[device],
            force=True,
        )
        await measure_all(replicas, LOADS, outcome.replicas, say)


async def _need_memory(target: Target, device: Device) -> None:
    """Raise DemoError if the target's file is not mapped: the measurements need that."""
    try:
        memory = await RemoteMemory.connect(target.url, force=True, device=device)
    except OSError as error:
        raise DemoError(
            f"{error.strerror or error}; choose a folder on tmpfs or DAX with --dir"
        ) from None
    await memory.close()


class _Play:
    """The part with the log."""

    def __init__(
        self, outcome: Outcome, targets: list[Target], records: int, say: Callable[[str], None]
    ) -> None:
        self._outcome = outcome
        self._targets = targets
        self._records = records
        self._say = say
        self._writer = Writer()

    async def play(self) -> None:
        await self._first()
        await self._second()
        await self._third()

    async def _first(self) -> None:
        """Kill a target, then the writer."""
        third = self._records // 3
        async with self._log() as log:
            await log.create()
            self._say(f"a log is on all three, quorum {QUORUM}; {_WRITERS} tasks append records")
            working = asyncio.create_task(self._writer.run(log))
            try:
                await self._reach(working, third)
                await self._kill(3)
                before = len(self._writer.acknowledged)
                await self._reach(working, before + third)
                self._outcome.without = len(self._writer.acknowledged) - before
                self._say(f"{self._outcome.without} records were acknowledged without it")
            finally:
                working.cancel()
                await asyncio.wait([working])
        self._say(f"the writer is gone, after {len(self._writer.acknowledged)} records")

    async def _second(self) -> None:
        """Recover with a new writer and two targets; then the third one returns."""
        async with self._log() as log:
            await self._recover(log, "after the loss of target 3 and of the writer")
            await self._targets[2].start()
            self._say("target 3 runs again, with its old file")
            until = len(self._writer.acknowledged) + self._records // 3
            working = asyncio.create_task(self._writer.run(log, until))
            try:
                before, began = len(self._writer.acknowledged), time.monotonic()
                await log.rejoin(2)
                self._outcome.resync_seconds = took = time.monotonic() - began
                more = len(self._writer.acknowledged) - before
                self._say(f"it was resynchronised in {took:.2f} s, while {more} were appended")
                await working
            finally:
                working.cancel()
                await asyncio.wait([working])

    async def _third(self) -> None:
        """Check the log with two targets, one of which was resynchronised."""
        await self._kill(1)
        async with self._log() as log:
            await self._recover(log, "after the loss of target 1, with target 3")
        self._outcome.records = len(self._writer.acknowledged)

    def _log(self) -> Log:
        return Log([NamespaceReplica(target.url) for target in self._targets], QUORUM, timeout=30.0)

    async def _reach(self, working: asyncio.Task[None], count: int) -> None:
        """Wait for records; raise the error that stopped the writer."""
        reached = asyncio.create_task(self._writer.reached(count))
        try:
            await asyncio.wait({reached, working}, return_when=asyncio.FIRST_COMPLETED)
            if not reached.done():
                await working
        finally:
            reached.cancel()

    async def _kill(self, number: int) -> None:
        target = self._targets[number - 1]
        pid = target.pid
        await target.kill()
        self._outcome.killed.append(pid)
        count = len(self._writer.acknowledged)
        self._say(f"target {number} (process {pid}) was killed, after {count} records")

    async def _recover(self, log: Log, when: str) -> None:
        began = time.monotonic()
        await log.recover()
        seconds = time.monotonic() - began
        found = {lsn: record async for lsn, record in log.records()}
        wanted = self._writer.acknowledged
        good = sum(found.get(lsn) == record for lsn, record in wanted.items())
        self._outcome.checks.append(Check(when, len(wanted), good, seconds))
        self._say(f"recovered {when}: {good} of {len(wanted)} acknowledged records are there")


__all__ = ["MAX_RECORDS", "Check", "Outcome", "ReplicationError", "run"]
