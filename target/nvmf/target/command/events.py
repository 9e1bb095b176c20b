# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous events of one controller (Base 2.0, 5.2)."""

from __future__ import annotations

from collections.abc import Callable

from nvmf.spec.features import AsyncEvent, AsyncEvents, EventType, Notice
from nvmf.spec.opcodes import LogId
from nvmf.spec.status import DNR, Status, StatusError
from nvmf.target.command.request import Completion, Request

AER_LIMIT = 4
"""Maximum outstanding Asynchronous Event Requests: AERL + 1."""

NAMESPACE_CHANGED = AsyncEvent(
    EventType.NOTICE, Notice.NAMESPACE_ATTRIBUTE_CHANGED, LogId.CHANGED_NAMESPACES
)
ANA_CHANGED = AsyncEvent(EventType.NOTICE, Notice.ANA_CHANGE, LogId.ANA)
RESERVATION_NOTICE = AsyncEvent(EventType.IO_COMMAND_SET, 0, LogId.RESERVATION_NOTIFICATION)
RELIABILITY_DEGRADED = AsyncEvent(EventType.SMART, 0, LogId.SMART)
DISCOVERY_CHANGED = AsyncEvent(EventType.NOTICE, Notice.DISCOVERY_LOG_CHANGE, LogId.DISCOVERY)

EVENTS = {
    AsyncEvents.NAMESPACE_ATTRIBUTE: NAMESPACE_CHANGED,
    AsyncEvents.ANA_CHANGE: ANA_CHANGED,
    AsyncEvents.SMART_DEGRADED: RELIABILITY_DEGRADED,
    AsyncEvents.DISCOVERY_CHANGE: DISCOVERY_CHANGED,
}
"""Events that a host enables with Asynchronous Event Configuration (Base 2.0, 5.27.1.8)."""


class EventQueue:
    """Outstanding requests, events that wait for a request, and events whose log page is unread.

    An event is reported once, and reported again only after the host has read its log page.
    """

    def __init__(self, tell: Callable[[], object]) -> None:
        """tell is called whenever take() has a new completion."""
        self._tell = tell
        self._requests: list[Request] = []
        self._pending: list[AsyncEvent] = []
        self._masked: set[AsyncEvent] = set()
        self._ready: list[tuple[Request, Completion]] = []

    def request(self, request: Request) -> None:
        """Accept an Asynchronous Event Request; raise StatusError above the limit."""
        if len(self._requests) >= AER_LIMIT:
            raise StatusError(Status.AER_LIMIT_EXCEEDED, f"{AER_LIMIT} are already outstanding")
        self._requests.append(request)
        self._match()

    def post(self, event: AsyncEvent) -> None:
        """Report an event, now or when a request arrives."""
        if event not in self._masked and event not in self._pending:
            self._pending.append(event)
            self._match()

    def log_read(self, lid: int) -> None:
        """Allow events of a log page again: the host read it without Retain Asynchronous Event."""
        self._masked = {event for event in self._masked if event.lid != lid}
        self._pending = [event for event in self._pending if event.lid != lid]

    def drop(self, event: AsyncEvent) -> None:
        """Discard an event that was not reported, because the host has disabled it."""
        self._pending = [one for one in self._pending if one != event]

    def abort(self, cid: int) -> bool:
        """Abort the request with this command identifier; return whether it existed."""
        for request in self._requests:
            if request.sqe.cid == cid:
                self._requests.remove(request)
                self.finish(request, Completion(status=Status.ABORT_REQUESTED))
                return True
        return False

    def finish(self, request: Request, completion: Completion) -> None:
        """Complete a command that stayed outstanding, an event request or another."""
        self._ready.append((request, completion))
        self._tell()

    def clear(self) -> None:
        """End all requests and discard all events, for a controller reset."""
        ended = Completion(status=Status.ABORTED_SQ_DELETION | DNR)
        requests, self._requests = self._requests, []
        for request in requests:
            self.finish(request, ended)
        self._pending.clear()
        self._masked.clear()

    def take(self) -> list[tuple[Request, Completion]]:
        """Return the requests completed since the last call, with their completions."""
        ready, self._ready = self._ready, []
        return ready

    def _match(self) -> None:
        while self._requests and self._pending:
            event = self._pending.pop(0)
            self._masked.add(event)
            self.finish(self._requests.pop(0), Completion(event.encode()))
