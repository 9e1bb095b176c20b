# SPDX-License-Identifier: BSD-3-Clause
"""The life cycle of a connection: the table, and a close() during a reconnection."""

from __future__ import annotations

import asyncio

import pytest

from nvmf.config import loads
from nvmf.initiator import ConnectionLost, State, connect
from nvmf.initiator.base.errors import QueueLost
from nvmf.initiator.base.state import TRANSITIONS, Event, IllegalTransition, Lifecycle
from nvmf.initiator.client.recovery import Attempt, KeepCommands, reconnect
from nvmf.initiator.client.session import Lost, Place, Session
from nvmf.target.service.starting import serve
from support.clientlab import OPTIONS, RAM, config, url


def walks() -> dict[State, list[Event]]:
    """Return the shortest way from LIVE to each state that can be reached."""
    ways: dict[State, list[Event]] = {State.LIVE: []}
    found = [State.LIVE]
    for state in found:
        for event, after in TRANSITIONS[state].items():
            if after not in ways:
                ways[after] = [*ways[state], event]
                found.append(after)
    return ways


def after(events: list[Event]) -> Lifecycle:
    life = Lifecycle()
    for event in events:
        life.on(event)
    return life


def test_each_state_is_reached() -> None:
    assert set(walks()) == set(TRANSITIONS) == set(State)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_each_event_in_each_state(state: State, event: Event) -> None:
    life = after(walks()[state])
    assert life.state is state
    assert life.ended == (state in (State.LOST, State.CLOSED))
    expected = TRANSITIONS[state].get(event)
    if expected is None:
        with pytest.raises(IllegalTransition, match=state.value):
            life.on(event)
        assert life.state is state
    else:
        assert life.on(event) is life.state is expected


def test_closed_is_final() -> None:
    assert set(TRANSITIONS[State.CLOSED].values()) == {State.CLOSED}
    assert all(Event.CLOSE in TRANSITIONS[state] for state in State if state is not State.CLOSED)


async def test_closed_as_it_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is opened during close() is closed, and the state stays closed."""
    made: list[Session] = []
    closing: list[asyncio.Task[None]] = []

    async def made_late(
        policy: KeepCommands, attempt: Attempt, place: Place, lost: Lost, lived: float
    ) -> Session:
        session = await reconnect(attempt, place, lost, lived)
        made.append(session)
        closing.append(asyncio.create_task(controller.close()))
        await asyncio.sleep(0)  # close() begins, and has not yet cancelled this task
        return session

    monkeypatch.setattr(KeepCommands, "reconnect", made_late)
    server = await serve(loads(config(RAM)))
    try:
        options = {**OPTIONS, "reconnect_delay": 0.01}
        controller = await connect(url(server.ports[0].address[1]), **options)
        namespace = controller.namespace(1)
        controller.session.lose("cut by the test")
        states = [controller.state]
        with pytest.raises(ConnectionLost, match="closed") as caught:
            await namespace.read(0, 1)
        assert not isinstance(caught.value, QueueLost)
        await asyncio.gather(*closing)
        assert [*states, controller.state] == [State.RECONNECTING, State.CLOSED]
        assert controller.reconnects == 0
        assert [session.lost.done() for session in made] == [True]
    finally:
        await server.stop()
