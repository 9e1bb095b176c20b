# SPDX-License-Identifier: BSD-3-Clause
"""Fabrics commands: Connect, Property Get and Set, Disconnect (Base 2.0, 6)."""

from __future__ import annotations

from typing import Protocol

from nvmf.spec.fabrics import (
    DYNAMIC_CNTLID,
    IATTR_DATA,
    ConnectCommand,
    ConnectData,
    ConnectOffset,
    ConnectResult,
    PropertyCommand,
)
from nvmf.spec.opcodes import FabricsType
from nvmf.spec.properties import PROPERTY_SIZE, Property
from nvmf.spec.sqe import At
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.request import Completion, Request, expect_data, expect_length
from nvmf.target.commands import authentication
from nvmf.target.model.controller import Controller
from nvmf.target.model.queue import Queue
from nvmf.target.model.subsystem import Subsystem


class Registry(Protocol):
    """The part of the target that Connect uses."""

    def find_subsystem(self, nqn: str) -> Subsystem | None: ...
    def allocate_cntlid(self) -> int: ...
    def add_controller(self, controller: Controller) -> None: ...


def _bad_command(offset: ConnectOffset, why: str) -> StatusError:
    return StatusError(Status.CONNECT_INVALID_PARAMETERS, why, dw0=offset)


def _bad_data(
    field: str, why: str, status: Status = Status.CONNECT_INVALID_PARAMETERS
) -> StatusError:
    return StatusError(status, why, dw0=IATTR_DATA | ConnectData.offset_of(field))


def connect(registry: Registry, queue: Queue, request: Request) -> Completion:
    """Connect (6.3): assigns a queue pair to a controller.

    Connect Invalid Parameters reports the invalid field in dword 0.
    """
    command = ConnectCommand.of(request.sqe)
    data = expect_data(request, ConnectData.SIZE)
    if command.recfmt != 0:
        raise StatusError(Status.INCOMPATIBLE_FORMAT, f"Connect of format {command.recfmt}")
    wanted = queue.asked = ConnectData.parse(data)
    if command.qid != queue.qid:
        raise _bad_command(
            ConnectOffset.QID, f"queue {command.qid} on the connection of queue {queue.qid}"
        )
    # More capsules than posted receives would break the connection.
    if not 1 <= command.sqsize < queue.recv_depth:
        raise _bad_command(
            ConnectOffset.SQSIZE,
            f"SQSIZE {command.sqsize} on a connection of {queue.recv_depth} entries",
        )
    if not any(wanted.hostid):
        raise _bad_data("hostid", "the Host Identifier is 0, which identifies no host")
    subsystem = registry.find_subsystem(wanted.subnqn)
    if subsystem is None:
        raise _bad_data("subnqn", f"there is no subsystem {wanted.subnqn!r}")
    if not wanted.hostnqn and not subsystem.allows(""):
        raise _bad_data("hostnqn", f"the host sent no NQN, which {subsystem.nqn} requires")
    if not subsystem.allows(wanted.hostnqn):
        raise _bad_data(
            "hostnqn",
            f"host {wanted.hostnqn} may not use {subsystem.nqn}",
            Status.CONNECT_INVALID_HOST,
        )
    if command.qid == 0:
        controller = _make_controller(registry, subsystem, queue, command, wanted, request.now)
    else:
        controller = _find_controller(subsystem, command, wanted)
        controller.io_queues[command.qid] = queue
        controller.gates.add(queue.handle)
    queue.controller = controller
    queue.sq_size = command.sqsize + 1
    queue.auth = authentication.begin(subsystem, wanted.hostnqn, request.now)
    queue.handle.connected(
        0 if command.sq_flow_control_disabled else queue.sq_size,
        # Without a table, I/O commands are passed on to Python, which refuses them.
        controller.view.table if command.qid and not queue.locked else None,
    )
    if command.qid:
        queue.handle.enable(controller.ready and not queue.locked)
    return Completion(ConnectResult(controller.cntlid, atr=int(queue.locked)).encode())


def _make_controller(
    registry: Registry,
    subsystem: Subsystem,
    queue: Queue,
    command: ConnectCommand,
    wanted: ConnectData,
    now: float,
) -> Controller:
    if wanted.cntlid != DYNAMIC_CNTLID:
        raise _bad_data(
            "cntlid", f"controller {wanted.cntlid:#x} requested, but controllers are dynamic"
        )
    cntlid = registry.allocate_cntlid()
    controller = Controller(
        subsystem, cntlid, queue, wanted.hostnqn, wanted.hostid, command.kato, now
    )
    registry.add_controller(controller)
    return controller


