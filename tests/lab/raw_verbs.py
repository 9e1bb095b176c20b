# SPDX-License-Identifier: BSD-3-Clause
"""A host written with pyverbs: its CM messages, its queue pair, its work requests.

It runs in the guest with the distribution's Python, and shares nothing with the product: the
bytes of capsules and private data are those of `wire.nvme`.  pyverbs does all of it, the private
data too; its queue pair is its own, so that any work request can be posted.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Self

import pyverbs.cm_enums as ce
import pyverbs.enums as e
from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from wire import nvme

PATIENCE = 60.0
"""Seconds after which an awaited event counts as lost; the guest is slow."""
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_WRITE
CAPSULES = 16
LARGEST = 64 + 8192
SEND, NUDGE = 1000, 2000
"""Work request IDs; lower ones are those of receives."""
NUDGES = tuple(0.025 * (2**number - 1) for number in range(1, 7))
"""Times of silence in seconds after which a nudge follows the first message."""


class Refused(Exception):
    """The target rejected the connection; the exception has the reject's private data, if any."""

    def __init__(self, event: str, private_data: bytes) -> None:
        super().__init__(f"{event} with {private_data[:16].hex() or 'nothing'}")
        self.private_data = private_data

    @property
    def sts(self) -> int:
        """The reason in the NVMe-oF private data of the reject."""
        assert len(self.private_data) >= 4, str(self)
        assert self.private_data[:2] == b"\0\0", f"record format {self.private_data[:2].hex()}"
        return int.from_bytes(self.private_data[2:4], "little")


class Ended(Exception):
    """The connection ended: a completion in error."""


