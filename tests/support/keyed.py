# SPDX-License-Identifier: BSD-3-Clause
"""A hand-made host that authenticates with the second implementation of DH-HMAC-CHAP."""

from __future__ import annotations

import struct
from pathlib import Path

from support.served import SUBNQN, Served
from wire import dhchap, nvme
from wire.host import NvmeHost, Queue, expect
from wire.nvme import Cqe, Fctype

HOST = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-0000000000a1"
KEY, CTRL_KEY = dhchap.key_text(b"h" * 32, 1), dhchap.key_text(b"c" * 64, 3)
OTHER = dhchap.key_text(b"x" * 32)
X = 0x1F2E3D4C << 190 | 5


def config(folder: Path) -> str:
    for name, key in (("host.key", KEY), ("ctrl.key", CTRL_KEY)):
        (folder / name).write_text(key)
        (folder / name).chmod(0o600)
    return f"""
[[port]]
trsvcid = 0
device = "iwarp"

[[subsystem]]
nqn = "{SUBNQN}"

[[subsystem.host]]
nqn = "{HOST}"
dhchap_key_file = "{folder}/host.key"
dhchap_ctrl_key_file = "{folder}/ctrl.key"
dhchap_dhgroups = ["ffdhe2048", "null"]

[[subsystem.namespace]]
store = "ram"
size = "8MiB"
"""


def command(fctype: Fctype, length: int, sgl: bytes, cdw10: int = 0xE9010100) -> bytes:
    return nvme.fabrics(fctype, struct.pack("<II", cdw10, length), sgl=sgl)


def send(queue: Queue, message: bytes, tl: int | None = None, cdw10: int = 0xE9010100) -> Cqe:
    """Authentication Send."""
    region = queue.memory.register(message, writable=False)
    sgl = nvme.keyed(region.base, len(message), region.stag)
    length = len(message) if tl is None else tl
    return queue.call(command(Fctype.AUTH_SEND, length, sgl, cdw10))


def receive(queue: Queue, room: int = 4096, al: int | None = None) -> tuple[Cqe, bytes]:
    """Authentication Receive."""
    region = queue.memory.register(room, readable=False)
    sgl = nvme.keyed(region.base, room, region.stag)
    cqe = queue.call(command(Fctype.AUTH_RECEIVE, room if al is None else al, sgl))
    return cqe, bytes(region.data)


def message(queue: Queue) -> bytes:
    cqe, data = receive(queue)
    expect(cqe)
    return data


def challenge(queue: Queue, t_id: int = 9, groups: bytes = b"\0") -> dhchap.Challenge:
    expect(send(queue, dhchap.negotiate(t_id, groups=groups)))
    return dhchap.Challenge(message(queue))


def reply(asked: dhchap.Challenge, key: str = KEY, c2: bytes | None = None, s2: int = 0) -> bytes:
    session = dhchap.session_key(asked.group, X, asked.dh, asked.hash_id)
    r1 = dhchap.response(
        key, asked.hash_id, session, asked.c1, asked.s1, asked.t_id,
        role="HostHost", mine=HOST, theirs=SUBNQN,
    )  # fmt: skip
    return dhchap.reply(asked.t_id, r1, c2, s2, dhchap.public(asked.group, X))


def authenticate(queue: Queue, *, mutual: bool = False, group: int = 0) -> None:
    asked = challenge(queue, groups=bytes([group]))
    c2 = bytes(range(len(asked.c1))) if mutual else None
    expect(send(queue, reply(asked, c2=c2, s2=77 if mutual else 0)))
    data = message(queue)
    assert data[:2] == b"\1\3"
    if c2 is None:
        return
    session = dhchap.session_key(asked.group, X, asked.dh, asked.hash_id)
    r2 = dhchap.response(
        CTRL_KEY, asked.hash_id, session, c2, 77, asked.t_id,
        role="Controller", mine=SUBNQN, theirs=HOST,
    )  # fmt: skip
    assert data[16 : 16 + len(r2)] == r2
    expect(send(queue, dhchap.success2(asked.t_id)))


class Host(NvmeHost):
    """A host that must authenticate on each queue."""

    def __init__(self, target: Served) -> None:
        super().__init__(target.address, SUBNQN, hostnqn=HOST)

    def __enter__(self) -> Host:
        return self

    def admin_queue(self) -> Queue:
        """Return a connected admin queue, not authenticated."""
        queue = Queue.open(self.address)
        self.queues.append(queue)
        done = expect(self.connect_command(queue))
        assert done.dw0 >> 16 == 2, "AUTHREQ: ATR"
        self.cntlid = done.dw0 & 0xFFFF
        return queue

    def io_queue(self, qid: int = 1) -> Queue:
        """Return a connected I/O queue, not authenticated."""
        queue = Queue.open(self.address, qid, 32, self.cntlid)
        self.queues.append(queue)
        assert expect(self.connect_command(queue)).dw0 >> 16 == 2
        return queue

    def opened(self) -> Host:
        """Return the host, enabled, with an I/O queue."""
        authenticate(self.admin_queue(), mutual=True)
        self.enable()
        authenticate(self.io_queue(), mutual=True)
        return self
