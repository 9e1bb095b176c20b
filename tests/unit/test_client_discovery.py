# SPDX-License-Identifier: BSD-3-Clause
"""Discovery across services, changes, and connecting to all subsystems: over real queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nvmf.initiator import (
    AnyController,
    ConnectionLost,
    TransportId,
    connect_all,
    discover_all,
    watch,
)
from nvmf.initiator.base.discoverylog import MAX_RECORDS
from nvmf.initiator.base.limits import TRIES
from nvmf.initiator.discovery import watching
from nvmf.initiator.discovery.log import address_key, place_of, read_log
from nvmf.initiator.discovery.referrals import MAX_DEPTH, FoundLog, referred
from nvmf.initiator.hostfiles import HostFileError
from nvmf.spec.fabrics import (
    DiscoveryEntry,
    DiscoveryHeader,
    RdmaProvider,
    SubsystemType,
    TransportType,
    encode_discovery_log,
)
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.target.commands.discovery import Referral
from nvmf.target.model.subsystem import Subsystem
from nvmf.target.service.server import Server
from support.clientlab import NQN, OPTIONS, RAM, free_port, serving, url

HANG = 60.0
"""Seconds after which a test counts as hanging."""


def port_of(server: Server) -> int:
    return server.ports[0].address[1]


def refer(server: Server, *ports: int, **fields: Any) -> None:
    server.core.set_referrals(Referral("127.0.0.1", port, **fields) for port in ports)


def offer(server: Server, nqn: str) -> None:
    server.core.add_subsystem(Subsystem(nqn, "S", allow_any_host=True))


@pytest_asyncio.fixture
async def servers() -> AsyncIterator[list[Server]]:
    """Three targets with the same subsystem."""
    async with AsyncExitStack() as stack:
        yield [(await stack.enter_async_context(serving(RAM)))[0] for _ in range(3)]


async def logs(*args: Any, **options: Any) -> list[FoundLog]:
    async with asyncio.timeout(HANG), aclosing(discover_all(*args, device="iwarp", **options)) as d:
        return [log async for log in d]


# ---- referrals ----


@pytest.mark.feature("referrals")
async def test_referrals_are_followed_once(servers: list[Server]) -> None:
    """Two services that refer to each other and themselves, and one without a listener."""
    first, second, third = servers
    nobody = free_port()
    refer(first, port_of(first), port_of(second), nobody)
    refer(second, port_of(first), port_of(third))
    refer(third, port_of(second), nobody)
    found = await logs(url(port_of(first), DISCOVERY_NQN))
    assert [(log.place.trsvcid, log.depth, log.error is None) for log in found] == [
        (str(port_of(first)), 0, True),
        (str(port_of(second)), 1, True),
        (str(nobody), 1, False),
        (str(port_of(third)), 2, True),
    ]
    assert "refused: no target listens there" in str(found[2].error)
    assert [e.subtype for e in found[0].entries] == [3, 2, 1, 1, 1]
    near = await logs(url(port_of(first), DISCOVERY_NQN), depth=1)
    assert [log.depth for log in near] == [0, 1, 1]
    assert [log.depth for log in await logs(url(port_of(first), DISCOVERY_NQN), depth=0)] == [0]
    endless = await logs(url(port_of(first), DISCOVERY_NQN), depth=10**30)
    assert [log.depth for log in endless] == [log.depth for log in found]


async def test_two_services_at_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is asked once; a port of the same service is known by its address."""
    asked = []
    here = DiscoveryEntry(traddr="192.0.2.1", trsvcid="1000")
    entries = [
        *(replace(here, subtype=1, subnqn=nqn) for nqn in (NQN, DISCOVERY_NQN, NQN)),
        replace(here, subtype=3, subnqn="nqn.2026-01.example:own"),
        replace(here, subtype=3, subnqn="nqn.2026-01.example:own", trsvcid="1001"),
    ]

    async def raw(place: TransportId, options: object, most: int) -> bytes:
        asked.append((place.trsvcid, place.subnqn))
        return encode_discovery_log(1, entries)

    monkeypatch.setattr("nvmf.initiator.discovery.referrals.raw_log", raw)
    await logs("nvme+rdma://192.0.2.1:1000", depth=2)
    assert asked == [
        ("1000", DISCOVERY_NQN),
        ("1000", NQN),
        ("1001", "nqn.2026-01.example:own"),
    ]


