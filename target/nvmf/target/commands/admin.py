# SPDX-License-Identifier: BSD-3-Clause
"""The handlers of admin commands."""

from __future__ import annotations

from nvmf.spec.opcodes import AdminOpcode
from nvmf.spec.sqe import At
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.request import Completion, Request, expect_length
from nvmf.target.commands.featureset import get_features, set_features
from nvmf.target.commands.handler import Handler
from nvmf.target.commands.identify import identify
from nvmf.target.commands.logpages import get_log_page
from nvmf.target.model.controller import ABORT_LIMIT, Controller

_NOT_ABORTED = 1
"""Dword 0 of the completion of an Abort."""


def keep_alive(controller: Controller, request: Request) -> Completion:
    """Keep Alive: its arrival, recorded before, restarts the Keep Alive Timer."""
    expect_length(request, 0)
    return Completion()


def async_event_request(controller: Controller, request: Request) -> None:
    """Asynchronous Event Request: stays outstanding until an event occurs."""
    expect_length(request, 0)
    controller.events.request(request)


def abort(controller: Controller, request: Request) -> Completion | None:
    """Abort (Base 2.0, 5.1) event requests, and I/O commands of which nothing was done yet."""
    expect_length(request, 0)
    sqid, cid = request.sqe.cdw10 & 0xFFFF, request.sqe.cdw10 >> 16
    if sqid == 0:
        return Completion(0 if controller.events.abort(cid) else _NOT_ABORTED)
    queue = controller.io_queues.get(sqid)
    if queue is None:
        raise StatusError(Status.INVALID_FIELD, f"there is no queue {sqid}", location=At.DW10)
    if controller.aborts > ABORT_LIMIT:
        raise StatusError(
            Status.ABORT_COMMAND_LIMIT_EXCEEDED, f"{controller.aborts} are already outstanding"
        )
    controller.aborts += 1

    def answer(aborted: bool) -> None:
        controller.aborts -= 1
        controller.events.finish(request, Completion(0 if aborted else _NOT_ABORTED))

    queue.handle.abort(cid, answer)
    return None


ADMIN_HANDLERS: dict[int, Handler] = {
    AdminOpcode.GET_LOG_PAGE: get_log_page,
    AdminOpcode.IDENTIFY: identify,
    AdminOpcode.ABORT: abort,
    AdminOpcode.SET_FEATURES: set_features,
    AdminOpcode.GET_FEATURES: get_features,
    AdminOpcode.ASYNC_EVENT_REQUEST: async_event_request,
    AdminOpcode.KEEP_ALIVE: keep_alive,
}
"""Admin commands of I/O controllers."""


def dispatch(
    handlers: dict[int, Handler], controller: Controller, request: Request
) -> Completion | None:
    """Execute an admin command other than fabrics commands."""
    controller.require_ready()
    handler = handlers.get(request.sqe.opcode)
    if handler is None:
        raise StatusError(
            Status.INVALID_OPCODE, f"admin command {request.sqe.opcode:02x}h is not supported"
        )
    return handler(controller, request)
