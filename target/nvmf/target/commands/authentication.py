# SPDX-License-Identifier: BSD-3-Clause
"""In-band authentication of a queue: from the Connect that asks for it to the end (Base 2.0, 8.13).

Every queue of a host that has a key authenticates by itself.  Until it has, nothing but
Authentication Send and Receive runs on it; a queue whose authentication fails ends with its
connection, and an admin queue takes its controller along.
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
    """What a queue of this host has to go through; None where the host has no key."""
    if hostnqn not in subsystem.keys:
        return None
    # Looked up at every transaction: a key that is changed counts from the next one on.
    return ControllerAuth(Parties(hostnqn, subsystem.nqn), lambda: subsystem.keys.get(hostnqn), now)


def check(queue: Queue, sqe: Sqe) -> None:
    """Authentication Required where the queue has not authenticated and the command needs it."""
    if not queue.locked or (sqe.opcode == AdminOpcode.FABRICS and sqe.fctype in _ALLOWED):
        return
    raise StatusError(Status.AUTHENTICATION_REQUIRED, "the queue is not authenticated")


def send(controller: Controller, queue: Queue, request: Request) -> Completion:
    """Authentication Send (6.2): succeeds even where the message is wrong; a receive says that."""
    auth = _of(queue)
    length = AuthCommand.of(request.sqe.cdw10, request.sqe.cdw11).length
    if length > MAX_MESSAGE:
        raise StatusError(
            Status.INVALID_FIELD, f"TL is {length}, no message is so long", location=At.DW11
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
            Status.INVALID_OPCODE, "there is no key for this host, and authentication was not asked"
        )
    return queue.auth


def _follow(controller: Controller, queue: Queue, auth: ControllerAuth) -> None:
    """What a message changes for the queue."""
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
