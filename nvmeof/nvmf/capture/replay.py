# SPDX-License-Identifier: BSD-3-Clause
"""Replaying: the commands of a captured host are sent to a live controller, whose responses are
compared with the captured ones.

The commands go over a connection of our own, on any device, one after the other: what depends on
the connection (Connect, properties that start a controller, events, authentication) is not played,
and neither are times and queue depths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nvmf.capture.command import Command
from nvmf.spec.opcodes import AdminOpcode, Cns, FabricsType, IoOpcode
from nvmf.spec.properties import Property
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import CODE_MASK, status_name

if TYPE_CHECKING:
    from nvmf.capture.dialogue import Dialogue
    from nvmf.initiator import Controller

TRANSFER_MOST = 16 << 20
_HARMLESS_ADMIN = (AdminOpcode.IDENTIFY, AdminOpcode.GET_LOG_PAGE, AdminOpcode.GET_FEATURES)
_HARMLESS_IO = (
    IoOpcode.READ, IoOpcode.COMPARE, IoOpcode.VERIFY, IoOpcode.FLUSH, IoOpcode.RESERVATION_REPORT,
)  # fmt: skip
_CHANGING_IO = (
    IoOpcode.WRITE, IoOpcode.WRITE_ZEROES, IoOpcode.WRITE_UNCORRECTABLE,
    IoOpcode.DATASET_MANAGEMENT, IoOpcode.RESERVATION_REGISTER, IoOpcode.RESERVATION_ACQUIRE,
    IoOpcode.RESERVATION_RELEASE, IoOpcode.COPY,
)  # fmt: skip
_CNTLID = slice(78, 80)
"""CNTLID in Identify Controller data: it differs in each connection."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A response that differs."""

    packet: int
    """Number of the packet with the captured command."""
    command: str
    detail: str
    sentence: str


@dataclass(slots=True)
class Replayed:
    """The result of a replay."""

    played: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """Commands that were not played, by the reason."""
    differences: list[Difference] = field(default_factory=list)


def commands_of(dialogues: Iterable[Dialogue]) -> list[Command]:
    """Return the commands of several connections in the order of their times."""
    return sorted((one for each in dialogues for one in each.commands), key=lambda one: one.when)


def refusal(command: Command, *, write: bool, most: int) -> str | None:
    """Return the reason why a command is not played; None if it is played.

    write: play those that change data.  most: bytes of the largest transfer.
    """
    opcode, fctype = command.sqe.opcode, command.fctype
    if fctype is not None:
        if fctype != FabricsType.PROPERTY_GET:
            return "it belongs to the captured connection"
    elif command.io:
        if opcode in _CHANGING_IO:
            if not write:
                return "it changes data: --write plays it"
        elif opcode not in _HARMLESS_IO:
            return "commands of its kind are not played"
    elif opcode not in _HARMLESS_ADMIN:
        return "it belongs to the captured connection"
    if command.sqe.fuse:
        return "it is one of two fused commands"
    if command.cqe is None:
        return "the capture has no response to it"
    if command.size > min(most, TRANSFER_MOST):
        return "its data is larger than the controller's largest transfer"
    if command.direction == 1 and command.size and command.content() is None:
        return "the capture does not have its data"
    return None


async def replay(
    controller: Controller,
    commands: Iterable[Command],
    *,
    write: bool,
    progress: Callable[[int], None] = lambda played: None,
) -> Replayed:
    """Send the commands to a controller, and compare its responses.

    Raises ConnectionLost if the connection ends.
    """
    result = Replayed()
    for command in commands:
        why = refusal(command, write=write, most=controller.max_transfer)
        if why is not None:
            result.skipped[why] = result.skipped.get(why, 0) + 1
            continue
        sentence = await _play(controller, command)
        result.played += 1
        if sentence:
            result.differences.append(
                Difference(command.packet, command.name, command.detail, sentence)
            )
        progress(result.played)
    return result


async def _play(controller: Controller, command: Command) -> str:
    """Send a command; return the difference, "" if there is none."""
    from nvmf.initiator.client.request import Data

    sqe = command.sqe
    fresh = Sqe(
        sqe.opcode, sqe.nsid, sqe.cdw10, sqe.cdw11, sqe.cdw12, sqe.cdw13, sqe.cdw14, sqe.cdw15,
        sqe.cdw2, sqe.cdw3,
    ).encode()  # fmt: skip
    session = controller.session
    queue = session.pick() if command.io else session.admin_queue
    within = controller.options.io_timeout
    size = command.size
    if not size:
        done = await queue.execute(fresh, None, within=within, what=command.name)
        return _compared(command, done.status, done.value, None)
    with controller.alloc(size) as memory:
        view = memoryview(memory).cast("B")
        try:
            to_device = command.direction == 1
            if to_device:
                view[:size] = command.content() or b""
            data = Data(memory, 0, size, to_device)
            done = await queue.execute(fresh, data, within=within, what=command.name)
            received = None if to_device else bytes(view[:size])
        finally:
            view.release()
    return _compared(command, done.status, done.value, received)


def _compared(command: Command, status: int, value: int, received: bytes | None) -> str:
    assert command.cqe is not None
    before, now = command.cqe.status & CODE_MASK, status & CODE_MASK
    if before != now:
        names = (status_name(one, io=command.io) for one in (before, now))
        return "the status was {}, and is {}".format(*names)
    if now:
        return ""
    if _has_result(command) and value != command.cqe.result:
        return f"the result was {command.cqe.result:#x}, and is {value:#x}"
    captured = command.content() if received is not None and _compares(command) else None
    if captured is None or received is None:
        return ""
    if not command.io and command.sqe.cdw10 & 0xFF == Cns.CONTROLLER:
        captured, received = _without(captured), _without(received)
    if captured == received:
        return ""
    different = sum(a != b for a, b in zip(captured, received, strict=True))
    first = next(i for i, (a, b) in enumerate(zip(captured, received, strict=True)) if a != b)
    return f"{different} of {len(captured)} bytes differ, the first of them byte {first}"


def _has_result(command: Command) -> bool:
    if command.fctype == FabricsType.PROPERTY_GET:
        return command.sqe.cdw11 not in (Property.CC, Property.CSTS)  # these change by themselves
    return not command.io and command.sqe.opcode == AdminOpcode.GET_FEATURES


def _compares(command: Command) -> bool:
    """Whether the data is the same each time: logs change."""
    return command.io or command.sqe.opcode == AdminOpcode.IDENTIFY


def _without(data: bytes) -> bytes:
    """Return Identify Controller data without the controller ID."""
    changed = bytearray(data)
    changed[_CNTLID] = bytes(2)
    return bytes(changed)
