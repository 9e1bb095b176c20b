# SPDX-License-Identifier: BSD-3-Clause
"""In-band authentication of queues, from Connect to its success or failure (Base 2.0, 8.13).

Every queue of a host with a key authenticates separately.  Until then, it accepts only Connect,
Disconnect, and Authentication Send and Receive.  If authentication fails, the connection of the
queue ends, and in the case of an admin queue also its controller.
"""

from __future__ import annotations

import logging

from nvmf.auth import ControllerAuth
from nvmf.auth.response import Parties
from nvmf.spec.auth import MAX_MESSAGE, AuthCommand
from nvmf.spec.opcodes import AdminOpcode, FabricsType
from nvmf.spec.sqe import At, Sqe
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.request import Completion, Request, expect_data, expect_length
from nvmf.target.model.controller import Controller
from nvmf.target.model.queue import Queue
from nvmf.target.model.subsystem import Subsystem

log = logging.getLogger("nvmf.target")

_ALLOWED = {
    FabricsType.CONNECT,
    FabricsType.AUTHENTICATION_SEND,
    FabricsType.AUTHENTICATION_RECEIVE,
    FabricsType.DISCONNECT,
}


def begin(subsystem: Subsystem, hostnqn: str, now: float) -> ControllerAuth | None:
    """Return the authentication state for a queue of this host; None if the host has no key."""
    if hostnqn not in subsystem.keys:
        return None
    # Looked up at every transaction, so that a changed key applies from the next one on.
    return ControllerAuth(Parties(hostnqn, subsystem.nqn), lambda: subsystem.keys.get(hostnqn), now)


def check(queue: Queue, sqe: Sqe) -> None:
    """Raise Authentication Required if the queue is locked and the command is not permitted."""
    if not queue.locked or (sqe.opcode == AdminOpcode.FABRICS and sqe.fctype in _ALLOWED):
        return
    raise StatusError(Status.AUTHENTICATION_REQUIRED, "the queue is not authenticated")


def send(controller: Controller, queue: Queue, request: Request) -> Completion:
    """Authentication Send (6.2): succeeds even for an invalid message; the receive reports it."""
    auth = _of(queue)
    length = AuthCommand.of(request.sqe.cdw10, request.sqe.cdw11).length
    if length > MAX_MESSAGE:
        raise StatusError(
            Status.INVALID_FIELD, f"TL is {length}; the maximum is {MAX_MESSAGE}", location=At.DW11
        )
    auth.send(expect_data(request, length), request.now)
    _follow(controller, queue, auth)
    return Completion()


def receive(controller: Controller, queue: Queue, request: Request) -> Completion:
    """Authentication Receive (6.1)."""
    auth = _of(queue)
    length = AuthCommand.of(request.sqe.cdw10, request.sqe.cdw11).length
    expect_length(request, length)
    try:
        message = auth.receive(length, request.now)
    except ValueError as error:
        raise StatusError(
            Status.INVALID_FIELD, f"AL is too small: {error}", location=At.DW11
        ) from None
    _follow(controller, queue, auth)
    return Completion(data=message)


def _of(queue: Queue) -> ControllerAuth:
    if queue.auth is None:
        raise StatusError(
            Status.INVALID_OPCODE, "there is no key for this host: authentication is not required"
        )
    return queue.auth


def _follow(controller: Controller, queue: Queue, auth: ControllerAuth) -> None:
    """Apply the result of a message to the queue."""
    if auth.count != queue.authentications:
        first, queue.authentications = not queue.authentications, auth.count
        log.info("%s: authenticated %s(%s)", queue, "" if first else "again ", auth.success)
        if queue.qid and first:
            queue.handle.connected(queue.sq_size, controller.view.table)
            queue.handle.enable(controller.ready)
    if auth.failure is not None and not queue.auth_failed:
        queue.auth_failed = True
        log.warning("%s: authentication failed: %s", queue, auth.failure)
        if queue.qid:
            queue.handle.enable(False)
    if auth.over:
        queue.leaving = True
