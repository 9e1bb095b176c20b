# SPDX-License-Identifier: BSD-3-Clause
"""SPDK's methods about threads and notifications, for scripts that watch a target.

SPDK runs light-weight threads on reactors; here, a reactor is one thread.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, get_args

from nvmf.rpc.errors import RpcError
from nvmf.rpc.mirror import MirrorEventType
from nvmf.rpc.spdk_threads import (
    Monitoring,
    Notification,
    ThreadsChannels,
    ThreadsPollers,
    ThreadsStats,
)
from nvmf.target.rpc.framework import TICK_RATE, threads
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class Monitor(Params):
    enabled: bool | None = None
    """false, or left out."""


class Notifications(Params):
    id: int | None = None
    """Number of the first event to return."""
    max: int | None = None
    """Maximum number of events."""


@method("thread_get_stats", Params, None)
def get_stats(administration: Administration, params: Params) -> ThreadsStats:
    """Return the thread of each reactor; nvmf_get_stats has their queues and commands."""
    return {
        "tick_rate": TICK_RATE,
        "threads": [
            {
                "name": one["name"],
                "id": one["id"],
                "cpumask": one["cpumask"],
                "busy": 0,
                "idle": 0,
                "active_pollers_count": 1,
                "timed_pollers_count": 0,
                "paused_pollers_count": 0,
            }
            for one in threads(administration)
        ],
    }


@method("thread_get_pollers", Params, None)
def get_pollers(administration: Administration, params: Params) -> ThreadsPollers:
    """Return the poller of each reactor, its loop over queues and stores."""
    return {
        "tick_rate": TICK_RATE,
        "threads": [
            {
                "name": one["name"],
                "id": one["id"],
                "active_pollers": [
                    {
                        "name": "reactor",
                        "id": 1,
                        "state": "running",
                        "run_count": 0,
                        "busy_count": 0,
                    }
                ],
                "timed_pollers": [],
                "paused_pollers": [],
            }
            for one in threads(administration)
        ],
    }


@method("thread_get_io_channels", Params, None)
def get_io_channels(administration: Administration, params: Params) -> ThreadsChannels:
    """Return the connected queue pairs of each reactor, as references to the target."""
    counts = administration.server.reactor_counts()
    return {
        "tick_rate": TICK_RATE,
        "threads": [
            {
                "name": one["name"],
                "id": one["id"],
                "io_channels": [
                    {
                        "name": "nvmf_tgt",
                        "ref": found["current_admin_qpairs"] + found["current_io_qpairs"],
                    }
                ],
            }
            for one, found in zip(threads(administration), counts, strict=True)
        ],
    }


@method("framework_monitor_context_switch", Monitor, None)
def monitor_context_switch(administration: Administration, params: Monitor) -> Monitoring:
    """Return that context switches are not monitored; monitoring cannot be enabled."""
    if params.enabled:
        raise RpcError(
            -errno.ENOTSUP,
            "context switches are not monitored: an idle reactor sleeps and so causes them; see "
            "/proc/PID/task/TID/status, or nvmeof lab, which records them",
        )
    return {"enabled": False}


@method("notify_get_types", Params, None)
def get_types(administration: Administration, params: Params) -> list[str]:
    """Return the types of notifications: changes of the states of mirrors and of their legs."""
    return list(get_args(MirrorEventType))


@method("notify_get_notifications", Notifications, "events")
def get_notifications(administration: Administration, params: Notifications) -> list[Notification]:
    """Return the newest events, the oldest first; the target keeps 1,000.

    To follow them, use the number of the last one plus one as the next id.
    """
    return administration.server.mirror_events.since(params.id or 0, params.max)