class Connection:
    """An established connection, ready for the target's sends."""

    def __init__(
        self, where: tuple[str, int], private_data: bytes, *, qid: int = 0, reads: int = 8
    ) -> None:
        self.qid = qid
        self._cid = 0
        self._nudges: list[float] = []
        self._regions: list[Any] = []
        self._channel = CMEventChannel()
        self.id = CMID(creator=self._channel, port_space=ce.RDMA_PS_TCP)
        self.id.resolve_addr(AddrInfo(dst=where[0], dst_service=str(where[1]),
                                      port_space=ce.RDMA_PS_TCP))  # fmt: skip
        self.event(ce.RDMA_CM_EVENT_ADDR_RESOLVED)
        self.id.resolve_route()
        self.event(ce.RDMA_CM_EVENT_ROUTE_RESOLVED)
        self.pd = self.id.pd
        self.cq = CQ(self.id.context, 4 * CAPSULES)
        cap = QPCap(max_send_wr=CAPSULES, max_recv_wr=CAPSULES, max_send_sge=2, max_recv_sge=1)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1)
        self.qp = QP(self.pd, init)
        self._to(e.IBV_QPS_INIT)
        self._receives = self.region(CAPSULES * nvme.CQE_SIZE)
        self._sends = self.region(LARGEST)
        for index in range(CAPSULES):
            self._receive(index)
        self._connect(private_data, reads)
        self.completions: list[Any] = []

    def _to(self, state: int) -> None:
        attributes, mask = self.id.init_qp_attr(state)
        self.qp.modify(attributes, mask)

    def _connect(self, private_data: bytes, reads: int) -> None:
        parameters = ConnParam(
            resources=reads, depth=0, retry=7, rnr_retry=7, qp_num=self.qp.qp_num,
            data_len=len(private_data),
        )  # fmt: skip
        parameters.set_private_data(private_data)
        self.id.connect(parameters)
        event = CMEvent(self._channel)
        kind, name, self.reply = event.event_type, event.event_str(), event.private_data or b""
        event.ack_cm_event()
        if kind == ce.RDMA_CM_EVENT_CONNECT_RESPONSE:  # not iWARP: the other steps are done here
            for state in (e.IBV_QPS_INIT, e.IBV_QPS_RTR, e.IBV_QPS_RTS):
                self._to(state)  # INIT again: only now it has the right of remote reads
            self.id.establish()
        elif kind == ce.RDMA_CM_EVENT_ESTABLISHED:
            self._nudges = list(NUDGES)
        else:
            raise Refused(name, bytes(self.reply))

    @classmethod
    def open(cls, where: tuple[str, int], qid: int = 0, depth: int = 32, cntlid: int = 0) -> Self:
        """Return a connection with correct parameters."""
        return cls(where, nvme.cm_request(qid, depth, depth - 1, cntlid), qid=qid)

    def event(self, wanted: int) -> None:
        """Take the next CM event, which must be of this type."""
        event = CMEvent(self._channel)
        kind, name = event.event_type, event.event_str()
        event.ack_cm_event()
        assert kind == wanted, f"{name} came, event {wanted} was to"

    # ---- memory ----

    def region(self, size: int, access: int = ACCESS) -> Any:
        """Registered memory, which lives as long as the connection."""
        one = MR(self.pd, size, access)
        self._regions.append(one)
        return one

    # ---- work requests ----

    def _receive(self, index: int) -> None:
        region = self._receives
        sge = SGE(region.buf + index * nvme.CQE_SIZE, nvme.CQE_SIZE, region.lkey)
        self.qp.post_recv(RecvWR(wr_id=index, num_sge=1, sg=[sge]))

    def send(self, data: bytes) -> None:
        """Post a Send of these bytes."""
        self._sends.write(data, len(data))
        sge = SGE(self._sends.buf, len(data), self._sends.lkey)
        self.post(SendWR(wr_id=SEND, num_sge=1, sg=[sge], opcode=e.IBV_WR_SEND,
                         send_flags=e.IBV_SEND_SIGNALED))  # fmt: skip

    def rdma_write(self, data: bytes, rkey: int, address: int) -> None:
        """Post an RDMA WRITE of these bytes; this or a later call raises Ended if it fails."""
        self._sends.write(data, len(data))
        sge = SGE(self._sends.buf, len(data), self._sends.lkey)
        request = SendWR(wr_id=SEND, num_sge=1, sg=[sge], opcode=e.IBV_WR_RDMA_WRITE,
                         send_flags=e.IBV_SEND_SIGNALED)  # fmt: skip
        request.set_wr_rdma(rkey, address)
        self.post(request)

    def post(self, request: Any) -> None:
        """Post a signalled work request and wait for its completion."""
        self.qp.post_send(request)
        while not (done := [c for c in self._poll() if c.wr_id >= SEND]):
            pass
        self.completions.remove(done[0])

    def _nudge(self) -> None:
        """Send an RDMA WRITE of no bytes, to no memory.

        As a responder, siw may leave data unread that arrives before it has taken over its
        socket, until more data arrives (host/nudge.c does the same for our host).
        """
        sge = SGE(self._sends.buf, 0, self._sends.lkey)
        nothing = SendWR(wr_id=NUDGE, num_sge=1, sg=[sge], opcode=e.IBV_WR_RDMA_WRITE,
                         send_flags=e.IBV_SEND_SIGNALED)  # fmt: skip
        nothing.num_sge = 0  # SendWR() does not accept 0
        nothing.set_wr_rdma(0, 0)
        self.qp.post_send(nothing)

    def _poll(self) -> list[Any]:
        """Return the completions, after waiting for a new one; Ended for an error."""
        begin = time.monotonic()
        while True:
            _, found = self.cq.poll(CAPSULES)
            for completion in found:
                if completion.status != e.IBV_WC_SUCCESS:
                    raise Ended(f"work completion status {completion.status}")
            new = [completion for completion in found if completion.wr_id != NUDGE]
            self.completions += new
            if new:
                return list(self.completions)
            waited = time.monotonic() - begin
            assert waited < PATIENCE, f"nothing completed within {PATIENCE:.0f} s"
            if self._nudges and waited > self._nudges[0]:
                del self._nudges[0]
                self._nudge()
            time.sleep(0.001)

    def response(self) -> tuple[nvme.Cqe, Any]:
        """The next response, and its work completion."""
        while not (mine := [c for c in self.completions if c.wr_id < SEND]):
            self._poll()
        self._nudges.clear()
        self.completions.remove(mine[0])
        index = mine[0].wr_id
        data = self._receives.read(nvme.CQE_SIZE, index * nvme.CQE_SIZE)
        assert mine[0].byte_len == nvme.CQE_SIZE, f"a response of {mine[0].byte_len} bytes"
        self._receive(index)
        return nvme.decode_cqe(data), mine[0]

    def call(self, capsule: bytes, data: bytes = b"") -> nvme.Cqe:
        """A command, and its response."""
        self._cid += 1
        self.send(capsule[:2] + self._cid.to_bytes(2, "little") + capsule[4:] + data)
        cqe, _ = self.response()
        assert cqe.cid == self._cid, f"response to {cqe.cid}, not {self._cid}"
        return cqe

    def ends(self, data: bytes) -> None:
        """Check that one Send of these bytes ends the connection, before or after its own
        completion.
        """
        with contextlib.suppress(Ended):
            self.send(data)
        self.event(ce.RDMA_CM_EVENT_DISCONNECTED)

    def disconnect(self) -> None:
        """End the connection in order."""
        self.id.disconnect()
        self.event(ce.RDMA_CM_EVENT_DISCONNECTED)

    def close(self) -> None:
        """Free all objects."""
        self.qp.close()
        self.cq.close()
        for region in self._regions:
            region.close()
        self.id.close()
        self._channel.close()
