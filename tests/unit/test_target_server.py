# SPDX-License-Identifier: BSD-3-Clause
"""The server's life cycle: connections, upcalls, changes and the end, without the engine."""

from __future__ import annotations

import asyncio

import pytest

from nvmf.config import NamespaceConfig, loads
from nvmf.spec import commands
from nvmf.spec.opcodes import FeatureId
from nvmf.spec.properties import Cc
from nvmf.spec.status import DNR, Status
from nvmf.target.change import edit
from nvmf.target.io import connection as connection_module
from nvmf.target.io import connections as connections_module
from nvmf.target.service import server as server_module
from support.fakeengine import Command, Freed, QpairEvent
from support.faketarget import NQN, with_sgl
from support.serverlab import TEXT, AlwaysMore, running, settle, until


async def test_start_and_stop() -> None:
    async with running() as lab:
        assert [str(said) for said in lab.said] == ["listening on 127.0.0.1:40000 (iwarp)"]
        assert lab.engine.iwarp_options == {"crc": True}
        assert lab.engine.target.options["reactors"] == 2
    engine = lab.engine
    assert engine.target.closed
    assert engine.channels["iwarp"].closed
    assert engine.channels["iwarp"].listeners[0].closed
    assert [store.closed for store in engine.stores] == [True]
    assert [namespace.closed for namespace in engine.namespaces] == [True]


async def test_stop_waits_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_CLOSE_TIMEOUT", 3600)
    async with running() as lab:
        admin, io = await lab.host(kato_ms=5000), await lab.io()
        event = await lab.run(admin, commands.async_event_request())
        assert event.result is None
    assert admin.destroyed
    assert io.destroyed
    assert event.result == (Status.ABORTED_SQ_DELETION | DNR, 0, 0, b"")


async def test_stop_when_nothing_closes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_CLOSE_TIMEOUT", 0.01)
    async with running() as lab:
        admin = await lab.host()
        event = await lab.run(admin, commands.async_event_request())
        lab.engine.closing_works = False
    assert lab.engine.target.closed
    assert event.result is not None


async def test_what_a_connection_is_given() -> None:
    async with running() as lab:
        await lab.host()
        io = await lab.io()
        assert io.options == {
            "reactor": 1,
            "qid": 1,
            "recv_depth": 128,
            "send_depth": 128,
            "in_capsule": 4096,
            "max_transfer": 1 << 20,
            "initiator_depth": 8,
        }
        assert io.calls[0][:2] == ("connected", 128)
        assert io.calls[0][2].entries.keys() == {1}
        third, fourth = await lab.queue(), await lab.queue()
        assert {third.options["reactor"], fourth.options["reactor"]} == {0, 1}
        assert third.options["in_capsule"] == 0


async def test_a_store_is_open_while_a_device_has_its_memory() -> None:
    async with running() as lab:
        lab.engine.pinned = True
        namespace = lab.engine.namespaces[0]
        applying = asyncio.ensure_future(
            lab.server.apply(loads(TEXT[: TEXT.index("[[subsystem.namespace]]")]))
        )
        await until(lambda: namespace.closed)
        await settle()
        assert not namespace.store.closed
        lab.engine.target.put(Freed(namespace))
        await applying
        await until(lambda: namespace.store.closed)


async def test_a_lost_admin_queue_ends_its_others_only() -> None:
    async with running() as lab:
        admin, io, other = await lab.host(), await lab.io(), await lab.host()
        event = await lab.run(admin, commands.async_event_request())
        lab.engine.channels["iwarp"].put(QpairEvent(admin, "DISCONNECTED"))
        await settle()
        await settle()
        assert admin.destroyed
        assert io.destroyed
        assert event.result is not None
        assert not other.gone
        done = await lab.run(other, commands.identify(), length=4096)
        assert done.result is not None
        assert done.result[0] == 0
        assert lab.server.connections == 1


async def test_the_connection_manager_names_an_end(caplog: pytest.LogCaptureFixture) -> None:
    """The device returns a queue pair's work, without a reason, before the event that has one."""
    caplog.set_level("INFO", "nvmf.target")
    async with running() as lab:
        admin = await lab.host()
        lab.engine.target.put(lab.engine.Closed(admin, ""))
        await settle()
        assert "closed" not in caplog.text
        admin.gone = True
        lab.engine.channels["iwarp"].put(QpairEvent(admin, "DISCONNECTED"))
        await settle()
        assert "closed: the peer disconnected" in caplog.text
        assert admin.destroyed
        lab.engine.channels["iwarp"].put(QpairEvent(admin, "TIMEWAIT_EXIT"))
        await settle()


async def test_an_end_that_is_named_before_it_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "nvmf.target")
    async with running() as lab:
        admin = await lab.host()
        lab.engine.closing_works = False
        lab.engine.channels["iwarp"].put(QpairEvent(admin, "DISCONNECTED"))
        await settle()
        lab.engine.target.put(lab.engine.Closed(admin, ""))
        await settle()
        assert "closed: the peer disconnected" in caplog.text
        assert admin.destroyed
        lab.engine.closing_works = True


