# SPDX-License-Identifier: BSD-3-Clause
"""Stand-ins for the engine, for tests of the target without it, and the recorded dialogue."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from nvmf.rpc.results import Latency
from nvmf.spec import commands
from nvmf.spec.fabrics import ConnectData
from nvmf.spec.properties import Cc, Property
from nvmf.spec.sgl import Sgl, SglType
from nvmf.target.command.request import Completion
from nvmf.target.commands.core import Core
from nvmf.target.model.namespace import Identity, Namespace
from nvmf.target.model.queue import Queue
from nvmf.target.model.subsystem import Subsystem

NQN = "nqn.2014-08.org.example:unit"
HOST = "nqn.2014-08.org.example:host"
HOSTID = bytes(range(1, 17))
ENABLED = Cc(en=1, css=6, iosqes=6, iocqes=4).encode()


@dataclass
class FakeStore:
    """A store that keeps no data."""

    kind: str = "ram"
    size: int = 1 << 20
    block_size: int = 512
    physical_block_size: int = 4096
    volatile_write_cache: bool = True
    deallocate: bool = True
    read_only: bool = False
    path: str | None = None

    def flush(self) -> None: ...


@dataclass
class FakeNamespace:
    """An engine namespace with counters."""

    stats: dict[str, int] = field(default_factory=dict)

    def busy(self) -> list[int]:
        return [self.stats.get("busy", 0)]

    def latency(self) -> Latency:
        return {"read": [0] * 24, "write": [0] * 24, "read_ns": 0, "write_ns": 0}

    def resized(self) -> None: ...

    def limit(self, **limits: int) -> None: ...

    def gate(self, *, read: int = 0, write: int = 0, flush: int | None = None) -> None:
        self.gates = (read, write, flush)

    def set_invalid(self, ranges: Iterable[tuple[int, int]]) -> None:
        self.invalid = tuple(ranges)

    def rearm(self) -> None: ...

    def close(self) -> bool:
        return True


@dataclass
class FakeHandle:
    """A queue pair that records the calls of its methods."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    stats: dict[str, int] = field(default_factory=dict)
    refused: list[dict[str, Any]] = field(default_factory=list)
    """Errors found by the engine itself (nvmf.engine.QpairError)."""

    def errors(self, after: int) -> tuple[int, list[Any]]:
        left = len(self.refused) - after
        return len(self.refused), self.refused[after:] if left < 16 else self.refused[-16:]

    def connected(self, sq_size: int, namespaces: Any) -> None:
        self.calls.append(("connected", sq_size, namespaces))

    def abort(self, cid: int, cookie: Any) -> None:
        self.calls.append(("abort", cid, cookie))

    def gate(self, gates: Any) -> None:
        self.calls.append(("gate", gates))

    def show(self, namespaces: Any) -> None:
        self.calls.append(("show", namespaces))

    def inject(self, slots: int) -> None:
        self.calls.append(("inject", slots))

    def enable(self, enabled: bool) -> None:
        self.calls.append(("enable", enabled))

    def disconnect(self) -> None:
        self.calls.append(("disconnect",))


def with_sgl(sqe: bytes, length: int, cid: int = 7) -> bytes:
    """Return an SQE with the fields that the engine's host side sets: PSDT, CID and a keyed SGL."""
    kind = SglType.KEYED_INVALIDATE if length else SglType.KEYED
    sgl = Sgl(kind, 0x1000 if length else 0, length, 0x55 if length else 0)
    return sqe[:1] + b"\x40" + cid.to_bytes(2, "little") + sqe[4:24] + sgl.encode() + sqe[40:]


