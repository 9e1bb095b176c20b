# SPDX-License-Identifier: BSD-3-Clause
"""Reservation commands of a single controller whose connection ends before the answer arrives.

A relay holds back the answers: the target has executed the command when the connection ends, and
the client sends it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from nvmf.initiator import Controller, NvmeError, connect
from nvmf.initiator.base.reservations import Reservations
from nvmf.spec.reservations import ReservationType
from nvmf.spec.status import Status
from nvmf.target.lasting.reservations import Reservation
from nvmf.target.service.server import Server
from support.clientlab import NQN, OPTIONS, RAM_4K, serving, url
from support.multipathrig import until
from support.relay import Relay, relayed

FAST: dict[str, Any] = {**OPTIONS, "kato": 0, "reconnect_delay": 0.2}
HANG = 120.0
EXCLUSIVE = ReservationType.WRITE_EXCLUSIVE
ACCESS = ReservationType.EXCLUSIVE_ACCESS
OTHER = {
    "hostnqn": "nqn.2026-11.io.example:other",
    "hostid": "5f0c3a52-6d3f-4f2b-8ff2-000000000009",
}


@dataclass
class Lab:
    """A target, and a connection to it through a relay."""

    server: Server
    relay: Relay
    controller: Controller

    @property
    def mine(self) -> Reservations:
        return self.controller.namespace(1).reservations

    @property
    def reservation(self) -> Reservation:
        return self.server.core.subsystems[NQN].reservations.get(1)

    def keys(self) -> list[int]:
        return sorted(self.reservation.registrants.values())

    async def lost_after(
        self,
        work: Awaitable[None],
        done: Callable[[], bool],
        meanwhile: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Run work; its connection is lost after the target has executed it."""
        before = self.controller.reconnects
        self.relay.hold_answers()
        task = asyncio.ensure_future(work)
        await until(done)
        if meanwhile is not None:
            await meanwhile()
        await self.relay.cut()
        await self.relay.open()
        await asyncio.wait_for(task, HANG)
        assert self.controller.reconnects == before + 1


@asynccontextmanager
async def laid() -> AsyncIterator[Lab]:
    async with (
        serving(RAM_4K) as (server, _),
        relayed(server.ports[0].address[1], 1) as (relay,),
        connect(url(relay.port), **FAST) as controller,
    ):
        yield Lab(server, relay, controller)


@asynccontextmanager
async def another(lab: Lab) -> AsyncIterator[Reservations]:
    """A second host, which is registered with key 9."""
    place = url(lab.server.ports[0].address[1])
    async with connect(place, **{**FAST, **OTHER}) as controller:
        reservations = controller.namespace(1).reservations
        await reservations.register(9, ignore_existing=True)
        yield reservations


async def test_done_before_the_connection_was_lost() -> None:
    """Each command is executed and its answer lost: the caller is told that it succeeded."""
    async with laid() as lab:
        mine = lab.mine
        await lab.lost_after(mine.register(1), lambda: lab.keys() == [1])
        await lab.lost_after(mine.register(2, current=1), lambda: lab.keys() == [2])
        await lab.lost_after(mine.acquire(2, EXCLUSIVE), lambda: lab.reservation.rtype is EXCLUSIVE)
        await lab.lost_after(mine.release(2, EXCLUSIVE), lambda: lab.reservation.rtype is None)
        async with another(lab) as theirs:
            await theirs.acquire(9, EXCLUSIVE)
            await lab.lost_after(mine.preempt(2, ACCESS, 9), lambda: lab.keys() == [2])
            assert lab.reservation.rtype is ACCESS
        await lab.lost_after(mine.unregister(2), lambda: not lab.keys())
        await mine.register(3)
        await lab.lost_after(mine.clear(3), lambda: not lab.keys())


async def test_changed_by_another_host_meanwhile() -> None:
    """The requested state no longer holds: the conflict is reported, with its possible cause."""
    async with laid() as lab, another(lab) as theirs:
        mine = lab.mine
        await mine.register(1)

        async def clear() -> None:
            await theirs.clear(9)

        with pytest.raises(NvmeError, match=r"when it was sent again.* been done") as told:
            await lab.lost_after(mine.register(2, current=1), lambda: lab.keys() == [2, 9], clear)
        assert told.value.status == Status.RESERVATION_CONFLICT


async def test_a_conflict_is_a_conflict() -> None:
    """If the connection was not lost, nothing is said of that."""
    async with laid() as lab, another(lab) as theirs:
        await theirs.acquire(9, EXCLUSIVE)
        await lab.mine.register(1)
        with pytest.raises(NvmeError, match="Reservation Conflict") as refused:
            await lab.mine.acquire(1, EXCLUSIVE)
        assert "sent again" not in str(refused.value)
