# SPDX-License-Identifier: BSD-3-Clause
"""Dialogues as JSON and as text."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TypedDict

from nvmf.capture.command import Command
from nvmf.capture.dialogue import Dialogue
from nvmf.capture.explain import Explained
from nvmf.capture.fault import Fault
from nvmf.spec.opcodes import IoOpcode


class CommandWords(TypedDict):
    """A command.  Times are in seconds from the first packet, latencies in microseconds."""

    time: float
    packet: int
    cid: int
    command: str
    detail: str
    opcode: int
    nsid: int | None
    """None: a Fabrics command, which has none."""
    data_bytes: int
    """Bytes that its descriptors describe."""
    rdma_read_bytes: int
    rdma_write_bytes: int
    data_us: float | None
    """From the command to its first RDMA READ or WRITE."""
    latency_us: float | None
    """From the command to its response; None: it has none."""
    status: str | None
    status_code: int | None


class FaultWords(TypedDict):
    """A violation, or a remark."""

    time: float
    packet: int
    sentence: str
    section: str | None
    """The violated section of a specification; None for a remark."""


class DialogueWords(TypedDict):
    """A connection."""

    number: int
    transport: str
    host: str
    target: str
    began: float
    handshake: list[str]
    qid: int | None
    subnqn: str
    hostnqn: str
    cntlid: int | None
    rejected: str
    ended: str
    packets: int
    synthesised: bool
    """Whether the packets were made of the work of one end, and were not on the wire."""
    commands: list[CommandWords]
    faults: list[FaultWords]
    more_faults: int


class ExplainedWords(TypedDict):
    """A capture file."""

    packets: int
    other_packets: int
    seconds: float
    violations: int
    notes: list[str]
    connections: list[DialogueWords]


def as_json(found: Explained) -> ExplainedWords:
    """Return everything, as JSON."""
    return {
        "packets": found.packets,
        "other_packets": found.other,
        "seconds": (found.ended - found.began) / 1e9 if found.packets else 0.0,
        "violations": found.violations,
        "notes": found.notes,
        "connections": [_dialogue(one, found.began) for one in found.dialogues],
    }


def _dialogue(one: Dialogue, began: int) -> DialogueWords:
    return {
        "number": one.number,
        "transport": one.transport,
        "host": address(one.host),
        "target": address(one.target),
        "began": (one.began.when - began) / 1e9,
        "handshake": one.handshake,
        "qid": one.qid,
        "subnqn": one.subnqn,
        "hostnqn": one.hostnqn,
        "cntlid": one.cntlid,
        "rejected": one.rejected,
        "ended": one.ended,
        "packets": one.packets,
        "synthesised": one.synthesised,
        "commands": [_command(command, began) for command in one.commands],
        "faults": [_fault(fault, began) for fault in one.faults],
        "more_faults": one.more_faults,
    }


def _command(one: Command, began: int) -> CommandWords:
    return {
        "time": (one.when - began) / 1e9,
        "packet": one.packet,
        "cid": one.sqe.cid,
        "command": one.name,
        "detail": one.detail,
        "opcode": one.sqe.opcode,
        "nsid": None if one.sqe.opcode == IoOpcode.FABRICS else one.sqe.nsid,
        "data_bytes": one.size,
        "rdma_read_bytes": one.read,
        "rdma_write_bytes": one.written,
        "data_us": None if one.data_when is None else (one.data_when - one.when) / 1000,
        "latency_us": None if one.latency is None else one.latency / 1000,
        "status": one.status,
        "status_code": None if one.cqe is None else one.cqe.status,
    }


def _fault(one: Fault, began: int) -> FaultWords:
    return {
        "time": (one.when - began) / 1e9,
        "packet": one.packet,
        "sentence": one.sentence,
        "section": one.section or None,
    }


def address(one: tuple[str, int]) -> str:
    """Return an address with its port."""
    host, port = one
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def head(one: Dialogue) -> dict[str, str | int | None]:
    """Return the fields of a connection, in the order in which they are shown."""
    if one.qid is None:
        queue = "not known: its beginning is not in the capture"
    else:
        queue = f"I/O queue {one.qid}" if one.qid else "admin queue"
    fields: dict[str, str | int | None] = {
        "host": address(one.host),
        "target": address(one.target),
        "queue": queue,
        "subsystem": one.subnqn or None,
        "host NQN": one.hostnqn or None,
        "controller": one.cntlid,
        "packets": f"{one.packets}, synthesised" if one.synthesised else one.packets,
        "ended": one.ended or None,
    }
    for line in one.handshake:
        kind, _, words = line.partition(": ")
        fields[kind] = words
    return fields


HEADER = (
    "time s", "packet", "CID", "command", "parameters", "bytes", "data", "latency us", "status",
)  # fmt: skip


def rows(one: Dialogue, began: int) -> Iterator[tuple[str | int, ...]]:
    """Yield the table of commands."""
    for command in one.commands:
        latency = command.latency
        yield (
            f"{(command.when - began) / 1e9:.6f}",
            command.packet,
            f"{command.sqe.cid:#06x}",
            command.name,
            command.detail,
            command.size,
            _moved(command),
            "-" if latency is None else f"{latency / 1000:.1f}",
            "no response" if command.status is None else command.status,
        )


def _moved(command: Command) -> str:
    """Return how the data was transferred."""
    ways = []
    if command.in_capsule:
        ways.append("in capsule")
    if command.read:
        ways.append("READ" if command.read == command.size else f"READ {command.read}")
    if command.written:
        ways.append("WRITE" if command.written == command.size else f"WRITE {command.written}")
    return " + ".join(ways) or "-"


TOTALS = ("command", "count", "failed", "bytes", "median us", "p99 us", "most us")


def totals(one: Dialogue) -> Iterator[tuple[str | int, ...]]:
    """Yield the table of the kinds of commands."""
    kinds: dict[str, list[Command]] = {}
    for command in one.commands:
        kinds.setdefault(command.name, []).append(command)
    for name, commands in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
        times = sorted(c.latency / 1000 for c in commands if c.latency is not None)
        p99 = times[min(len(times) - 1, len(times) * 99 // 100)] if times else None
        yield (
            name,
            len(commands),
            sum(c.failed for c in commands),
            sum(c.size for c in commands),
            f"{statistics.median(times):.1f}" if times else "-",
            "-" if p99 is None else f"{p99:.1f}",
            f"{times[-1]:.1f}" if times else "-",
        )


def sentence(fault: Fault, began: int) -> str:
    """Return a line about a violation or a remark."""
    where = f"packet {fault.packet}, {(fault.when - began) / 1e9:.6f} s"
    if fault.section:
        return f"violation ({where}): {fault.sentence} [{fault.section}]"
    return f"remark ({where}): {fault.sentence}"
