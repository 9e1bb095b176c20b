# SPDX-License-Identifier: BSD-3-Clause
"""Asymmetric Namespace Access: states of groups on ports, set while hosts are connected."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nvmf.config import loads
from nvmf.initiator import Controller, connect
from nvmf.spec import commands
from nvmf.spec.ana import AnaGroup, AnaState, ana_log_size, decode_ana_log, encode_ana_log
from nvmf.spec.features import AsyncEvent, AsyncEvents
from nvmf.spec.identify import IdentifyController, IdentifyNamespace
from nvmf.spec.opcodes import Cns, FeatureId, LogId
from nvmf.spec.reservations import RegisterAction
from nvmf.spec.status import DecodeError, Status
from nvmf.target.change.edit import EditError, set_ana
from nvmf.target.commands.discovery import Port
from nvmf.target.rpc.methods import METHODS
from nvmf.target.service.server import Server
from nvmf.target.service.starting import serve
from support.clientlab import NQN, OPTIONS, status_of, url
from support.faketarget import Bench

pytestmark = pytest.mark.feature("ana")

TEXT = f"""
[[port]]
traddr = "127.0.0.1"
trsvcid = 0
device = "iwarp"
[[port]]
traddr = "127.0.0.2"
trsvcid = 0
device = "iwarp"
ana_group = [{{ id = 1, state = "inaccessible" }}, {{ id = 2, state = "non-optimized" }}]
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
[[subsystem.namespace]]
store = "ram"
size = "8MiB"
[[subsystem.namespace]]
store = "ram"
size = "8MiB"
ana_group = 2
"""
BLOCK = bytes(512)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Server, str, str]]:
    server = await serve(loads(TEXT))
    try:
        first, second = (port.address for port in server.ports)
        yield server, url(first[1]), url(second[1]).replace("127.0.0.1", "127.0.0.2")
    finally:
        await server.stop()


async def states(controller: Controller) -> dict[int, tuple[AnaState, tuple[int, ...]]]:
    size = 1024
    sqe = commands.get_log_page(LogId.ANA, size)
    data, _ = await controller.session.admin.receive(sqe, "Get Log Page", size)
    return {one.group: (AnaState(one.state), one.nsids) for one in decode_ana_log(data)[1]}


async def test_two_ports() -> None:
    async with (
        serving() as (server, here, there),
        connect(here, **OPTIONS) as a,
        connect(there, **OPTIONS) as b,
    ):
        assert await states(a) == {
            1: (AnaState.OPTIMIZED, (1,)),
            2: (AnaState.OPTIMIZED, (2,)),
        }
        assert await states(b) == {
            1: (AnaState.INACCESSIBLE, (1,)),
            2: (AnaState.NON_OPTIMIZED, (2,)),
        }
        await a.namespace(1).write(0, BLOCK)
        await b.namespace(2).write(0, BLOCK)
        for action in (b.namespace(1).write(0, BLOCK), b.namespace(1).read(0, 1)):
            assert await status_of(action) == Status.ANA_INACCESSIBLE
        assert b.namespace(1).info.anagrpid == 1
        assert b.namespace(2).info.anagrpid == 2
        service = server.ports[1].address[1]
        config = set_ana(server.config, "127.0.0.2", 0, 1, "optimized")
        assert service
        await server.apply(config)
        await b.namespace(1).write(0, BLOCK)
        assert (await states(b))[1] == (AnaState.OPTIMIZED, (1,))
        assert server.connections == 4  # no host was disconnected


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("persistent-loss", Status.ANA_PERSISTENT_LOSS),
        ("change", Status.ANA_TRANSITION),
        ("inaccessible", Status.ANA_INACCESSIBLE),
    ],
)
async def test_states_that_refuse(state: str, status: Status) -> None:
    async with serving() as (server, here, _), connect(here, **OPTIONS) as a:
        await server.apply(set_ana(server.config, "127.0.0.1", 0, 1, state))
        assert await status_of(a.namespace(1).flush()) == status
        await a.namespace(2).flush()
        reservations = a.namespace(1).reservations
        for action in (reservations.register(0xA), reservations.report()):
            assert await status_of(action) == status
        await a.namespace(2).reservations.register(0xA)
        await server.apply(set_ana(server.config, "127.0.0.1", 0, 1, "non_optimized"))
        await a.namespace(1).flush()
        assert not (await reservations.report()).registrants


async def test_another_group() -> None:
    async with serving() as (server, _, there), connect(there, **OPTIONS) as b:
        text = TEXT.replace("ana_group = 2\n", "ana_group = 1\n")
        done = await server.apply(loads(text))
        assert done.sentence() == "1 namespace regrouped"
        assert (await states(b)) == {1: (AnaState.INACCESSIBLE, (1, 2))}
        assert await status_of(b.namespace(2).write(0, BLOCK)) == Status.ANA_INACCESSIBLE


def test_namespaces_that_come_and_go_are_counted() -> None:
    """A host that reads the log in parts finds out that it has changed meanwhile."""
    bench = Bench()
    bench.add_namespace(1)
    admin = bench.admin()

    def read() -> tuple[int, list[AnaGroup]]:
        page = bench.do(admin, commands.get_log_page(LogId.ANA, 128), length=128).data
        return decode_ana_log(page)

    assert read()[0] == 0
    bench.add_namespace(2)
    assert read() == (1, [AnaGroup(1, AnaState.OPTIMIZED, 1, (1, 2))])
    bench.subsystem.detach(1)
    assert read() == (2, [AnaGroup(1, AnaState.OPTIMIZED, 2, (2,))])


def test_event_and_counts() -> None:
    bench = Bench()
    bench.core.add_port(Port(5, "10.0.0.1", 4420))
    bench.add_namespace(1)
    admin = bench.admin()
    controller = admin.controller
    assert controller is not None
    assert controller.portid == 5
    data = bench.do(admin, commands.identify(), length=4096).data
    identify = IdentifyController.decode(data)
    assert identify.cmic & 8
    assert identify.anacap & 0x1F == 0x1F
    assert identify.oaes & AsyncEvents.ANA_CHANGE
    assert identify.nanagrpid <= identify.anagrpmax
    wanted = commands.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, int(AsyncEvents.ANA_CHANGE))
    assert bench.do(admin, wanted).status == 0
    assert bench.run(admin, commands.async_event_request()) is None
    ana = bench.core.ana
    ana.put(4, {1: AnaState.INACCESSIBLE}, bench.core.controllers())
    ana.put(5, {2: AnaState.INACCESSIBLE}, bench.core.controllers())
    assert not controller.take()
    ana.put(5, {1: AnaState.INACCESSIBLE}, bench.core.controllers())
    ((_, completion),) = controller.take()
    event = AsyncEvent.decode(completion.dw0)
    assert (event.type, event.info, event.lid) == (2, 3, 0x0C)
    page = bench.do(admin, commands.get_log_page(LogId.ANA, 64), length=64).data
    count, groups = decode_ana_log(page)
    assert count == 2
    assert groups == [AnaGroup(1, AnaState.INACCESSIBLE, 1, (1,))]
    largest = ana_log_size(identify.nanagrpid, identify.mnan)
    for offset in range(0, largest, 4096):  # in pieces, up to what it may be at most
        length = min(4096, largest - offset)
        sqe = commands.get_log_page(LogId.ANA, length, offset=offset)
        piece = bench.do(admin, sqe, length=length)
        assert piece.status == 0
        assert piece.data == (page if not offset else b"").ljust(length, b"\0")
    only = bench.do(admin, commands.get_log_page(LogId.ANA, 64, lsp=1), length=64).data
    assert decode_ana_log(only)[1] == [AnaGroup(1, AnaState.INACCESSIBLE, 1)]
    assert controller.gates.get(1).write == Status.ANA_INACCESSIBLE


@pytest.mark.parametrize(
    ("state", "nuse"),
    [
        (AnaState.INACCESSIBLE, False),
        (AnaState.PERSISTENT_LOSS, False),
        (AnaState.CHANGE, True),
    ],
)
def test_a_namespace_without_access(state: AnaState, nuse: bool) -> None:
    """Base 2.0, 8.1: NUSE is 0, and its features and reservation wait for access.

    A different controller may execute the command, so that "do not retry" would be wrong.
    """
    bench = Bench()
    bench.core.add_port(Port(5, "10.0.0.1", 4420))
    for nsid in (1, 2):
        bench.add_namespace(nsid)
    admin = bench.admin()
    io = bench.io(admin)
    bench.subsystem.regroup({2: 2})
    bench.core.ana.put(5, {1: state}, bench.core.controllers())
    for nsid in (1, 2):
        data = bench.do(admin, commands.identify(Cns.NAMESPACE, nsid), length=4096).data
        info = IdentifyNamespace.decode(data)
        assert info.nsze == info.ncap > 0
        assert info.nuse == (info.nsze if nuse or nsid == 2 else 0)
    key = (1).to_bytes(16, "big")
    registers = commands.reservation_register(1, RegisterAction.REGISTER)
    assert bench.do(io, registers, key).status == state.status
    report = bench.do(io, commands.reservation_report(1, 64), length=64)
    assert report.status == state.status
    for fid in (0x05, 0x82, 0x83):
        assert bench.do(admin, commands.get_features(fid, nsid=1)).status == state.status
        assert bench.do(admin, commands.get_features(fid, nsid=2)).status == 0
        for nsid in (1, 0xFFFFFFFF):
            sqe = commands.set_features(fid, 0, nsid=nsid)
            assert bench.do(admin, sqe).status == state.status
        assert bench.do(admin, commands.set_features(fid, 0, nsid=2)).status == 0


def test_log_page_bytes() -> None:
    """Base 2.0, figures 219 and 220."""
    page = encode_ana_log(3, [AnaGroup(2, 0xF, 9, (1, 258))], only_groups=False)
    assert page.hex() == (
        "0300000000000000" "0100" "000000000000"
        "02000000" "02000000" "0900000000000000" "0f" + "00" * 15 + "01000000" "02010000"
    )  # fmt: skip
    assert len(page) == ana_log_size(1, 2)
    assert decode_ana_log(page) == (3, [AnaGroup(2, 0xF, 9, (1, 258))])
    for cut in (0, 15, 40, len(page) - 1):
        with pytest.raises(DecodeError):
            decode_ana_log(page[:cut])


def test_edits() -> None:
    config = set_ana(loads(TEXT), "127.0.0.1", 0, 2, "change")
    assert [(g.id, g.state) for g in config.ports[0].ana_groups] == [(2, "change")]
    for group, state in ((0, "optimized"), (129, "optimized"), (1, "splendid")):
        with pytest.raises(EditError):
            set_ana(config, "127.0.0.1", 0, group, state)
    with pytest.raises(EditError, match="there is no port"):
        set_ana(config, "127.0.0.9", 0, 1, "optimized")
    assert {"target_set_ana", "nvmf_subsystem_listener_set_ana_state"} <= METHODS.keys()
    with pytest.raises(ValueError, match="not one of optimized"):
        AnaState.of("splendid")
