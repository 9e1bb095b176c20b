# SPDX-License-Identifier: BSD-3-Clause
"""Writes that wait for a limit, of a host that ends its controller or its queue meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from support.livelab import A, config, run
from support.served import Served
from wire import nvme
from wire.errors import ConnectionEnded
from wire.host import CC, CC_ENABLE_CSI, CSTS, NvmeHost, Queue, expect, lba_words
from wire.nvme import Io

LIMIT = "[subsystem.namespace.limits]\nwrite_iops = 1\n"
TARGET_CONFIG = config(a=LIMIT)
WRITES = 8
BLOCK = 512
HOSTNQN = "nqn.2026-11.io.example:h1"


def shut_down(host: NvmeHost) -> None:
    """Shut the controller down, and wait until CSTS says that this has ended."""
    expect(host.admin.call(nvme.property_set(CC, CC_ENABLE_CSI | 1 << 14)))
    while expect(host.admin.call(nvme.property_get(CSTS))).dw0 >> 2 & 3 != 2:
        pass


def leave(host: NvmeHost) -> None:
    """Delete the queue by Disconnect."""
    expect(host.queues[1].call(nvme.fabrics(nvme.Fctype.DISCONNECT, b"")))


@pytest.mark.feature("limits")
@pytest.mark.parametrize("end", [shut_down, leave])
def test_what_waits_is_not_written_afterwards(
    served: Served, end: Callable[[NvmeHost], None]
) -> None:
    """The host has been told that the controller, or the queue, executes nothing more."""
    with (
        NvmeHost(served.address, A, hostnqn=HOSTNQN) as host,
        NvmeHost(served.address, A, hostnqn=HOSTNQN) as other,
    ):
        queue = host.connect().queues[1]
        other.connect()
        cids = [queue.next_cid() for _ in range(WRITES)]
        for lba, cid in enumerate(cids):
            sqe = nvme.sqe(
                Io.WRITE, nsid=1, cid=cid, sgl=nvme.in_capsule(0, BLOCK), cdw=lba_words(lba, 1)
            )
            queue.submit(sqe, b"w" * BLOCK)
        host.read(0, 1)  # on the same queue: all writes have arrived
        end(host)
        before = other.read(0, WRITES)
        run(served, "namespace", "limit", A, 1, "--clear")
        found = statuses(queue, cids)
        assert other.read(0, WRITES) == before
    written = [before[BLOCK * lba :][:BLOCK] == b"w" * BLOCK for lba in range(WRITES)]
    wanted = ["SUCCESS" if done else "COMMAND_SEQUENCE_ERROR" for done in written]
    assert found == wanted[: len(found)]
    assert not all(written)


def statuses(queue: Queue, cids: list[int]) -> list[str]:
    """Return the statuses of commands, until the target ends the connection."""
    found: list[str] = []
    with contextlib.suppress(ConnectionEnded):
        for cid in cids:
            found.append(nvme.status_name(queue.response(cid).status))
    return found
