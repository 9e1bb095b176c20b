# SPDX-License-Identifier: BSD-3-Clause
"""Behaviour of other hosts that is outside the specification, or unusual: seen in SPDK's
programs.
"""

from __future__ import annotations

import struct

import pytest

from support.livelab import A, B
from support.served import Served
from wire import nvme
from wire.host import CAP, CSTS, NvmeHost, Queue, Refused, expect
from wire.nvme import Admin, Status


def with_cid(capsule: bytes, cid: int) -> bytes:
    """A capsule with this command identifier."""
    return capsule[:2] + struct.pack("<H", cid) + capsule[4:]


def test_identifiers_of_event_requests(served: Served) -> None:
    """At every detach, SPDK's Property Gets use the identifiers of its outstanding event
    requests.
    """
    with NvmeHost(served.address, A).connect(0) as host:
        events = range(0x7000, 0x7004)
        for cid in events:
            host.admin.submit(with_cid(nvme.sqe(Admin.ASYNC_EVENT), cid))
        for cid in events:
            host.admin.submit(with_cid(nvme.property_get(CSTS), cid))
            assert expect(host.admin.response(cid)).dw0 & 1
        # Any other command could not be told apart.
        keep_alive = nvme.sqe(Admin.KEEP_ALIVE)
        host.admin.submit(with_cid(keep_alive, events[0]))
        expect(host.admin.response(events[0]), Status.COMMAND_ID_CONFLICT)
        # The event requests are unaffected: if aborted, each ends with its own identifier.
        for cid in events:
            expect(host.admin.call(nvme.sqe(Admin.ABORT, cdw=(cid << 16,))))
            expect(host.admin.response(cid), Status.ABORTED_BY_REQUEST)
        host.shutdown()


def test_host_without_a_name(served: Served) -> None:
    """SPDK's perf sends no HOSTNQN if none is configured."""
    with NvmeHost(served.address, A, hostnqn="").connect() as host:
        host.write(0, b"x" * 512)
        assert host.read(0, 1) == b"x" * 512
    with pytest.raises(Refused, match="CONNECT_INVALID_PARAMETERS"):
        NvmeHost(served.address, B, hostnqn="").connect()


def test_large_admin_queue(served: Served) -> None:
    """SPDK requests up to 128 entries."""
    queue = Queue.open(served.address, depth=128)
    host = NvmeHost(served.address, A)
    host.queues.append(queue)
    expect(host.connect_command(queue))
    cids = range(0x100, 0x100 + 127)
    for cid in cids:
        queue.submit(with_cid(nvme.property_get(CAP, 8), cid))
    for cid in cids:
        expect(queue.response(cid))
    host.close()
