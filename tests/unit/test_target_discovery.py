# SPDX-License-Identifier: BSD-3-Clause
"""The discovery data that hosts get about the subsystems that they may use."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from nvmf.spec import commands
from nvmf.spec.fabrics import (
    AddressFamily,
    DiscoveryEntry,
    DiscoveryHeader,
    EntryFlags,
    LogOptions,
    SubsystemType,
    TransportType,
    decode_discovery_log,
)
from nvmf.spec.features import AsyncEvent
from nvmf.spec.identify import IdentifyController
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.opcodes import Cns, FeatureId, LogId
from nvmf.spec.status import DNR, Status
from nvmf.target.commands.core import Core
from nvmf.target.commands.discovery import Port, Referral, plain_address, reachable
from nvmf.target.model.queue import Queue
from nvmf.target.model.subsystem import Subsystem
from support.faketarget import HOST, NQN, Bench


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.core.add_port(Port(1, "10.0.0.1", 4420))
    return made


def read(
    bench: Bench, queue: Queue, *, lsp: int = 0
) -> tuple[DiscoveryHeader, list[DiscoveryEntry]]:
    sqe = commands.get_log_page(LogId.DISCOVERY, 16384, nsid=0, lsp=lsp)
    done = bench.do(queue, sqe, length=16384)
    assert done.status == 0
    return decode_discovery_log(done.data)


def part(bench: Bench, queue: Queue, offset: int, length: int, *, rae: bool = True) -> bytes:
    sqe = commands.get_log_page(LogId.DISCOVERY, length, offset=offset, nsid=0, rae=rae)
    done = bench.do(queue, sqe, length=length)
    assert done.status == 0
    return done.data


def listen_for_changes(bench: Bench, **fields: Any) -> Queue:
    """Return the queue of a discovery controller whose host has requested an event."""
    queue = bench.admin(subnqn=DISCOVERY_NQN, **fields)
    sqe = commands.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, 1 << 31)
    assert bench.do(queue, sqe).status == 0
    assert bench.run(queue, commands.async_event_request()) is None
    return queue


def events(queue: Queue) -> list[AsyncEvent]:
    assert queue.controller is not None
    return [AsyncEvent.decode(done.dw0) for _, done in queue.controller.events.take()]


CHANGED = AsyncEvent(2, 0xF0, 0x70)


@pytest.mark.feature("discovery-log")
def test_a_host_sees_what_it_may_use(bench: Bench) -> None:
    bench.core.add_subsystem(Subsystem(NQN + "2", "2", hosts=frozenset({HOST})))
    bench.core.add_subsystem(Subsystem(NQN + "3", "3", hosts=frozenset({HOST + "x"})))
    header, entries = read(bench, bench.admin(subnqn=DISCOVERY_NQN))
    assert (header.recfmt, header.dlpf) == (0, 0)
    assert [(entry.subtype, entry.subnqn) for entry in entries] == [
        (SubsystemType.CURRENT_DISCOVERY, DISCOVERY_NQN),
        (SubsystemType.NVME, NQN),
        (SubsystemType.NVME, NQN + "2"),
    ]
    assert {(e.traddr, e.trsvcid, e.cntlid, e.asqsz) for e in entries} == {
        ("10.0.0.1", "4420", 0xFFFF, 128)
    }
    _, others = read(bench, bench.admin(subnqn=DISCOVERY_NQN, hostnqn=HOST + "x"))
    assert [entry.subnqn for entry in others[1:]] == [NQN, NQN + "3"]


@pytest.mark.feature("discovery-log")
def test_all_subsystems_are_for_nobody(bench: Bench) -> None:
    """ALLSUBE would show a host forbidden subsystems: it is not supported, and ignored."""
    bench.core.add_subsystem(Subsystem(NQN + "3", "3", hosts=frozenset({HOST + "x"})))
    queue = bench.admin(subnqn=DISCOVERY_NQN)
    assert read(bench, queue, lsp=LogOptions.ALL_SUBSYSTEMS | LogOptions.EXTENDED) == read(
        bench, queue
    )


@pytest.mark.feature("discovery-log")
def test_port_local_entries(bench: Bench) -> None:
    bench.core.add_port(Port(2, "10.0.0.1", 4421))
    bench.core.add_port(Port(3, "10.0.0.2", 4420))
    bench.core.set_referrals([Referral("10.9.9.9", 8009)])
    queue = bench.admin(subnqn=DISCOVERY_NQN)
    header, entries = read(bench, queue, lsp=LogOptions.PORT_LOCAL)
    assert header.dlpf == LogOptions.PORT_LOCAL
    assert [(e.subtype, e.portid) for e in entries] == [(3, 1), (2, 1), (1, 0)]
    header, entries = read(bench, queue)
    assert header.dlpf == 0
    assert [(e.subtype, e.portid) for e in entries] == [
        *((3, port) for port in (1, 2, 3)),
        *((2, port) for port in (1, 2, 3)),
        (1, 0),
    ]
    page = bench.do(queue, commands.get_log_page(LogId.SUPPORTED_PAGES, 1024), length=1024).data
    words = struct.unpack("<256I", page)
    assert {lid: word for lid, word in enumerate(words) if word} == {
        0: 1,
        1: 1,
        0x70: 1 | 2 << 16,
    }


def test_ports_with_the_same_log_say_so(bench: Bench) -> None:
    """DUPRETINFO is set for ports from which a host would get the same log."""
    queue = bench.admin(subnqn=DISCOVERY_NQN)
    bench.core.add_port(Port(2, "10.0.0.2", 4420))

    def flags() -> list[int]:
        return [e.eflags for e in read(bench, queue)[1] if e.subtype == 3]

    assert flags() == [EntryFlags.PERSISTENT | EntryFlags.DUPLICATE] * 2
    # Through its address 10.0.0.2, a host would get this log from the port on every address.
    bench.core.add_port(Port(3, "0.0.0.0", 4430))
    both = EntryFlags.PERSISTENT | EntryFlags.DUPLICATE
    assert flags() == [both, EntryFlags.PERSISTENT, both]
    assert {e.eflags for e in read(bench, queue)[1] if e.subtype != 3} == {0}


@pytest.mark.feature("referrals")
def test_referrals(bench: Bench) -> None:
    queue = listen_for_changes(bench)
    bench.core.set_referrals(
        [
            Referral("10.0.0.9", 4420, nqn="nqn.2014-08.org.example:central"),
            Referral("fd00::9", 8009, TransportType.TCP),
        ]
    )
    assert events(queue) == [CHANGED]
    first, second = read(bench, queue)[1][-2:]
    assert (first.subtype, first.trtype, first.adrfam) == (1, 1, AddressFamily.IPV4)
    assert (first.traddr, first.trsvcid) == ("10.0.0.9", "4420")
    assert (first.subnqn, first.rdma_cms) == ("nqn.2014-08.org.example:central", 1)
    assert (second.subnqn, second.trtype, second.adrfam) == (DISCOVERY_NQN, 3, AddressFamily.IPV6)
    assert second.encode()[768:] == bytes(256), "no RDMA address where there is no RDMA"


@pytest.mark.feature("discovery-nqn")
def test_a_unique_discovery_nqn() -> None:
    unique = "nqn.2014-08.org.example:discovery"
    bench = Bench(core=Core(unique))
    bench.core.add_port(Port(1, "10.0.0.1", 4420))
    for nqn in (DISCOVERY_NQN, unique):
        queue = bench.admin(subnqn=nqn)
        data = bench.do(queue, commands.identify(), length=4096).data
        assert IdentifyController.decode(data).subnqn == unique
        assert [e.subnqn for e in read(bench, queue)[1]] == [unique, NQN]


@pytest.mark.feature("generation")
def test_a_log_read_in_pages_has_one_generation(bench: Bench) -> None:
    queue = bench.admin(subnqn=DISCOVERY_NQN)
    first, entries = read(bench, queue)
    again, _ = read(bench, queue)
    assert first.genctr == again.genctr
    parts = [part(bench, queue, at, 512) for at in range(0, 3072, 512)]
    assert decode_discovery_log(b"".join(parts)) == (first, entries)
    assert part(bench, queue, 1020, 2056) == b"".join(parts)[1020:].ljust(2056, b"\0")
    bench.core.add_subsystem(Subsystem(NQN + "2", "2"))
    changed, _ = read(bench, queue)
    assert changed.genctr > first.genctr


@pytest.mark.feature("generation")
def test_a_change_under_a_reading_shows_at_its_end(bench: Bench) -> None:
    """The pages always match each other; the header, read last, shows the change."""
    queue = listen_for_changes(bench)
    before = read(bench, queue)
    header = part(bench, queue, 0, 1024)
    first = part(bench, queue, 1024, 1024)
    bench.core.add_port(Port(2, "10.0.0.0", 4420))
    bench.core.add_subsystem(Subsystem(NQN + "0", "0", allow_any_host=True))
    assert events(queue) == [CHANGED]
    second = part(bench, queue, 2048, 1024, rae=False)
    assert decode_discovery_log(header + first + second) == before
    again = DiscoveryHeader.decode(part(bench, queue, 0, 1024))
    assert again.genctr > before[0].genctr
    assert again.numrec == 6


@pytest.mark.feature("discovery-events")
def test_an_event_is_not_lost_to_a_reading_that_was_under_way(bench: Bench) -> None:
    queue = listen_for_changes(bench)
    part(bench, queue, 0, 1024)
    bench.core.discovery_changed()
    assert events(queue) == [CHANGED]
    assert bench.run(queue, commands.async_event_request()) is None
    bench.core.discovery_changed()
    assert events(queue) == [], "told once, until the host has read it"
    part(bench, queue, 1024, 1024, rae=False)  # of the old log: the host has not read the new one
    bench.core.discovery_changed()
    assert events(queue) == []
    part(bench, queue, 0, 1024, rae=False)
    bench.core.discovery_changed()
    assert events(queue) == [CHANGED]


@pytest.mark.feature("discovery-events")
def test_whom_a_change_concerns(bench: Bench) -> None:
    mine, others = listen_for_changes(bench), listen_for_changes(bench, hostnqn=HOST + "x")
    bench.core.add_subsystem(Subsystem(NQN + "2", "2", hosts=frozenset({HOST})))
    assert (events(mine), events(others)) == ([CHANGED], [])
    bench.core.add_port(Port(2, "10.0.0.2", 4420))
    assert (events(mine), events(others)) == ([], [CHANGED])


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