async def test_a_chain_ends_at_eight_referrals(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless series of services, each of which refers to the next."""
    asked = []

    async def raw(place: TransportId, options: object, most: int) -> bytes:
        asked.append(place.trsvcid)
        following = str(int(place.trsvcid) + 1)
        entry = DiscoveryEntry(subtype=1, traddr="192.0.2.1", trsvcid=following, subnqn="\1")
        return encode_discovery_log(1, [entry])

    monkeypatch.setattr("nvmf.initiator.discovery.referrals.raw_log", raw)
    found = await logs("nvme+rdma://192.0.2.1:1000")
    assert asked == [str(1000 + n) for n in range(MAX_DEPTH + 1)]
    assert {log.place.subnqn for log in found} == {DISCOVERY_NQN}, "no NQN has control characters"


async def test_a_flood_of_referrals_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def raw(place: TransportId, options: object, most: int) -> bytes:
        asked.append(place.trsvcid)
        base = int(place.trsvcid) * 20 % 60000
        many = [
            DiscoveryEntry(subtype=1, traddr="192.0.2.1", trsvcid=str(base + n + 1))
            for n in range(20)
        ]
        return encode_discovery_log(1, many)

    monkeypatch.setattr("nvmf.initiator.discovery.referrals.raw_log", raw)
    await logs("nvme+rdma://192.0.2.1:1000")
    assert len(asked) == len(set(asked)) == 256


async def test_a_flood_of_records_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every log refers to hundreds more, each as long as possible: the use of memory is limited."""
    asked = []

    async def raw(place: TransportId, options: object, most: int) -> bytes:
        asked.append(most)
        number = len(asked) * 8
        some = [
            DiscoveryEntry(subtype=1, traddr="192.0.2.1", trsvcid=str(number + n)) for n in range(8)
        ]
        return encode_discovery_log(1, some * (most // 8))

    monkeypatch.setattr("nvmf.initiator.discovery.referrals.raw_log", raw)
    monkeypatch.setattr("nvmf.initiator.discovery.referrals.MAX_RECORDS", 64)
    monkeypatch.setattr("nvmf.initiator.discovery.referrals._MAX_REFERRED", 8)
    found = await logs("nvme+rdma://192.0.2.1:1000")
    assert asked == [64] + [8] * 8
    assert "not followed: 128 records were read" in str(found[-1].error)
    assert all(log.error is None for log in found[:-1])


def test_where_a_record_leads() -> None:
    good = DiscoveryEntry(traddr="192.0.2.1", trsvcid="4420", subnqn=NQN)
    assert place_of(good) == TransportId("192.0.2.1", "4420", NQN)
    assert place_of(good).embedded is None
    assert place_of(replace(good, rdma_prtype=RdmaProvider.ROCEV2)).embedded == "roce"
    assert place_of(replace(good, rdma_prtype=RdmaProvider.IWARP)).embedded == "iwarp"
    assert place_of(replace(good, rdma_prtype=RdmaProvider.INFINIBAND)).embedded is None
    referral = replace(good, subtype=SubsystemType.REFERRAL)
    duplicate = replace(good, subtype=SubsystemType.CURRENT_DISCOVERY, eflags=3)
    other_port = replace(duplicate, eflags=2, trsvcid="4421")
    bad = [
        replace(referral, trtype=TransportType.TCP),
        replace(referral, trtype=77),
        replace(referral, trsvcid="ftp"),
        replace(referral, trsvcid="\x1b[2J"),
        replace(referral, traddr=""),
    ]
    assert [p.trsvcid for p in referred([good, referral, duplicate, other_port, *bad])] == [
        "4420",
        "4421",
    ]
    with pytest.raises(ValueError, match="its transport is tcp, not rdma"):
        place_of(bad[0])
    with pytest.raises(ValueError, match="its transport is type 77"):
        place_of(bad[1])
    places = [TransportId("::1", "4420"), TransportId("0:0::1", "04420")]
    assert len({address_key(place) for place in places}) == 1


# ---- invalid logs ----


class FakeAdmin:
    """Answers Get Log Page with the result of a test's function of the offset."""

    def __init__(self, *logs: bytes) -> None:
        self.logs = list(logs)
        self.reads = 0

    async def log_page(self, lid: int, length: int, *, offset: int = 0, **_: Any) -> bytes:
        if offset == 0:
            self.reads += 1
        log = self.logs[min(self.reads, len(self.logs)) - 1]
        return log[offset : offset + length].ljust(length, b"\xff")


def header(**fields: int) -> bytes:
    return DiscoveryHeader(**fields).encode()


async def test_absurd_logs() -> None:
    for log, said in (
        (header(genctr=1, numrec=1 << 63), "announces 9223372036854775808 records"),
        (header(genctr=1, numrec=MAX_RECORDS + 1), "more than a port can have"),
        (header(genctr=1, recfmt=1), "unknown discovery log record format 1"),
        (b"\xff" * 1024, "record format 65535"),
    ):
        with pytest.raises(ConnectionLost, match=said):
            await read_log(FakeAdmin(log))  # type: ignore[arg-type]


async def test_a_log_that_never_stays() -> None:
    admin = FakeAdmin(*(header(genctr=n, numrec=n % 3) + bytes(4096) for n in range(100)))
    with pytest.raises(ConnectionLost, match=f"changed during each of {TRIES} readings"):
        await read_log(admin)  # type: ignore[arg-type]
    assert admin.reads == 2 * TRIES


async def test_a_log_that_changes_once() -> None:
    entry = DiscoveryEntry(traddr="192.0.2.1", trsvcid="1", subnqn=NQN)
    old, new = encode_discovery_log(1, [entry]), encode_discovery_log(2, [entry, entry])
    assert await read_log(FakeAdmin(old, new, new)) == new  # type: ignore[arg-type]


# ---- changes ----


@pytest.mark.feature("discovery-events")
async def test_watch(servers: list[Server]) -> None:
    server = servers[0]
    where = url(port_of(server), DISCOVERY_NQN)
    async with asyncio.timeout(HANG), watch(where, device="iwarp") as changes:
        first = await anext(changes)
        assert [e.subnqn for e in first.added] == [DISCOVERY_NQN, NQN]
        assert first.removed == ()
        (controller,) = server.core.discovery.controllers.values()
        assert controller.kato_ms == 30_000
        server.core.discovery_changed()  # nothing that this host can see
        offer(server, NQN + "2")
        second = await anext(changes)
        assert ([e.subnqn for e in second.added], second.removed) == ([NQN + "2"], ())
        assert second.header.genctr > first.header.genctr
        server.core.remove_subsystem(NQN + "2")
        third = await anext(changes)
        assert ([e.subnqn for e in third.removed], third.added) == ([NQN + "2"], ())


async def test_watch_over_a_lost_connection(servers: list[Server]) -> None:
    """Changes during the loss are reported after the reconnection."""
    server = servers[0]
    where = url(port_of(server), DISCOVERY_NQN)
    options: dict[str, Any] = {"device": "iwarp", "reconnect_delay": 0.05}
    async with asyncio.timeout(HANG), watch(where, **options) as changes:
        await anext(changes)
        following = asyncio.ensure_future(anext(changes))
        (controller,) = server.core.discovery.controllers.values()
        controller.fail()
        offer(server, NQN + "2")
        assert [e.subnqn for e in (await following).added] == [NQN + "2"]


class Restless:
    """A generation that is a different one at each of many looks, and then stays."""

    looks = 0

    @property
    def value(self) -> int:
        self.looks += 1
        return min(self.looks, 4 * TRIES)


@pytest.mark.feature("discovery-events")
async def test_watch_while_the_log_changes_all_the_time(
    servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that is set up by a script is not one whose connection is lost."""
    monkeypatch.setattr(watching, "_REST", 0.0)
    generation = Restless()
    monkeypatch.setattr(servers[0].core, "generation", generation)
    where = url(port_of(servers[0]), DISCOVERY_NQN)
    async with asyncio.timeout(HANG), watch(where, device="iwarp") as changes:
        first = await anext(changes)
        assert [e.subnqn for e in first.added] == [DISCOVERY_NQN, NQN]
        assert generation.looks > 3 * TRIES, "each of the first readings was in vain"


async def test_watch_needs_a_keep_alive(servers: list[Server]) -> None:
    with pytest.raises(ValueError, match="kato must be more than 0"):
        async with watch(url(port_of(servers[0])), device="iwarp", kato=0):
            pass


# ---- connecting to all ----


async def everything(*args: Any, **options: Any) -> tuple[list[str], list[AnyController]]:
    """Return the result of each record, and the controllers."""
    said: list[str] = []
    controllers: list[AnyController] = []
    async with asyncio.timeout(HANG), aclosing(connect_all(*args, **OPTIONS, **options)) as run:
        async for outcome in run:
            what = "skipped" if outcome.skipped else "failed" if outcome.error else "connected"
            said.append(f"{outcome.place.trsvcid} {what}")
            if outcome.controller is not None:
                controllers.append(outcome.controller)
    return said, controllers


async def test_connect_all(servers: list[Server]) -> None:
    first, second, _ = servers
    one, two, nobody = port_of(first), port_of(second), free_port()
    refer(first, two, nobody)
    offer(second, NQN + "2")
    second.core.subsystems[NQN + "2"].max_io_queues = 0  # it cannot be used
    said, controllers = await everything(url(one))
    assert said == [
        f"{one} connected",
        f"{two} connected",
        f"{two} failed",
        f"{nobody} failed",
    ]
    try:
        assert [c.where.subnqn for c in controllers] == [NQN, NQN]
        assert await controllers[1].namespace(1).read(0, 1) == bytes(512)
        again, more = await everything(url(one), connected=controllers, depth=0)
        assert (again, more) == ([f"{one} skipped"], [])
    finally:
        for controller in controllers:
            await controller.close()


async def test_connect_all_reports_a_record_that_it_cannot_use(servers: list[Server]) -> None:
    port = port_of(servers[0])
    offer(servers[0], "testnqn")
    offer(servers[0], "test\x7fnqn")
    async with asyncio.timeout(HANG), aclosing(connect_all(url(port), **OPTIONS)) as run:
        outcomes = [outcome async for outcome in run]
    (refused,) = [outcome for outcome in outcomes if outcome.error is not None]
    assert refused.place.is_discovery
    assert r"NQN 'test\x7fnqn' contains a control character" in str(refused.error)
    good = [outcome.controller for outcome in outcomes if outcome.controller is not None]
    assert sorted(one.where.subnqn for one in good) == [NQN, "testnqn"]
    for one in good:
        await one.close()


async def test_connect_all_of_the_host_files(servers: list[Server], tmp_path: Path) -> None:
    one, two = port_of(servers[0]), port_of(servers[1])
    path = tmp_path / "fabrics.conf"
    path.write_text(
        "[I/O Controller Defaults]\nkeep-alive-tmo = 77\n"
        f"[Discovery Controller]\ncontroller = transport=rdma;traddr=127.0.0.1;trsvcid={one}\n"
        f"[Subsystem]\nnqn = {NQN}\n"
        f"controller = transport=rdma;traddr=127.0.0.1;trsvcid={two};keep-alive-tmo=78\n"
        "controller = transport=tcp;traddr=127.0.0.1\n"
    )
    said, controllers = await everything(config=path)
    assert said == [f"{one} connected", f"{two} connected"]
    assert [c.options.kato for c in controllers] == [77, 78]
    for controller in controllers:
        await controller.close()
    path.write_text("rubbish\n")
    with pytest.raises(HostFileError, match=r"fabrics.conf:1: 'rubbish' is neither"):
        await everything(config=path)
