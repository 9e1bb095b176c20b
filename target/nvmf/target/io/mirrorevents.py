# SPDX-License-Identifier: BSD-3-Clause
"""Events of mirrors: for RPC clients, and for hosts, whose SMART log has a warning meanwhile."""

from __future__ import annotations

import time
from collections import deque
from itertools import count

from nvmf.rpc.mirror import MirrorChange
from nvmf.rpc.spdk_threads import Notification
from nvmf.target.commands.core import Core
from nvmf.target.lasting.healthkeeper import HealthKeeper

_MOST = 1000
"""Events that are kept."""
_DEGRADED = ("mirror_degraded", "mirror_blocked", "mirror_deposed")


class MirrorEvents:
    """The newest events of the mirrors of a target, on the thread of its event loop."""

    def __init__(self, core: Core, health: HealthKeeper) -> None:
        self._core = core
        self._health = health
        self._events: deque[Notification] = deque(maxlen=_MOST)
        self._numbers = count()

    def add(self, nqn: str, nsid: int, change: MirrorChange) -> None:
        """Note a change of the mirror that is this namespace, and tell hosts that see it."""
        where = f"namespace {nsid} of {nqn}"
        self._events.append(
            {
                "type": change["type"],
                "ctx": where if change["leg"] is None else f"{where}, leg {change['leg']}",
                "id": next(self._numbers),
                "time": time.time(),
                "nqn": nqn,
                "nsid": nsid,
                "leg": change["leg"],
                "reason": change["reason"],
            }
        )
        if change["leg"] is None:
            self._warn(nqn, nsid, degraded=change["type"] in _DEGRADED)

    def since(self, first: int, most: int | None) -> list[Notification]:
        """Return events from this number on, the oldest first; most: at most so many."""
        found = [event for event in self._events if event["id"] >= first]
        return found if most is None else found[:most]

    def gone(self, nqn: str, nsid: int) -> None:
        """Note that a namespace was removed."""
        self._health.subsystem(nqn).degraded.discard(nsid)

    def _warn(self, nqn: str, nsid: int, *, degraded: bool) -> None:
        warned = self._health.subsystem(nqn).degraded
        if not degraded:
            warned.discard(nsid)
            return
        subsystem = self._core.subsystems.get(nqn)
        if nsid in warned or subsystem is None:
            warned.add(nsid)
            return
        warned.add(nsid)
        for controller in subsystem.controllers.values():
            if nsid in controller.namespaces:
                controller.reliability_degraded()
