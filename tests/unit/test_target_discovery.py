# SPDX-License-Identifier: BSD-3-Clause
"""What hosts are told of the subsystems that they may use."""

from __future__ import annotations

import pytest

from faketarget import HOST, NQN, Bench
from nvmf.spec import commands
from nvmf.spec.fabrics import DiscoveryEntry, DiscoveryHeader, decode_discovery_log
from nvmf.spec.features import AsyncEvent
from nvmf.spec.identify import IdentifyController
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.opcodes import Cns, FeatureId, LogId
from nvmf.spec.status import DNR, Status
from nvmf.target.discovery import Port, plain_address, reachable
from nvmf.target.queue import Queue
from nvmf.target.subsystem import Subsystem


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.core.add_port(Port(1, "10.0.0.1", 4420))
    return made


def read(bench: Bench, queue: Queue) -> tuple[DiscoveryHeader, list[DiscoveryEntry]]:
    done = bench.do(queue, commands.get_log_page(LogId.DISCOVERY, 8192, nsid=0), length=8192)
    assert done.status == 0
    return decode_discovery_log(done.data)


def test_a_host_sees_what_it_may_use(bench: Bench) -> None:
    bench.core.add_subsystem(Subsystem(NQN + "2", "2", hosts=frozenset({HOST})))
    bench.core.add_subsystem(Subsystem(NQN + "3", "3", hosts=frozenset({HOST + "x"})))
    header, entries = read(bench, bench.admin(subnqn=DISCOVERY_NQN))
    assert header.recfmt == 0
    assert [entry.subnqn for entry in entries] == [NQN, NQN + "2"]
    assert {(e.traddr, e.trsvcid, e.cntlid, e.asqsz) for e in entries} == {
        ("10.0.0.1", "4420", 0xFFFF, 32)
    }


def test_a_log_read_in_pages_has_one_generation(bench: Bench) -> None:
    queue = bench.admin(subnqn=DISCOVERY_NQN)
    first, entries = read(bench, queue)
    again, _ = read(bench, queue)
    assert first.genctr == again.genctr
    parts = [
        bench.do(
            queue, commands.get_log_page(LogId.DISCOVERY, 512, offset=at, nsid=0), length=512
        ).data
        for at in range(0, 2048, 512)
    ]
    assert decode_discovery_log(b"".join(parts)) == (first, entries)
    bench.core.add_subsystem(Subsystem(NQN + "2", "2"))
    changed, _ = read(bench, queue)
    assert changed.genctr != first.genctr


def test_event_of_a_change(bench: Bench) -> None:
    queue = bench.admin(subnqn=DISCOVERY_NQN)
    assert queue.controller is not None
    sqe = commands.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, 1 << 31)
    assert bench.do(queue, sqe).status == 0
    assert bench.run(queue, commands.async_event_request()) is None
    bench.core.add_subsystem(Subsystem(NQN + "2", "2"))
    ((_, completion),) = queue.controller.events.take()
    assert AsyncEvent.decode(completion.dw0) == AsyncEvent(2, 0xF0, 0x70)


def test_discovery_controller(bench: Bench) -> None:
    queue = bench.admin(subnqn=DISCOVERY_NQN, kato_ms=0)
    assert queue.controller is not None
    assert queue.controller.kato_ms == 120_000
    done = bench.do(queue, commands.identify(), length=4096)
    data = IdentifyController.decode(done.data)
    assert (data.cntrltype, data.subnqn, data.ioccsz) == (2, DISCOVERY_NQN, 0)
    assert data.oaes == 1 << 31
    for sqe, length in (
        (commands.identify(Cns.ACTIVE_NAMESPACES), 4096),
        (commands.get_features(FeatureId.NUMBER_OF_QUEUES), 0),
    ):
        assert bench.do(queue, sqe, length=length).status == Status.INVALID_FIELD | DNR
    done = bench.do(queue, commands.get_log_page(LogId.SMART, 512), length=512)
    assert done.status == Status.INVALID_LOG_PAGE | DNR
    assert bench.do(queue, commands.abort(1)).status == Status.INVALID_OPCODE | DNR


@pytest.mark.parametrize(
    ("traddr", "local", "found"),
    [
        ("10.0.0.1", "10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.9.0.1", "10.0.0.1"),
        ("0.0.0.0", "10.9.0.1", "10.9.0.1"),
        ("0.0.0.0", "127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "fd00::1", None),
        ("::", "fd00::1", "fd00::1"),
        ("::", "10.0.0.7", None),
        ("127.0.0.1", "10.0.0.1", None),
        ("10.0.0.1", "127.0.0.1", None),
        ("fd00::1", "fd00::2%eth0", "fd00::1"),
    ],
)
def test_addresses(traddr: str, local: str, found: str | None) -> None:
    assert reachable(Port(1, traddr, 4420), (local, 4420)) == found
    assert plain_address("fe80::1%eth0") == "fe80::1"
