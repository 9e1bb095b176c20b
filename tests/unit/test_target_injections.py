# SPDX-License-Identifier: BSD-3-Clause
"""Faults on purpose: their bookkeeping on the fake engine, and what a host sees on the real one."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from nvmf.config import loads
from nvmf.config.faults import FaultConfig
from nvmf.initiator import NvmeError, connect
from nvmf.rpc.errors import RpcError
from nvmf.spec.status import Status, status_called
from nvmf.target.change.edit import EditError
from nvmf.target.io.injections import delays
from nvmf.target.io.stores import ServerError
from nvmf.target.rpc.methods import METHODS
from nvmf.target.service.administration import Administration
from nvmf.target.service.server import Server
from nvmf.target.service.starting import serve
from support.clientlab import NQN, OPTIONS, RAM, config, url
from support.fakeengine import Command
from support.faketarget import HOST
from support.serverlab import TEXT, running, until

ALLOWED = TEXT.replace("reactors = 2", "reactors = 2\nallow_faults = true")


async def call(server: Server, name: str, **params: Any) -> Any:
    return await METHODS[name].call(Administration(server), params)


# ---- descriptions ----


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"kind": "delay"}, "a delay needs delay_us or bandwidth"),
        ({"kind": "cut", "delay_us": 5}, "has no delay"),
        ({"kind": "delay", "delay_us": 5, "status": "Write Fault"}, "has no status"),
        ({"kind": "error", "bandwidth": 5}, "has no bandwidth"),
        ({"kind": "error", "status": "Sucessful"}, "is not an NVMe status such as"),
        ({"kind": "error", "status": "0"}, "is not an NVMe status such as"),
        ({"kind": "delay", "delay_us": 5, "spread_us": 1}, "fixed has no spread"),
        ({"kind": "delay", "delay_us": 5, "distribution": "normal"}, "needs spread_us"),
        ({"kind": "drop", "blocks": 5}, "blocks needs first_block"),
        ({"kind": "lost", "queue": 1}, "a lost path has no queue"),
        ({"kind": "drop", "rate": 0}, "greater than 0"),
        ({"kind": "drop", "rate": float("nan")}, "less than or equal"),
        ({"kind": "drop", "seconds": 1e99}, "less than or equal"),
        ({"kind": "drop", "commands": ["reads"]}, "Input should be"),
        ({"kind": "drop", "evil": 1}, "Extra inputs"),
        ({"kind": "full", "status": "Write Fault"}, "has no status"),
        ({"kind": "full", "commands": ["write", "read"]}, "full has no read"),
        ({"kind": "torn", "commands": ["write-zeroes"]}, "torn has no write-zeroes"),
        ({"kind": "torn", "crash": True, "dnr": True}, "after a crash there is no status"),
        ({"kind": "torn", "queue": 0}, "torn concerns I/O queues"),
        ({"kind": "error", "crash": True}, "error has no crash"),
    ],
)
def test_impossible_fault(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        FaultConfig.model_validate(values)


@pytest.mark.parametrize("name", ["Write Fault", "write-fault", "WRITE_FAULT", "0x280", "640"])
def test_status_by_name(name: str) -> None:
    assert status_called(name) == Status.WRITE_FAULT


def test_delays_have_their_distribution() -> None:
    def of(**values: object) -> list[int]:
        return delays(FaultConfig.model_validate({"kind": "delay", "delay_us": 1000, **values}))

    assert set(of()) == {1000}
    uniform = of(distribution="uniform", spread_us=500)
    assert 500 <= min(uniform) < 510
    assert 1490 < max(uniform) <= 1500
    normal = of(distribution="normal", spread_us=100)
    assert abs(sum(normal) / 256 - 1000) < 2
    assert sum(900 <= one <= 1100 for one in normal) in range(170, 180)
    exponential = of(distribution="exponential")
    assert abs(sum(exponential) / 256 - 1000) < 20
    assert min(of(distribution="normal", spread_us=5000)) == 0


# ---- bookkeeping ----


async def test_not_allowed() -> None:
    async with running() as lab:
        with pytest.raises(EditError, match="allow_faults = true"):
            await call(lab.server, "target_add_fault", fault={"kind": "drop"})
        assert lab.engine.target.injections == {}


async def test_which_queues_it_concerns(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with running(ALLOWED) as lab:
        admin, io = await lab.host(), await lab.io()
        for fault, concerned in (
            ({"kind": "drop"}, (0, 1)),
            ({"kind": "drop", "admin": True}, (1, 1)),
            ({"kind": "drop", "queue": 0}, (1, 0)),
            ({"kind": "drop", "queue": 2}, (0, 0)),
            ({"kind": "drop", "host": HOST}, (0, 1)),
            ({"kind": "drop", "host": "nqn.2026-01.example:other"}, (0, 0)),
            ({"kind": "drop", "traddr": "127.0.0.1", "trsvcid": 4420}, (0, 1)),
            ({"kind": "drop", "trsvcid": 4421}, (0, 0)),
        ):
            admin.calls.clear()
            io.calls.clear()
            made = await call(lab.server, "target_add_fault", fault=fault)
            assert (("inject", 1) in admin.calls, ("inject", 1) in io.calls) == tuple(
                map(bool, concerned)
            ), fault
            ended = await call(lab.server, "target_remove_fault", id=made["id"])
            assert (ended["matched"], ended["hits"], ended["ended"]) == (7, 3, "removed")
            assert lab.engine.target.injections == {}
        later = {"kind": "delay", "delay_us": 5, "count": 9}
        await call(lab.server, "target_add_fault", fault=later)
        tree = await call(lab.server, "target_get_tree")
        assert [one["fault"] for one in tree["faults"]] == [later]
        lab.engine.target.put(lab.engine.Injected(9))
        await until(lambda: not lab.server.injections.active())
        assert lab.server.injections.hits() == {"drop": 24, "delay": 3}
        lab.engine.target.put(lab.engine.Injected(9))  # an upcall in progress
        found = await call(lab.server, "target_get_faults")
        assert found[-1]["ended"] == "its count is reached"
        with pytest.raises(ServerError, match="no active fault has the number 9"):
            await call(lab.server, "target_remove_fault", id=9)
    assert "fault 9 begins, on purpose: commands are delayed, by 5 us" in caplog.text
    assert "fault 9 ends: its count is reached; it affected 3 of 7" in caplog.text


async def test_a_fault_begins_before_its_line_is_written() -> None:
    async with running(ALLOWED) as lab:
        await lab.host()
        io = await lab.io()
        seen: list[bool] = []

        def watch(record: logging.LogRecord) -> bool:
            seen.append("begins" in record.getMessage() and ("inject", 1) in io.calls)
            return True

        log = logging.getLogger("nvmf.target")
        log.addFilter(watch)
        try:
            await call(lab.server, "target_add_fault", fault={"kind": "hang", "seconds": 1})
        finally:
            log.removeFilter(watch)
        assert any(seen)


async def test_time_is_over_and_new_queues() -> None:
    async with running(ALLOWED) as lab:
        await lab.host()
        await call(lab.server, "target_add_fault", fault={"kind": "hang", "seconds": 0.05})
        slow = await call(lab.server, "target_add_fault", fault={"kind": "hang"})
        io = await lab.io()
        assert ("inject", 3) in io.calls or ("inject", 2) in io.calls, "set at its Connect"
        await until(lambda: len(lab.server.injections.active()) == 1)
        assert io.calls[-1] == ("inject", 2)
        assert slow["ended"] is None


async def test_set_before_the_host_can_send_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = Command.complete

    def recorded(self: Command, *answer: Any) -> None:
        self.qpair.calls.append(("completed",))
        complete(self, *answer)

    monkeypatch.setattr(Command, "complete", recorded)
    async with running(ALLOWED) as lab:
        await lab.host()
        await call(lab.server, "target_add_fault", fault={"kind": "hang"})
        io = await lab.io()
        assert io.calls.index(("inject", 1)) < io.calls.index(("completed",))


async def test_lost_path() -> None:
    async with running(ALLOWED) as lab:
        admin = await lab.host()
        lost = {"kind": "lost", "traddr": "127.0.0.1"}
        made = await call(lab.server, "target_add_fault", fault=lost)
        assert ("disconnect",) in admin.calls
        request = await lab.request(b"")
        assert request.rejected is not None
        ended = await call(lab.server, "target_remove_fault", id=made["id"])
        assert ended["hits"] == 2
        await lab.host()


async def test_bad_parameters() -> None:
    async with running(ALLOWED) as lab:
        with pytest.raises(RpcError, match="there is no parameter evil"):
            await call(lab.server, "target_add_fault", fault={"kind": "drop"}, evil=1)
        with pytest.raises(EditError, match="rate"):
            await call(lab.server, "target_add_fault", fault={"kind": "drop", "rate": 2})


# ---- the real engine ----


async def real() -> Server:
    return await serve(loads("[target]\nallow_faults = true\n" + config(RAM)))


async def test_a_host_sees_the_status_and_then_no_more() -> None:
    server = await real()
    try:
        async with connect(url(server.ports[0].address[1]), **{**OPTIONS, "queues": 2}) as host:
            disk = host.namespace(1)
            fault = {"kind": "error", "status": "Write Fault", "dnr": True, "count": 2}
            await call(server, "target_add_fault", fault={**fault, "commands": ["write"]})
            for _ in range(2):
                with pytest.raises(NvmeError, match="Write Fault"):
                    await disk.write(0, bytes(512))
            await until(lambda: not server.injections.active())
            await disk.write(0, bytes(512))
            found = await call(server, "target_get_faults")
            assert (found[0]["hits"], found[0]["fault"]["status"]) == (2, "Write Fault")
    finally:
        await server.stop()


async def test_a_full_store() -> None:
    server = await real()
    try:
        async with connect(url(server.ports[0].address[1]), **OPTIONS) as host:
            disk = host.namespace(1)
            await disk.write(0, b"\x01" * 4096)
            made = await call(server, "target_add_fault", fault={"kind": "full", "dnr": True})
            assert made["summary"] == "writes fail with Capacity Exceeded"
            with pytest.raises(NvmeError, match="Capacity Exceeded"):
                await disk.write(0, b"\x02" * 4096)
            assert await disk.read(0, 8) == b"\x01" * 4096
            await call(server, "target_remove_fault", id=made["id"])
            await disk.write(0, b"\x02" * 4096)
    finally:
        await server.stop()


@pytest.mark.parametrize("crash", [False, True])
async def test_a_torn_write(crash: bool) -> None:
    """The first blocks are written; the client repeats the write if the connection ended."""
    server = await real()
    try:
        async with connect(url(server.ports[0].address[1]), **OPTIONS, reconnect_delay=0.2) as host:
            disk = host.namespace(1)
            await disk.write(0, b"\x01" * 32768)
            fault = {"kind": "torn", "seed": 5, "count": 1}
            fault |= {"crash": True} if crash else {"dnr": True}
            await call(server, "target_add_fault", fault=fault)
            if crash:
                await disk.write(0, b"\x02" * 32768)
                assert await disk.read(0, 64) == b"\x02" * 32768
                assert host.reconnects == 1
            else:
                with pytest.raises(NvmeError, match="Write Fault"):
                    await disk.write(0, b"\x02" * 32768)
                found = await disk.read(0, 64)
                new = found.count(2)
                assert 0 < new < 32768
                assert new % 512 == 0
                assert found == b"\x02" * new + b"\x01" * (32768 - new)
            assert server.injections.hits() == {"torn": 1}
    finally:
        await server.stop()


async def test_commands_hang_until_the_end_of_the_fault() -> None:
    server = await real()
    try:
        async with connect(url(server.ports[0].address[1]), **OPTIONS) as host:
            disk = host.namespace(1)
            made = await call(server, "target_add_fault", fault={"kind": "hang", "nsid": 1})
            read = asyncio.create_task(disk.read(0, 8))
            await until(lambda: server.injections.active()[0].hits == 1)
            assert not read.done()
            await call(server, "target_remove_fault", id=made["id"])
            assert await read == bytes(4096)
            delay = {"kind": "delay", "delay_us": 200, "subsystem": NQN}
            await call(server, "target_add_fault", fault=delay)
            assert await disk.read(0, 8) == bytes(4096)
            assert server.injections.active()[0].hits == 1
    finally:
        await server.stop()


async def test_a_lost_path_returns() -> None:
    server = await real()
    try:
        async with connect(url(server.ports[0].address[1]), **OPTIONS, reconnect_delay=0.2) as host:
            disk = host.namespace(1)
            await disk.write(0, b"\x07" * 512)
            await call(server, "target_add_fault", fault={"kind": "lost", "seconds": 0.3})
            assert await disk.read(0, 1) == b"\x07" * 512, "the client reconnects by itself"
            await call(server, "target_add_fault", fault={"kind": "cut", "count": 1})
            assert await disk.read(0, 1) == b"\x07" * 512
            assert server.injections.hits()["cut"] == 1
    finally:
        await server.stop()
