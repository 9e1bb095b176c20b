# SPDX-License-Identifier: BSD-3-Clause
"""The states of a mirror's legs, for RPC, metrics and the log."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from nvmf.replication.machine import LegState
from nvmf.replication.mirror import Mirror, ReplicaStatus
from nvmf.replication.mirrorbase import MirrorState
from nvmf.replication.mirrorformat import Geometry
from nvmf.rpc.mirror import LegWord, MirrorChange, MirrorEventType, MirrorLeg, MirrorStatus

_log = logging.getLogger(__name__)

_UNHEARD = 100
"""Changes that are kept until somebody listens."""
_STATES: dict[MirrorState, MirrorEventType] = {
    MirrorState.CLEAN: "mirror_clean",
    MirrorState.DEGRADED: "mirror_degraded",
    MirrorState.BLOCKED: "mirror_blocked",
    MirrorState.DEPOSED: "mirror_deposed",
}
_LEGS: dict[LegWord, MirrorEventType] = {
    "lost": "mirror_leg_lost",
    "refused": "mirror_leg_refused",
    "resynchronising": "mirror_leg_resynchronising",
    "in-sync": "mirror_leg_in_sync",
}


class Watching:
    """Sees a mirror from time to time, and logs and tells each change of a leg once."""

    def __init__(self, where: str) -> None:
        self.where = where
        """The namespace, for messages."""
        self.status: MirrorStatus = {
            "state": "closed",
            "quorum": 0,
            "epoch": 0,
            "legs": [],
            "losses": 0,
            "resyncs": 0,
        }
        """The newest state; replaced as a whole, so that any thread may read it."""
        self._words: dict[str, tuple[LegWord, str]] = {}
        self._lock = threading.Lock()
        """Held while somebody is told."""
        self._told: Callable[[MirrorChange], None] | None = None
        self._unheard: deque[MirrorChange] = deque(maxlen=_UNHEARD)

    def listen(self, told: Callable[[MirrorChange], None]) -> None:
        """Call told for each change, and for those that nobody has heard of yet."""
        with self._lock:
            self._told = told
            while self._unheard:
                told(self._unheard.popleft())

    def _say(self, kind: MirrorEventType, leg: str | None = None, why: str | None = None) -> None:
        change: MirrorChange = {"type": kind, "leg": leg, "reason": why}
        with self._lock:
            if self._told is None:
                self._unheard.append(change)
            else:
                self._told(change)

    def see(self, mirror: Mirror | None, names: Sequence[str | None]) -> None:
        """Note the state of a mirror; names: those of its legs in the configuration."""
        before = self.status
        if mirror is None:
            self.status = {**before, "state": "closed"}
            return
        shape = mirror.form
        pairs = zip(mirror.replicas, names, strict=False)
        legs = [self._leg(one, name or one.name, shape) for one, name in pairs]
        self.status = {
            "state": mirror.state.value,
            "quorum": shape.quorum,
            "epoch": mirror.epoch,
            "legs": legs,
            "losses": before["losses"],
            "resyncs": before["resyncs"],
        }
        for leg in legs:
            self._tell(leg)
        for name in self._words.keys() - {leg["name"] for leg in legs}:
            del self._words[name]
        if mirror.state.value != before["state"]:
            self._tell_state(mirror.state)

    def _leg(self, one: ReplicaStatus, name: str, shape: Geometry) -> MirrorLeg:
        word: LegWord = "in-sync"
        why = ""
        if one.state is LegState.IN:
            word = "resynchronising" if one.lagging else "in-sync"
        elif one.state is LegState.OUT:
            word, why = "refused" if one.refused else "lost", one.why
        else:  # it is being tried again: the last state stays until that has ended
            word, why = self._words.get(name, ("resynchronising", ""))
            word = "lost" if word == "in-sync" else word
        regions = max(shape.regions, 1)
        return {
            "name": name,
            "state": word,
            "percent": round(100 * (regions - one.lagging) / regions, 1),
            "lagging_bytes": min(one.lagging * shape.region, shape.size),
            "reason": why or None,
        }

    def _tell(self, leg: MirrorLeg) -> None:
        name, word, why = leg["name"], leg["state"], leg["reason"] or ""
        was, said = self._words.get(name, (None, ""))
        self._words[name] = (word, why)
        if word in ("lost", "refused"):
            if was not in ("lost", "refused"):
                self.status["losses"] += 1
            if word != was:
                self._say(_LEGS[word], name, why)
            if (word, why) != (was, said):
                _log.warning("%s: leg %s is %s: %s", self.where, name, word, why)
        elif word == "in-sync":
            if was not in (None, "in-sync"):
                self._say(_LEGS[word], name)
                self.status["resyncs"] += 1
                _log.info("%s: leg %s is in sync again", self.where, name)
        elif was != word:
            self._say(_LEGS[word], name)
            _log.info("%s: leg %s is being resynchronised", self.where, name)

    def _tell_state(self, state: MirrorState) -> None:
        if state in _STATES:
            self._say(_STATES[state])
        if state is MirrorState.DEPOSED:
            _log.error(
                "%s: a different writer has taken over the mirror: all commands fail; make sure "
                "that there is only one, then run nvmeof target mirror resync",
                self.where,
            )
        elif state is MirrorState.CLOSED:
            _log.error(
                "%s: the mirror has stopped after an internal error: all commands fail; run "
                "nvmeof target mirror resync, and report the error",
                self.where,
            )
        elif state is MirrorState.BLOCKED:
            _log.error("%s: fewer legs than the quorum are there: commands wait", self.where)
        elif state is MirrorState.CLEAN:
            _log.info("%s: all legs are in sync", self.where)
