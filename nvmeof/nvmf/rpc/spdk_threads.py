# SPDX-License-Identifier: BSD-3-Clause
"""Results of SPDK's methods about threads; see nvmf.rpc.results."""

from typing import TypedDict


class ThreadStats(TypedDict):
    """A reactor's thread."""

    name: str
    id: int
    cpumask: str
    """Hexadecimal."""
    busy: int
    """Not measured: 0."""
    idle: int
    """Not measured: 0."""
    active_pollers_count: int
    """1: a reactor polls all of its queues in one loop."""
    timed_pollers_count: int
    paused_pollers_count: int


class ThreadsStats(TypedDict):
    """The threads of the reactors."""

    tick_rate: int
    threads: list[ThreadStats]


class Poller(TypedDict):
    """A poller of a thread."""

    name: str
    id: int
    state: str
    """running: an idle reactor sleeps until an event."""
    run_count: int
    """Not measured: 0."""
    busy_count: int
    """Not measured: 0."""


class ThreadPollers(TypedDict):
    """The pollers of a thread."""

    name: str
    id: int
    active_pollers: list[Poller]
    timed_pollers: list[Poller]
    paused_pollers: list[Poller]


class ThreadsPollers(TypedDict):
    """The pollers of all threads."""

    tick_rate: int
    threads: list[ThreadPollers]


class IoChannel(TypedDict):
    """A channel of a thread."""

    name: str
    """nvmf_tgt, as in SPDK."""
    ref: int
    """The queue pairs that are connected."""


class ThreadChannels(TypedDict):
    """The channels of a thread."""

    name: str
    id: int
    io_channels: list[IoChannel]


class ThreadsChannels(TypedDict):
    """The channels of all threads."""

    tick_rate: int
    threads: list[ThreadChannels]


class Monitoring(TypedDict):
    """Whether context switches are monitored."""

    enabled: bool
    """Always false."""


class Notification(TypedDict):
    """An event."""

    type: str
    """A type of notify_get_types."""
    ctx: str
    """The namespace, and the leg if it is one of a leg."""
    id: int
    """Its number: events are numbered from 0, in order, since the target started."""
    time: float
    """When it was noticed: seconds since 1970."""
    nqn: str
    """The subsystem."""
    nsid: int
    leg: str | None
    """Name of the leg."""
    reason: str | None
    """Why a leg is lost or refused."""
