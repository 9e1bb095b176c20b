# SPDX-License-Identifier: BSD-3-Clause
"""The life cycle of a connection: its states, its events, and the table of transitions.

A controller of the client follows the table.  The states are those of a controller of the kernel
too, which Linux keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from nvmf.errors import Error


class State(Enum):
    """The state of a connection."""

    LIVE = "live"
    """Commands are sent."""
    RECONNECTING = "reconnecting"
    """The connection was lost; it is being made again."""
    LOST = "lost"
    """The connection was not made again within ctrl_loss_tmo."""
    CLOSED = "closed"
    """The user closed it."""


class Event(Enum):
    """An event in the life of a connection."""

    CONNECTION_LOST = "the connection was lost"
    RECONNECTED = "the connection was made again"
    GAVE_UP = "the attempts to reconnect ended"
    CLOSE = "the user closed the connection"


TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.LIVE: {
        Event.CONNECTION_LOST: State.RECONNECTING,
        Event.CLOSE: State.CLOSED,
    },
    State.RECONNECTING: {
        Event.RECONNECTED: State.LIVE,
        Event.GAVE_UP: State.LOST,
        Event.CLOSE: State.CLOSED,
    },
    State.LOST: {
        Event.CLOSE: State.CLOSED,
    },
    State.CLOSED: {
        Event.CONNECTION_LOST: State.CLOSED,  # close() disconnects, or the peer does meanwhile
    },
}
"""The next state, by state and event.  A connection begins in LIVE."""


class IllegalTransition(Error, RuntimeError):
    """An event occurred that the table does not allow in this state: a defect of the client."""


class Lifecycle:
    """The current state of one connection."""

    def __init__(self) -> None:
        self.state = State.LIVE

    def __repr__(self) -> str:
        return f"<Lifecycle {self.state.value}>"

    def on(self, event: Event) -> State:
        """Enter the next state, and return it.

        Raises:
            IllegalTransition: The table has no such transition; the state remains as it is.
        """
        found = TRANSITIONS[self.state].get(event)
        if found is None:
            raise IllegalTransition(f"{event.value} in the state '{self.state.value}'")
        self.state = found
        return found

    @property
    def ended(self) -> bool:
        """Whether the connection will not be live again."""
        return self.state in (State.LOST, State.CLOSED)
