# SPDX-License-Identifier: BSD-3-Clause
"""A controller: its properties, queues, Keep Alive Timer, events and error log.

CC and CSTS follow Base 2.0, 3.5 and 3.6: the settings in CC are checked once, when CC.EN becomes 1;
CSTS.CFS is set if they are not supported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from nvmf.spec.features import AsyncEvents
from nvmf.spec.opcodes import FeatureId
from nvmf.spec.properties import NVME_2_0, Cap, Cc, Crto, Csts, Property
from nvmf.spec.reservations import NotificationType
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.events import (
    ANA_CHANGED,
    DISCOVERY_CHANGED,
    NAMESPACE_CHANGED,
    RELIABILITY_DEGRADED,
    RESERVATION_NOTICE,
    EventQueue,
)
from nvmf.target.command.gates import ControllerGates
from nvmf.target.command.request import Completion, Request
from nvmf.target.model.errorlog import ErrorLog
from nvmf.target.model.namespace import Namespace
from nvmf.target.model.queue import Queue
from nvmf.target.model.subsystem import Subsystem, View

ABORT_LIMIT = 3
"""ACL: maximum outstanding Abort commands, 0's based."""
_RESERVATION_NOTICES = 256
"""Maximum unread notifications; further ones displace the oldest."""
READY_TIMEOUT = 60
"""CAP.TO and CRTO, in units of 500 ms: a reset waits for commands in progress.  A store in Python
has 10 s for each by default, and a host that does not move data keeps its connection for 15 s."""
KEEP_ALIVE_GRANULARITY_MS = 1000
"""KAS, in ms: a timeout is rounded up to a multiple of it."""
DISCOVERY_KATO_MS = 120_000
"""Default for discovery controllers whose host sets none, so that they do not stay forever."""
_IOSQES, _IOCQES = 6, 4
_CSS_NVM, _CSS_SETS = 0, 6
SHUTDOWN_OCCURRING, SHUTDOWN_COMPLETE = 1, 2
_LONGEST_KATO_MS = 0xFFFFFFFF // KEEP_ALIVE_GRANULARITY_MS * KEEP_ALIVE_GRANULARITY_MS