@dataclass
class Bench:
    """A core with one subsystem, used as by a host."""

    core: Core = field(default_factory=Core)
    subsystem: Subsystem = field(
        default_factory=lambda: Subsystem(NQN, "SERIAL", allow_any_host=True)
    )
    now: float = 100.0

    def __post_init__(self) -> None:
        self.core.add_subsystem(self.subsystem)

    def add_namespace(self, nsid: int = 1, **store: Any) -> Namespace:
        """Add a namespace to the subsystem."""
        identity = Identity.derive(self.subsystem.nqn, nsid, "/x")
        namespace = Namespace(nsid, FakeStore(**store), identity, FakeNamespace())
        self.subsystem.attach(namespace)
        return namespace

    def queue(self, qid: int = 0, depth: int = 32) -> Queue:
        """A fresh connection."""
        return Queue(FakeHandle(), qid, depth, ("10.0.0.2", 1000), ("10.0.0.1", 4420))

    def run(
        self, queue: Queue, sqe: bytes, data: bytes = b"", length: int | None = None, cid: int = 7
    ) -> Completion | None:
        """Send one command; length is that of its SGL."""
        whole = with_sgl(sqe, len(data) if length is None else length, cid)
        return self.core.handle(queue, whole, data, self.now, token=cid)

    def do(
        self, queue: Queue, sqe: bytes, data: bytes = b"", length: int | None = None, cid: int = 7
    ) -> Completion:
        """Send one command that completes at once."""
        completion = self.run(queue, sqe, data, length, cid)
        assert completion is not None
        return completion

    def connect(
        self,
        queue: Queue,
        *,
        sqsize: int | None = None,
        kato_ms: int = 5000,
        disable_sq_flow_control: bool = False,
        qid: int | None = None,
        **fields: Any,
    ) -> Completion:
        """Connect, with correct parameters unless others are given."""
        values: dict[str, Any] = {"hostid": HOSTID, "subnqn": self.subsystem.nqn, "hostnqn": HOST}
        values.update(fields)
        sqe = commands.connect(
            queue.qid if qid is None else qid,
            queue.recv_depth - 1 if sqsize is None else sqsize,
            kato_ms=kato_ms,
            disable_sq_flow_control=disable_sq_flow_control,
        )
        return self.do(queue, sqe, ConnectData(**values).encode())

    def admin(self, **fields: Any) -> Queue:
        """A connected admin queue of an enabled controller."""
        queue = self.queue()
        assert self.connect(queue, **fields).status == 0
        assert self.do(queue, commands.property_set(Property.CC, ENABLED)).status == 0
        return queue

    def io(self, admin: Queue, qid: int = 1, depth: int = 128) -> Queue:
        """A connected I/O queue of the same controller."""
        assert admin.controller is not None
        queue = self.queue(qid, depth)
        controller = admin.controller
        host: dict[str, Any] = {"hostnqn": controller.hostnqn, "hostid": controller.hostid}
        assert self.connect(queue, cntlid=controller.cntlid, **host).status == 0
        return queue


@dataclass(frozen=True)
class Exchange:
    """A command of the recorded dialogue."""

    sqe: bytes
    cqe: bytes | None
    host_data: bytes
    target_data: bytes


@dataclass(frozen=True)
class Dialogue:
    """A connection of the recorded dialogue."""

    req: bytes
    rep: bytes
    exchanges: list[Exchange]


def _data(value: dict[str, Any] | None) -> bytes:
    return bytes.fromhex(value["hex"]).ljust(value["length"], b"\0") if value else b""


@cache
def dialogue(name: str) -> Dialogue:
    """Return discovery, admin or io of tests/data/linux-nvmet.json."""
    path = Path(__file__).parents[1] / "data" / "linux-nvmet.json"
    for connection in json.loads(path.read_text())["connections"]:
        if connection["name"] == name:
            return Dialogue(
                bytes.fromhex(connection["req"]),
                bytes.fromhex(connection["rep"]),
                [
                    Exchange(
                        bytes.fromhex(e["sqe"]),
                        bytes.fromhex(e["cqe"]) if e["cqe"] else None,
                        _data(e.get("host_data")),
                        _data(e.get("target_data")),
                    )
                    for e in connection["exchanges"]
                ],
            )
    raise KeyError(name)


def read_log(bench: Bench, queue: Queue, lid: int, length: int, **fields: int) -> bytes:
    """Return a log page that the controller is expected to have."""
    done = bench.do(
        queue,
        commands.get_log_page(
            lid,
            length,
            rae=bool(fields.pop("rae", 0)),
            **fields,
        ),
        length=length,
    )
    assert done.status == 0
    assert len(done.data) == length
    return done.data
