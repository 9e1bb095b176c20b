# SPDX-License-Identifier: BSD-3-Clause
"""The execution of a core's effects: calls if a replica supports them, else a task for each.

A read or write that a replica can send at once (QuickReplica) costs no task and no further turn of
the event loop: its end is a call, which may send what the core wants next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from nvmf.replication.appending import AppendReplica
from nvmf.replication.legs import L, LegMachine
from nvmf.replication.machine import (
    Effect,
    Fenced,
    Kind,
    Op,
    ReplicaError,
    ReplicationError,
    Spread,
)
from nvmf.replication.replica import CarefulReplica, QuickReplica, Replica
from nvmf.replication.spreader import Flight, Spreader, bundles

_log = logging.getLogger(__name__)


class Shell:
    """Runs a core on replicas.  One event loop."""

    def __init__(self, core: LegMachine[L], replicas: Sequence[Replica], timeout: float) -> None:
        self.core = core
        self.replicas = replicas = list(replicas)
        self.timeout = timeout
        """Seconds after which a replica that does not answer is lost."""
        core.room = lambda leg: (replicas[leg].size, replicas[leg].unit)
        core.tails = self._writes_tails
        self._quick = [each if isinstance(each, QuickReplica) else None for each in replicas]
        self._append = [each if isinstance(each, AppendReplica) else None for each in replicas]
        self._running: list[dict[asyncio.Task[None], Effect]] = [{} for _ in replicas]
        self._sent: list[set[Effect]] = [set() for _ in replicas]
        """Effects that were begun without a task and have not ended."""
        self._flights: dict[Flight, None] = {}
        """The same, of writes to several replicas at once."""
        self._spreader = Spreader(replicas)
        self._line: deque[tuple[float, Effect | Flight]] = deque()
        """All of these, and what has ended since, with the times when they are too late, in order.
        """
        self._timer: asyncio.TimerHandle | None = None
        self.events = asyncio.Event()
        """Set when an effect has ended."""
        self._asked: set[asyncio.Future[object]] = set()
        """The operations that callers wait for."""
        self.fault: Exception | None = None
        """The exception of the core, which is a fault of this program: it is no longer used."""

    def _writes_tails(self, leg: int) -> bool:
        replica = self._append[leg]
        return replica is not None and bool(replica.tail_word)

    def tell(self, lost: Callable[[str, str], None]) -> None:
        """Call lost(name, reason) when a replica is lost."""

        def watch(leg: int, why: str) -> None:
            try:
                lost(self.replicas[leg].name, why)
            except Exception:  # it is not an error of the core, which goes on
                _log.exception("the callback for a lost replica failed")

        self.core.watch = watch

    def refusal(self) -> ReplicationError:
        """Why nothing can be done after a fault."""
        return ReplicationError(
            f"replication has stopped after an internal error: {self.fault!r}; what was under way "
            "may or may not have been done; open it again"
        )

    def call(self, into: Callable[..., object], *how: object) -> None:
        """Call the core; if that raises, end all operations, and never call it again."""
        if self.fault is not None:
            return
        try:
            into(*how)
        except Exception as error:
            self._stop(error)

    def _stop(self, error: Exception) -> None:
        _log.error("replication has stopped after an internal error", exc_info=error)
        self.fault = error
        asked, self._asked = self._asked, set()
        for future in asked:
            if not future.done():
                future.set_exception(self.refusal())
        self.events.set()

    def pump(self) -> None:
        """Start what the core wants done."""
        self.call(self._pump)

    def _pump(self) -> None:
        while self.core.outbox:
            spreads: list[Spread] = []
            for effect in self.core.take():
                if isinstance(effect, Spread):
                    spreads.append(effect)
                elif not self._send(effect):
                    self._start(effect)
            for bundle in bundles(spreads):
                self._spread(bundle)

    # ---- with calls ----

    def _send(self, effect: Effect) -> bool:
        """Send a read or write without a task, if that is possible."""
        replica = self._quick[effect.leg]
        if replica is None or effect.tail:
            return False
        try:
            begun = self._begin(replica, effect)
        except Exception:  # a task then does it, and is told the reason if it fails as well
            return False
        if begun:
            self._sent[effect.leg].add(effect)
            self._expect(effect)
        return begun

    def _begin(self, replica: QuickReplica, effect: Effect) -> bool:
        if effect.kind is Kind.WRITE:

            def written(good: bool) -> None:
                self._answered(effect, b"" if good else None)

            return replica.begin_write(effect.offset, effect.data, written)
        if effect.kind is Kind.READ:

            def read(data: bytes | None) -> None:
                self._answered(effect, data)

            return replica.begin_read(effect.offset, effect.length, read)
        return False

    def _expect(self, what: Effect | Flight) -> None:
        """See that it ends in time."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self.timeout
        self._line.append((due, what))
        if self._timer is None:
            self._timer = loop.call_at(due, self._late)

    def _under_way(self, what: Effect | Flight) -> bool:
        if isinstance(what, Flight):
            return bool(what.live)
        return what in self._sent[what.leg]

    def _answered(self, effect: Effect, result: bytes | None) -> None:
        sent = self._sent[effect.leg]
        if effect not in sent:
            return  # it was given up
        sent.remove(effect)
        self._trim()
        if result is None or len(result) != effect.length:
            self._start(effect)  # again, for the retries and the reason
            return
        self.call(self.core.finished, effect, result)
        self.events.set()
        self.pump()

    def _trim(self) -> None:
        while self._line and not self._under_way(self._line[0][1]):
            self._line.popleft()

    def _late(self) -> None:
        """Give up what has not been answered in time."""
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._line:
            due, what = self._line[0]
            if self._under_way(what):
                if due > loop.time():
                    self._timer = loop.call_at(due, self._late)
                    break
                if isinstance(what, Flight):
                    for effect in self._land(what, what.live):
                        self.call(self.core.failed, effect, self._silence(effect))
                else:
                    self._sent[what.leg].remove(what)
                    self.call(self.core.failed, what, self._silence(what))
            self._line.popleft()
        self.events.set()
        self.pump()

    def _silence(self, effect: Effect) -> ReplicaError:
        name = self.replicas[effect.leg].name
        return ReplicaError(f"{name} has not answered a {effect.kind} for {self.timeout:g} s")

    # ---- to several replicas at once ----

    def _spread(self, spreads: list[Spread]) -> None:
        """Let the engine write to the replicas that can, and write to the others one by one."""
        flight = Flight(spreads)
        legs, flight.number = self._spreader.write(
            spreads,
            lambda has, failed: self._told(flight, has, failed),
            more=bool(self._flights),
        )
        if legs:
            flight.live = legs
            for spread in spreads:
                spread.progress = lambda: self._spreader.has(flight.number) & flight.live
            self._flights[flight] = None
            self._expect(flight)
        for leg in flight.legs:
            if not legs >> leg & 1:
                for spread in spreads:
                    for effect in spread.parts(leg):
                        if not self._send(effect):
                            self._start(effect)

    def _told(self, flight: Flight, has: int, failed: int) -> None:
        """All replicas have answered, or one has failed: that one is written to once more."""
        has &= flight.live
        failed &= flight.live
        flight.live &= ~(has | failed)
        if not flight.live:
            self._flights.pop(flight, None)
            self._trim()
        if failed:
            for effect in self._parts(flight, failed):
                self._start(effect)  # for the retries and the reason
        if has:
            for spread in flight.spreads:
                self.call(spread.answered, has)
        self.events.set()
        self.pump()

    def _land(self, flight: Flight, legs: int) -> list[Effect]:
        """Wait no longer for replicas; the effects of those that have not answered."""
        has = self._spreader.has(flight.number) & flight.live
        left = legs & flight.live & ~has
        flight.live &= ~(has | left)
        if not flight.live:
            self._flights.pop(flight, None)
        if has:
            for spread in flight.spreads:
                self.call(spread.answered, has)
        return self._parts(flight, left)

    def _parts(self, flight: Flight, legs: int) -> list[Effect]:
        members = [leg for leg in flight.legs if legs >> leg & 1]
        return [e for leg in members for spread in flight.spreads for e in spread.parts(leg)]

    # ---- with tasks ----

    def _start(self, effect: Effect) -> None:
        task = asyncio.create_task(self._do(effect))
        running = self._running[effect.leg]
        running[task] = effect
        task.add_done_callback(lambda ended: running.pop(ended, None))

    async def _do(self, effect: Effect) -> None:
        replica = self.replicas[effect.leg]
        try:
            async with asyncio.timeout(self.timeout):
                result = await self._on(replica, effect)
        except Fenced as error:
            self.call(self.core.failed, effect, error)
        except TimeoutError:
            self.call(self.core.failed, effect, self._silence(effect))
        except Exception as error:  # whatever a replica raises, it has failed
            self.call(self.core.failed, effect, ReplicaError(f"{replica.name}: {error}"))
        else:
            self.call(self.core.finished, effect, result)
        self.events.set()
        self.pump()

    async def _on(self, replica: Replica, effect: Effect) -> bytes:
        if effect.kind is Kind.READ:
            data = await replica.read(effect.offset, effect.length)
            if len(data) != effect.length:
                raise ReplicaError(f"it returned {len(data)} bytes for {effect.length}")
            return data
        appends = self._append[effect.leg]
        if effect.tail and appends is not None:
            await appends.append(effect.offset, effect.data, *effect.tail)
        elif effect.kind is Kind.WRITE:
            await replica.write(effect.offset, effect.data)
        elif effect.kind is Kind.FLUSH:
            await replica.flush()
        else:
            await self._fence(replica, effect)
        return b""

    async def _fence(self, replica: Replica, effect: Effect) -> None:
        """Open a replica again, which ends what is under way to it: the core is told of each."""
        leg = effect.leg
        ended = await self._give_up(leg)
        try:
            if effect.kind is Kind.RETURN and isinstance(replica, CarefulReplica):
                await replica.fence_again()
            else:
                await replica.fence()
        finally:
            self._spreader.again(leg)
            again = ReplicaError(f"{replica.name} was opened again")
            for effect in ended:
                self.call(self.core.failed, effect, again)

    async def _give_up(self, leg: int) -> list[Effect]:
        """Wait for nothing that is under way to a replica; the effects that have not ended."""
        ended = list(self._sent[leg])
        self._sent[leg].clear()
        for flight in list(self._flights):
            if flight.live >> leg & 1:
                ended += self._land(flight, 1 << leg)
        mine = asyncio.current_task()
        others = [task for task in self._running[leg] if task is not mine]
        running = dict(self._running[leg])
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)
        return ended + [running[task] for task in others if task.cancelled()]

    async def exchange(self, leg: int, replica: Replica) -> Replica:
        """Use a different replica for one that is lost; return the old one, which is not closed."""
        for effect in await self._give_up(leg):
            self.call(self.core.failed, effect, ReplicaError("it was replaced"))
        old, self.replicas[leg] = self.replicas[leg], replica
        self._quick[leg] = replica if isinstance(replica, QuickReplica) else None
        self._append[leg] = replica if isinstance(replica, AppendReplica) else None
        self.core.legs[leg].had = False
        self._spreader.exchange(leg, replica)
        return old

    # ---- for callers ----

    async def ask(self, begin: Callable[[Op], object]) -> object:
        """Begin an operation and wait for its end; cancelling does not end what has begun of it.

        Raises:
            ValueError: It cannot be begun: from begin, before the core has changed.
            ReplicationError: It has failed, or the core has stopped after an internal error.
        """
        if self.fault is not None:
            raise self.refusal()
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._asked.add(future)

        def then(op: Op) -> None:
            self._asked.discard(future)
            if future.done():
                return
            if op.error:
                future.set_exception(op.error)
            else:
                future.set_result(op.result)

        op = Op(then)
        try:
            begin(op)
        except ValueError:
            self._asked.discard(future)
            raise
        except Exception as error:
            self._stop(error)
        self.pump()
        try:
            return await future
        except asyncio.CancelledError:
            self.call(self.core.withdraw, op)
            self.pump()
            raise

    async def close(self) -> None:
        """End all that is under way, and close the replicas."""
        for leg in range(len(self.replicas)):
            await self._give_up(leg)
        self._line.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.core.abandon()
        await asyncio.gather(*map(self.release, self.replicas))

    async def release(self, replica: Replica) -> None:
        """Close a replica, which cannot be waited for longer if its disk hangs."""
        try:
            async with asyncio.timeout(self.timeout):
                await replica.close()
        except Exception as error:  # the others are closed all the same
            _log.warning("%s was not closed: %s", replica.name, str(error) or "it does not respond")