class Controller:
    """One association of a host with a subsystem."""

    def __init__(
        self,
        subsystem: Subsystem,
        cntlid: int,
        admin: Queue,
        hostnqn: str,
        hostid: bytes,
        kato_ms: int,
        now: float,
    ) -> None:
        self.subsystem = subsystem
        self.cntlid = cntlid
        self.admin = admin
        self.hostnqn = hostnqn
        self.hostid = hostid
        self.portid = 0
        """The port that the host connected to."""
        self.view = subsystem.view_of(hostnqn)
        self.io_queues: dict[int, Queue] = {}
        """By QID."""
        self.deleted: list[Queue] = []
        """I/O queues that the host has deleted, but whose connections have not ended."""
        self._resetting = False
        self.gates = ControllerGates(subsystem.make_gates)
        """Statuses with which its I/O commands fail instead of being executed."""
        self.cc = Cc()
        self.csts = Csts()
        self.created = now
        self.on_completion: Callable[[], object] = lambda: None
        """Called whenever take() has a new completion."""
        self.events = EventQueue(lambda: self.on_completion())
        self.enabled_events = AsyncEvents(0)
        self.changed_namespaces: set[int] = set()
        self.reservation_notices: deque[tuple[int, NotificationType, int]] = deque(
            maxlen=_RESERVATION_NOTICES
        )
        """Number, type and NSID of the unread notifications, the oldest first."""
        self.reservation_masks: dict[int, int] = {}
        """By NSID, one bit per type: notifications that the host has disabled."""
        self._noticed = 0
        self._finished: list[tuple[Request, Completion]] = []
        self.features: dict[int, int] = {}
        """Current values of features that have no effect."""
        self.host_behavior = bytes(512)
        self.timestamp: tuple[int, float, int] = (0, now, 0)
        """Milliseconds, the time at which they were set, and origin (features.Timestamp)."""
        self.errors = ErrorLog()
        self.aborts = 0
        """Outstanding Abort commands."""
        self.last_seen = now
        """Time of the last known activity of the host."""
        self.activity = 0
        """Number of commands of its I/O queues at the last check."""
        self.kato_ms = 0
        if subsystem.discovery and not kato_ms:
            kato_ms = DISCOVERY_KATO_MS
        self.set_kato(kato_ms)

    def __str__(self) -> str:
        host = self.hostnqn or "a host without an NQN"
        return f"controller {self.cntlid} of {self.subsystem.nqn} for {host}"

    # ---- namespaces ----

    @property
    def namespaces(self) -> Mapping[int, Namespace]:
        """The namespaces that its host sees."""
        return self.view.namespaces

    def group_of(self, nsid: int) -> int:
        """Return the ANA group of a namespace."""
        return self.subsystem.group_of(nsid)

    def look_at(self, view: View) -> None:
        """Use this view from now on, on the I/O queues too."""
        if view is not self.view:
            self.view = view
            for queue in self.connected_io_queues():
                if queue.has_table:
                    queue.handle.show(view.table)

    # ---- properties ----

    @property
    def cap(self) -> Cap:
        """Controller Capabilities."""
        return Cap(
            mqes=self.subsystem.queue_size - 1,
            cqr=1,
            to=READY_TIMEOUT,
            css_nvm=1,
            css_sets=1,
            crwms=1,
        )

    @property
    def ready(self) -> bool:
        """Whether I/O and admin commands are executed."""
        running = self.cc.en and self.csts.rdy and not self.csts.shst
        return bool(running and not self._resetting)

    @property
    def shut_down(self) -> bool:
        """Whether its host is shutting it down, or has done so: its connections may end."""
        return bool(self.csts.shst)

    def read_property(self, offset: int) -> int:
        """Return the value of a property; raise KeyError if there is no such property."""
        return {
            Property.CAP: self.cap.encode(),
            Property.VS: NVME_2_0,
            Property.CC: self.cc.encode(),
            Property.CSTS: self.csts.encode(),
            Property.CRTO: Crto(READY_TIMEOUT, READY_TIMEOUT).encode(),
        }[Property(offset)]

    def write_cc(self, value: int) -> None:
        """Write Controller Configuration: enable, reset or shut down.

        CSTS says that a reset or shutdown has ended when the I/O commands in progress have ended:
        none of them changes data afterwards.
        """
        old, new = self.cc, Cc.decode(value)
        self.cc = new
        if old.en and not new.en:
            self._reset()
        elif new.en and not old.en and not self._resetting:
            self._enable()
        if new.shn and not old.shn:
            self.csts = Csts(self.csts.rdy, self.csts.cfs, SHUTDOWN_OCCURRING)
            self._when_idle(self._was_shut_down)
        elif not new.shn and not new.en and not self._resetting:
            self.csts = Csts(cfs=self.csts.cfs)
        for queue in self.io_queues.values():
            queue.handle.enable(self.ready and not queue.locked)

    def _enable(self) -> None:
        self.csts = Csts(rdy=1) if self._can_run(self.cc) else Csts(cfs=1)

    def _when_idle(self, then: Callable[[], None]) -> None:
        """Call then when its I/O commands in progress have ended; at once if there are none.

        The engine does not know Write Uncorrectable, which may still be in line to be stored, even
        after its queue's connection has ended.
        """
        if self.connected_io_queues():
            self.subsystem.when_ended((self,), 0, partial(self.subsystem.when_settled, then))
        else:
            self.subsystem.when_settled(then)

    def _was_shut_down(self) -> None:
        if self.csts.shst == SHUTDOWN_OCCURRING:  # it was not reset meanwhile
            self.csts = Csts(self.csts.rdy, self.csts.cfs, SHUTDOWN_COMPLETE)

    def _can_run(self, cc: Cc) -> bool:
        # Entry sizes apply to I/O queues, which discovery controllers do not have.
        sizes = self.subsystem.discovery or (cc.iosqes, cc.iocqes) == (_IOSQES, _IOCQES)
        return sizes and cc.mps == 0 and cc.ams == 0 and cc.css in (_CSS_NVM, _CSS_SETS)

    def _reset(self) -> None:
        """Reset everything except the admin queue and its connection, after CC.EN became 0."""
        self._resetting, self.csts = True, Csts(self.csts.rdy)
        self.events.clear()
        self.enabled_events = AsyncEvents(0)
        self.changed_namespaces.clear()
        self.reservation_notices.clear()
        self.reservation_masks.clear()
        self.features.clear()
        self.host_behavior = bytes(512)
        for queue in list(self.io_queues.values()):
            self.delete(queue)
            queue.handle.disconnect()
        self._when_idle(self._was_reset)

    def _was_reset(self) -> None:
        shutdown = self.csts.shst  # requested since the reset began
        self._resetting, self.csts = False, Csts()
        if self.cc.en:  # the host should have waited for CSTS.RDY = 0
            self._enable()
        self.csts = Csts(self.csts.rdy, self.csts.cfs, shutdown)

    def delete(self, queue: Queue) -> None:
        """Execute no further commands of an I/O queue, and free its QID."""
        queue.handle.enable(False)
        if self.io_queues.get(queue.qid) is queue:
            del self.io_queues[queue.qid]
            self.deleted.append(queue)

    def fail(self) -> None:
        """Set CSTS.CFS and disconnect all queues."""
        self.csts = Csts(self.csts.rdy, 1, self.csts.shst)
        for queue in self.queues():
            queue.handle.enable(False)
            queue.handle.disconnect()

    def queues(self) -> list[Queue]:
        """Return all its queues, the admin queue first."""
        return [self.admin, *self.connected_io_queues()]

    def connected_io_queues(self) -> list[Queue]:
        """Return the I/O queues whose connections have not ended."""
        return [*self.io_queues.values(), *self.deleted]

    # ---- keep-alive ----

    def set_kato(self, kato_ms: int) -> None:
        """Set the Keep Alive Timeout, rounded up to the granularity; 0: none."""
        rounded = -(-kato_ms // KEEP_ALIVE_GRANULARITY_MS) * KEEP_ALIVE_GRANULARITY_MS
        self.kato_ms = min(rounded, _LONGEST_KATO_MS)

    def keep_alive_left(self, now: float) -> float | None:
        """Return the seconds until the Keep Alive Timeout expires; None if there is no timeout."""
        return self.last_seen + self.kato_ms / 1000 - now if self.kato_ms else None

    def heard(self, now: float) -> bool:
        """Return whether the host is alive; call this when keep_alive_left() has elapsed.

        Each command counts (TBKAS).  Commands on I/O queues are found in the engine's counters,
        without their time, so a silent host is detected within twice its timeout.
        """
        queues = self.connected_io_queues()
        activity = sum(queue.handle.stats.get("commands", 0) for queue in queues)
        if activity != self.activity:
            self.activity = activity
            self.last_seen = now
        left = self.keep_alive_left(now)
        return left is None or left > 0

    # ---- events and errors ----

    def namespaces_changed(self, nsids: Iterable[int]) -> None:
        """Add the namespaces to the log page, and notify the host if it enabled the event."""
        if not self.subsystem.discovery:
            self.changed_namespaces.update(nsids)
            if self.enabled_events & AsyncEvents.NAMESPACE_ATTRIBUTE:
                self.events.post(NAMESPACE_CHANGED)

    def ana_changed(self) -> None:
        """Notify the host, if it enabled the event, that an ANA state has changed."""
        if self.enabled_events & AsyncEvents.ANA_CHANGE:
            self.events.post(ANA_CHANGED)

    def reliability_degraded(self) -> None:
        """Notify the host, if it enabled the event, that a mirror has lost redundancy."""
        if self.enabled_events & AsyncEvents.SMART_DEGRADED:
            self.events.post(RELIABILITY_DEGRADED)

    def events_enabled(self, events: AsyncEvents) -> None:
        """Notify the host of conditions that are true when it enables their events (5.27.1.8)."""
        degraded = not self.subsystem.health.degraded.isdisjoint(self.namespaces)
        if events & AsyncEvents.SMART_DEGRADED and degraded:
            self.reliability_degraded()
        if events & AsyncEvents.NAMESPACE_ATTRIBUTE and self.changed_namespaces:
            self.events.post(NAMESPACE_CHANGED)

    def reservation_changed(self, nsid: int, what: NotificationType) -> None:
        """Notify the host, unless masked, that a different host changed a reservation."""
        if not self.reservation_masks.get(nsid, 0) & 1 << what:
            self._noticed += 1
            self.reservation_notices.append((self._noticed, what, nsid))
            self.events.post(RESERVATION_NOTICE)

    def discovery_changed(self) -> None:
        """Notify the host, if it enabled the event, that the discovery log has changed."""
        if self.enabled_events & AsyncEvents.DISCOVERY_CHANGE:
            self.events.post(DISCOVERY_CHANGED)

    def finish(self, request: Request, completion: Completion) -> None:
        """Complete a command that stayed outstanding: take() returns it."""
        self._finished.append((request, completion))
        self.on_completion()

    def take(self) -> list[tuple[Request, Completion]]:
        """Return the commands completed since the last call, including event requests."""
        finished, self._finished = self._finished, []
        return finished + self.events.take()

    def record_error(
        self, queue: Queue, sqe: Sqe, status: int, location: int | None = None
    ) -> None:
        """Add a failed command to the error log."""
        self.errors.record(queue, sqe, status, self.queues(), location)

    def look_for_errors(self) -> ErrorLog:
        """Return the error log, updated with the errors of the engine."""
        self.errors.collect(self.queues())
        return self.errors

    def require_ready(self) -> None:
        """Raise Command Sequence Error if the controller is not enabled and ready."""
        if not self.ready:
            raise StatusError(
                Status.COMMAND_SEQUENCE_ERROR,
                f"the controller is not ready (CC.EN {self.cc.en}, CSTS.RDY {self.csts.rdy}, "
                f"CSTS.SHST {self.csts.shst})",
            )

    def feature(self, fid: FeatureId) -> int:
        """Return the current value of a feature that has no effect."""
        return self.features.get(fid, 0)
