# SPDX-License-Identifier: BSD-3-Clause
"""Commands of the client's multipath that must not be simply repeated, and features.

A relay holds back the answers of a path: the target has executed the command when the path ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from nvmf.initiator import ConnectionLost, NvmeError, OutcomeUnknown, State, connect
from nvmf.initiator.multipath import MultipathNamespace, Subsystem, connect_multipath
from nvmf.initiator.multipath.features import Features
from nvmf.spec.opcodes import FeatureId
from nvmf.spec.reservations import ReservationType
from nvmf.spec.status import Status
from nvmf.target.command.gates import Gate, GateReason
from nvmf.target.lasting.reservations import Reservation
from nvmf.target.service.server import Server
from support.clientlab import NQN, OPTIONS, RAM_4K, serving, url
from support.relay import Relay, relayed

FAST: dict[str, Any] = {**OPTIONS, "kato": 0, "reconnect_delay": 0.2}
HANG = 120.0
EXCLUSIVE = ReservationType.WRITE_EXCLUSIVE
OTHER = "nqn.2026-11.io.example:other"


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@dataclass
class Lab:
    """A target, two paths to it, and the relays between them."""

    server: Server
    relays: list[Relay]
    subsystem: Subsystem

    @property
    def namespace(self) -> MultipathNamespace:
        return self.subsystem.namespace(1)

    @property
    def reservation(self) -> Reservation:
        return self.server.core.subsystems[NQN].reservations.get(1)

    def keys(self) -> list[int]:
        return sorted(self.reservation.registrants.values())

    async def first(self) -> None:
        """Wait until the first path is connected again."""
        await self.relays[0].open()
        await until(lambda: self.subsystem.paths[0].state is State.LIVE)

    async def lost_after(
        self,
        work: Awaitable[Any],
        done: Callable[[], bool],
        meanwhile: Callable[[], Awaitable[None]] | None = None,
    ) -> Any:
        """Run work, whose path is lost after the target has executed it and before it answers."""
        self.relays[0].hold_answers()
        task = asyncio.ensure_future(work)
        await until(done)
        if meanwhile is not None:
            await meanwhile()
        await self.relays[0].cut()
        try:
            return await asyncio.wait_for(task, HANG)
        finally:
            await self.first()


@asynccontextmanager
async def laid() -> AsyncIterator[Lab]:
    async with (
        serving(RAM_4K) as (server, _),
        relayed(server.ports[0].address[1]) as relays,
        connect_multipath([url(relay.port) for relay in relays], **FAST) as subsystem,
    ):
        yield Lab(server, relays, subsystem)


@asynccontextmanager
async def another(lab: Lab) -> AsyncIterator[Any]:
    """A second host, which is registered with key 9."""
    place = url(lab.server.ports[0].address[1])
    options = {**FAST, "hostnqn": OTHER, "hostid": "5f0c3a52-6d3f-4f2b-8ff2-000000000009"}
    async with connect(place, **options) as controller:
        reservations = controller.namespace(1).reservations
        await reservations.register(9, ignore_existing=True)
        yield reservations


# ---- reservations ----


async def test_done_by_the_path_that_was_lost() -> None:
    """Each command is executed and its answer lost; the state on the second path shows success."""
    async with laid() as lab:
        mine = lab.namespace.reservations
        await lab.lost_after(mine.register(1), lambda: lab.keys() == [1])
        await lab.lost_after(mine.register(2, current=1), lambda: lab.keys() == [2])
        await lab.lost_after(mine.acquire(2, EXCLUSIVE), lambda: lab.reservation.rtype is EXCLUSIVE)
        async with another(lab):
            assert lab.keys() == [2, 9]
            held = ReservationType.EXCLUSIVE_ACCESS
            await lab.lost_after(mine.preempt(2, held, 2), lambda: lab.reservation.rtype is held)
            await lab.lost_after(mine.release(2, held), lambda: lab.reservation.rtype is None)
        async with another(lab) as theirs:
            await theirs.acquire(9, EXCLUSIVE)
            await lab.lost_after(mine.preempt(2, held, 9), lambda: lab.keys() == [2])
            assert lab.reservation.rtype is held
        await lab.lost_after(mine.unregister(2), lambda: not lab.keys())
        await mine.register(3)
        await lab.lost_after(mine.clear(3), lambda: not lab.keys())
        found = await mine.report()
        assert not found.registrants
        assert lab.subsystem.paths[0].failovers == 8


async def test_changed_by_another_host_meanwhile() -> None:
    """The requested state no longer holds: the conflict is reported, with its possible cause."""
    async with laid() as lab, another(lab) as theirs:
        mine = lab.namespace.reservations
        await mine.register(1)

        async def clear() -> None:
            await theirs.clear(9)

        with pytest.raises(NvmeError, match="by a second path") as refused:
            await lab.lost_after(mine.register(2, current=1), lambda: lab.keys() == [2, 9], clear)
        assert refused.value.status == Status.RESERVATION_CONFLICT


async def test_a_conflict_is_a_conflict() -> None:
    """If no path was lost, the state is not read again."""
    async with laid() as lab, another(lab) as theirs:
        await theirs.acquire(9, EXCLUSIVE)
        mine = lab.namespace.reservations
        await mine.register(1)
        with pytest.raises(NvmeError, match="Reservation Conflict") as refused:
            await mine.acquire(1, EXCLUSIVE)
        assert "second path" not in str(refused.value)
        with pytest.raises(NvmeError, match="Reservation Conflict"):
            await lab.namespace.write(0, bytes(4096))


async def test_reservations_are_of_one_host() -> None:
    async with serving(RAM_4K) as (_, place):
        urls = [place, place.replace("127.0.0.1", "localhost") + f"?hostid={'1' * 32}"]
        async with connect_multipath(urls, **FAST) as subsystem:
            with pytest.raises(ValueError, match="2 host identifiers"):
                _ = subsystem.namespace(1).reservations


# ---- Compare and Write ----

OLD, NEW = bytes(4096), b"n" * 4096


async def test_compare_and_write_by_another_path() -> None:
    """A path that is lost, or refuses with a path related status, has not executed it."""
    async with laid() as lab:
        namespace = lab.namespace
        await namespace.compare_and_write(0, OLD, NEW)
        assert await namespace.read(0, 1) == NEW
        path = lab.subsystem.paths[0].controller
        assert path is not None
        (first,) = [c for c in lab.server.core.controllers() if c.cntlid == path.session.cntlid]
        refused = Gate(*[Status.CONTROLLER_PATHING_ERROR] * 3)
        first.gates.set(1, GateReason.MASKED, refused)
        await namespace.compare_and_write(0, NEW, OLD)
        assert await namespace.read(0, 1) == OLD
        await lab.relays[0].cut()
        await until(lambda: lab.subsystem.paths[0].state is not State.LIVE)
        await namespace.compare_and_write(0, OLD, NEW)
        with pytest.raises(NvmeError, match="Compare Failure"):
            await namespace.compare_and_write(0, OLD, NEW)


async def test_compare_and_write_that_may_have_been_done() -> None:
    """The command is neither repeated nor reported as done: the caller gets the present content."""
    async with laid() as lab:
        namespace, served = lab.namespace, lab.server.core.subsystems[NQN].namespaces[1]
        writes = served.stats()["writes"]
        with pytest.raises(OutcomeUnknown, match="the blocks now have the new data"):
            await lab.lost_after(
                namespace.compare_and_write(3, OLD, NEW),
                lambda: served.stats()["writes"] > writes,
            )
        assert served.stats()["writes"] == writes + 1
        lab.relays[0].stall()
        task = asyncio.create_task(namespace.compare_and_write(4, OLD, NEW))
        await until(lambda: lab.subsystem.paths[0].outstanding == 1)
        await lab.relays[0].cut()
        with pytest.raises(OutcomeUnknown, match="the blocks now have the expected data"):
            await asyncio.wait_for(task, HANG)
        assert await namespace.read(4, 1) == OLD


async def test_the_half_that_failed_has_the_reason() -> None:
    """The write alone is refused, and the compare is aborted because of that."""
    async with laid() as lab:
        for controller in lab.server.core.controllers():
            controller.gates.set(1, GateReason.MASKED, Gate(write=Status.RESERVATION_CONFLICT))
        with pytest.raises(NvmeError, match="Reservation Conflict"):
            await lab.namespace.compare_and_write(0, OLD, NEW)


# ---- features ----

FEATURE = FeatureId.ARBITRATION


async def test_features_of_every_path() -> None:
    """A feature is set on all paths, again on one that returns, and on one that is added."""
    async with laid() as lab:

        async def values() -> list[int]:
            made = [path.controller for path in lab.subsystem.paths]
            return [await one.get_features(FEATURE) for one in made if one is not None]

        await lab.subsystem.set_features(FEATURE, 3)
        assert await values() == [3, 3]
        await lab.relays[0].cut()
        await until(lambda: lab.subsystem.paths[0].state is not State.LIVE)
        await lab.subsystem.set_features(FEATURE, 5)
        await lab.first()
        assert await values() == [5, 5]
        async with relayed(lab.server.ports[0].address[1], 1) as (added,):
            await lab.subsystem.add_path(url(added.port))
            assert await values() == [5, 5, 5]


async def test_a_feature_that_is_refused() -> None:
    """A refused feature is not set again on a path that returns."""
    async with laid() as lab:
        with pytest.raises(NvmeError, match="Set Features"):
            await lab.subsystem.set_features(0x7F, 1)
        with pytest.raises(NvmeError):
            await lab.subsystem.set_features(FeatureId.VOLATILE_WRITE_CACHE, 1, nsid=77)
        await lab.relays[0].cut()
        await until(lambda: lab.subsystem.paths[0].state is not State.LIVE)
        await lab.first()


def test_a_feature_that_is_set_twice_at_once() -> None:
    """A refused value is not remembered, and does not remove a later one."""
    features = Features()
    refused = features.put(1, 10)
    features.put(1, 20)
    features.restore(1, 10, refused)
    assert features.values == {1: 20}
    features.restore(1, 20, None)
    assert features.values == {}


async def test_no_path_is_left() -> None:
    async with laid() as lab:
        await lab.subsystem.close()
        with pytest.raises(ConnectionLost):
            await lab.subsystem.set_features(FEATURE, 1)
        with pytest.raises(ConnectionLost):
            await lab.namespace.compare_and_write(0, OLD, NEW)