def _find_controller(
    subsystem: Subsystem, command: ConnectCommand, wanted: ConnectData
) -> Controller:
    controller = subsystem.controllers.get(wanted.cntlid)
    if controller is None:
        raise _bad_data("cntlid", f"there is no controller {wanted.cntlid} in {subsystem.nqn}")
    if controller.hostnqn != wanted.hostnqn:
        raise _bad_data("hostnqn", f"{controller} does not belong to host {wanted.hostnqn}")
    if controller.hostid != wanted.hostid:
        raise _bad_data("hostid", f"{controller} does not belong to host {wanted.hostid.hex()}")
    if command.qid > subsystem.max_io_queues:
        raise _bad_command(
            ConnectOffset.QID,
            f"queue {command.qid} of {controller}, which has {subsystem.max_io_queues}",
        )
    if command.sqsize >= subsystem.queue_size:
        raise _bad_command(
            ConnectOffset.SQSIZE, f"SQSIZE {command.sqsize}; MQES is {subsystem.queue_size - 1}"
        )
    if not controller.ready:
        raise StatusError(Status.COMMAND_SEQUENCE_ERROR, f"{controller} is not ready")
    if command.qid in controller.io_queues:
        raise StatusError(
            Status.COMMAND_SEQUENCE_ERROR, f"queue {command.qid} of {controller} is in use"
        )
    return controller


def property_get(controller: Controller, request: Request) -> Completion:
    """Property Get (6.6): returns the value in dwords 0 and 1."""
    expect_length(request, 0)
    command = PropertyCommand.of(request.sqe)
    _check_property(command)
    try:
        value = controller.read_property(command.offset)
    except KeyError:
        raise _bad_offset(f"property {command.offset:#x} is not supported") from None
    return Completion(value & 0xFFFFFFFF, value >> 32)


def property_set(controller: Controller, request: Request) -> Completion:
    """Property Set (6.7): only Controller Configuration can be written."""
    expect_length(request, 0)
    command = PropertyCommand.of(request.sqe)
    _check_property(command)
    if command.offset != Property.CC:
        raise _bad_offset(f"property {command.offset:#x} cannot be written")
    controller.write_cc(command.value & 0xFFFFFFFF)
    return Completion()


def _check_property(command: PropertyCommand) -> None:
    """Raise Invalid Field if the property does not exist, or has a different size."""
    said = f"no property {command.offset:#x} of {command.size} bytes"
    if command.offset not in PROPERTY_SIZE:
        raise _bad_offset(said)
    if PROPERTY_SIZE[Property(command.offset)] != command.size:
        raise StatusError(Status.INVALID_FIELD, said, location=At.DW10)


def _bad_offset(why: str) -> StatusError:
    return StatusError(Status.INVALID_FIELD, why, location=At.DW11)


def disconnect(controller: Controller, queue: Queue, request: Request) -> Completion:
    """Disconnect (6.4) of an I/O queue: its connection ends after the response."""
    expect_length(request, 0)
    if request.sqe.cdw10 & 0xFFFF:
        raise StatusError(Status.INCOMPATIBLE_FORMAT, "Disconnect of an unknown format")
    if queue.qid == 0:
        raise StatusError(Status.INVALID_QUEUE_TYPE, "Disconnect is not for admin queues")
    controller.delete(queue)
    queue.leaving = True
    return Completion()


def handle(registry: Registry, queue: Queue, request: Request) -> Completion:
    """Execute a fabrics command."""
    controller, fctype = queue.controller, request.sqe.fctype
    if fctype == FabricsType.CONNECT:
        if controller is not None:
            raise StatusError(Status.COMMAND_SEQUENCE_ERROR, "the queue is already connected")
        return connect(registry, queue, request)
    if controller is None:
        raise StatusError(Status.COMMAND_SEQUENCE_ERROR, "Connect is required first")
    if fctype == FabricsType.DISCONNECT:
        return disconnect(controller, queue, request)
    if fctype == FabricsType.PROPERTY_GET and queue.qid == 0:
        return property_get(controller, request)
    if fctype == FabricsType.PROPERTY_SET and queue.qid == 0:
        return property_set(controller, request)
    if fctype == FabricsType.AUTHENTICATION_SEND:
        return authentication.send(controller, queue, request)
    if fctype == FabricsType.AUTHENTICATION_RECEIVE:
        return authentication.receive(controller, queue, request)
    raise StatusError(Status.INVALID_OPCODE, f"fabrics command {fctype:02x}h on queue {queue.qid}")