async def test_an_end_that_nobody_names(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "_NAMING_GRACE", 0.0)
    caplog.set_level("INFO", "nvmf.target")
    async with running() as lab:
        admin = await lab.host()
        admin.gone = True
        lab.engine.target.put(lab.engine.Closed(admin, ""))
        while not admin.destroyed:
            await settle()
        assert "closed: the connection was lost" in caplog.text


async def test_an_end_that_its_host_announced(caplog: pytest.LogCaptureFixture) -> None:
    """After a shutdown of the controller, an unexplained end is no loss."""
    caplog.set_level("INFO", "nvmf.target")
    async with running() as lab:
        admin = await lab.host()
        assert admin.cookie is not None
        controller = admin.cookie.queue.controller
        assert controller is not None
        controller.write_cc(Cc(en=1, shn=1).encode())
        admin.gone = True
        lab.engine.target.put(lab.engine.Closed(admin, ""))
        await settle()
        assert "closed: the peer disconnected" in caplog.text
        assert admin.destroyed


async def test_harmless_events_do_nothing() -> None:
    async with running() as lab:
        admin = await lab.host()
        lab.engine.channels["iwarp"].put(QpairEvent(admin, "ESTABLISHED"))
        await settle()
        assert not admin.gone


async def test_disconnect_is_answered_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as lab:
        await lab.host()
        for grace in (3600, 0.01):
            monkeypatch.setattr(connection_module, "DISCONNECT_GRACE", grace)
            io = await lab.io()
            done = await lab.run(io, commands.disconnect())
            assert done.result == (0, 0, 0, b"")
            assert grace < 1 or not io.gone
            io.disconnect()
            await settle()
        await until(lambda: io.destroyed)


async def test_no_connect_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "CONNECT_TIMEOUT", 0.01)
    async with running() as lab:
        qpair = await lab.queue()
        await until(lambda: qpair.destroyed)


@pytest.mark.feature("keep-alive")
async def test_a_silent_host_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_KEEP_ALIVE_STEP", 0.01)
    monkeypatch.setattr("nvmf.target.model.controller.KEEP_ALIVE_GRANULARITY_MS", 10)
    async with running() as lab:
        silent, busy = await lab.host(kato_ms=100), await lab.host(kato_ms=100)
        io = await lab.io(2)
        io.stats = AlwaysMore()
        await until(lambda: silent.destroyed)
        await asyncio.sleep(0.3)
        assert not busy.gone
        io.stats = {}
        await until(lambda: busy.destroyed and io.destroyed)


async def test_a_target_that_stood_still_does_not_blame_its_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hosts' commands have not been read yet: their time limits start again."""
    monkeypatch.setattr(connection_module, "_KEEP_ALIVE_STEP", 0.01)
    monkeypatch.setattr("nvmf.target.model.controller.KEEP_ALIVE_GRANULARITY_MS", 10)
    monkeypatch.setattr(connection_module, "_HELD_UP", -1.0)  # every check is late
    async with running() as lab:
        host = await lab.host(kato_ms=50)
        [controller] = lab.server.core.controllers()
        seen: set[float] = set()

        def looked_at() -> bool:
            seen.add(controller.last_seen)
            return len(seen) > 3

        await until(looked_at)
        assert not host.gone
        monkeypatch.setattr(connection_module, "_HELD_UP", 3600.0)
        await until(lambda: host.destroyed)


async def test_a_fault_while_completing_is_that_commands_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as lab:
        admin = await lab.host()
        broken = Command(admin, with_sgl(commands.keep_alive(), 0))
        broken.complete(0, 0, 0, b"")
        lab.engine.target.put(broken)
        await settle()
        assert "completed twice" in caplog.text
        admin.held = 0
        done = await lab.run(admin, commands.keep_alive())
        assert done.result == (0, 0, 0, b"")


NULL = NamespaceConfig(store="null", size=4096)
CHANGES: dict[str, edit.Edit] = {
    "attach": lambda config: edit.add_namespace(config, NQN, NULL)[0],
    "resize": lambda config: edit.change_namespace(config, NQN, 2, size=8192),
    "detach": lambda config: edit.remove_namespace(config, NQN, 2),
}


async def test_namespaces_come_and_go() -> None:
    async with running() as lab:
        admin = await lab.host()
        await lab.run(admin, commands.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, 0x100))
        for change in CHANGES:
            event = await lab.run(admin, commands.async_event_request())
            before = event.result
            assert before is None
            await lab.server.edit(CHANGES[change])
            await settle()
            assert event.result == (0, 0x40002, 0, b"")
            page = await lab.run(admin, commands.get_log_page(4, 4096), length=4096)
            assert page.result is not None
            assert page.result[3][:8] == bytes([2, 0, 0, 0, 0, 0, 0, 0])
        await until(lambda: lab.engine.stores[1].closed)
        assert not lab.engine.stores[0].closed
        with pytest.raises(edit.EditError, match=f"there is no namespace 2 in {NQN}"):
            await lab.server.edit(CHANGES["detach"])
