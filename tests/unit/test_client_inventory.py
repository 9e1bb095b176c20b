# SPDX-License-Identifier: BSD-3-Clause
"""The client's reads of a controller with many namespaces, and of changes to few of them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from nvmf.initiator import Controller, NvmeError, connect
from nvmf.initiator.client import inventory
from nvmf.initiator.client.admin import Admin
from nvmf.spec.features import AsyncEvent, EventType, Notice
from nvmf.spec.opcodes import Cns, LogId
from nvmf.target.change import edit
from support.clientlab import NQN, OPTIONS, serving

COUNT = 100
STORE = 'store = "null"\nsize = "1MiB"'
EVENT = AsyncEvent(EventType.NOTICE, Notice.NAMESPACE_ATTRIBUTE_CHANGED, LogId.CHANGED_NAMESPACES)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record CNS and NSID of each Identify that a client sends."""
    found: list[tuple[int, int]] = []
    identify = Admin.identify

    async def noted(self: Admin, cns: int, nsid: int = 0, **more: Any) -> bytes:
        found.append((cns, nsid))
        return await identify(self, cns, nsid, **more)

    monkeypatch.setattr(Admin, "identify", noted)
    return found


async def after(controller: Controller, change: Callable[[], Any]) -> None:
    """Make a change, and wait until the controller has read the data that its event refers to."""
    came = asyncio.Event()
    controller.on_event(lambda _: came.set())
    await change()
    async with asyncio.timeout(60):
        await came.wait()


async def test_several_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    most, submit = 0, Admin.identify
    now = 0

    async def counted(self: Admin, cns: int, nsid: int = 0, **more: Any) -> bytes:
        nonlocal most, now
        now += 1
        most = max(most, now)
        try:
            return await submit(self, cns, nsid, **more)
        finally:
            now -= 1

    monkeypatch.setattr(Admin, "identify", counted)
    async with (
        serving(*[STORE] * COUNT, extra=f"max_namespaces = {COUNT}") as (_, url),
        connect(url, **OPTIONS) as controller,
    ):
        assert [n.nsid for n in controller.namespaces] == list(range(1, COUNT + 1))
        assert len({n.ids.uuid for n in controller.namespaces}) == COUNT
    assert most == 16


async def test_only_what_has_changed_is_read_again(asked: list[tuple[int, int]]) -> None:
    async with (
        serving(*[STORE] * COUNT, extra=f"max_namespaces = {COUNT}") as (server, url),
        connect(url, **OPTIONS) as controller,
    ):
        assert sum(cns == Cns.NAMESPACE for cns, _ in asked) == COUNT
        asked.clear()
        await after(
            controller,
            lambda: server.edit(lambda c: edit.change_namespace(c, NQN, 7, size=2 << 20)),
        )
        assert controller.namespace(7).size == 2 << 20
        assert {nsid for cns, nsid in asked if cns != Cns.ACTIVE_NAMESPACES} == {7}
        asked.clear()
        await after(controller, lambda: server.edit(lambda c: edit.remove_namespace(c, NQN, 9)))
        assert [cns for cns, _ in asked] == [Cns.ACTIVE_NAMESPACES]
        assert len(controller.namespaces) == COUNT - 1
        asked.clear()
        await controller.refresh()
        assert sum(cns == Cns.NAMESPACE for cns, _ in asked) == COUNT - 1


async def test_what_could_not_be_read_is_read_with_the_next_event(
    asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serving(*[STORE] * 3) as (server, url),
        connect(url, **OPTIONS) as controller,
    ):
        noted, one = Admin.identify, controller.namespace(1)

        async def refuses(self: Admin, cns: int, nsid: int = 0, **more: Any) -> bytes:
            return await noted(self, 0xEE if nsid else cns, nsid, **more)

        monkeypatch.setattr(Admin, "identify", refuses)
        await after(
            controller,
            lambda: server.edit(lambda c: edit.change_namespace(c, NQN, 1, size=2 << 20)),
        )
        assert [n.nsid for n in controller.namespaces] == [2, 3]
        with pytest.raises(NvmeError, match="could not be identified: "):
            await one.flush()
        monkeypatch.setattr(Admin, "identify", noted)
        await after(
            controller,
            lambda: server.edit(lambda c: edit.change_namespace(c, NQN, 2, size=4 << 20)),
        )
        assert [n.size for n in controller.namespaces] == [2 << 20, 4 << 20, 1 << 20]
        assert controller.namespace(1) is one


def test_what_a_page_names() -> None:
    page = struct.pack("<3I", 3, 5, 0).ljust(4096, b"\0")
    assert inventory.changed(EVENT, page) == {3, 5}
    assert inventory.changed(EVENT, bytes(4096)) is None, "a page that says nothing"
    assert inventory.changed(EVENT, b"\xff" * 4 + bytes(4092)) is None, "more than it has room for"
    assert inventory.changed(AsyncEvent(EVENT.type, EVENT.info, 0), page) is None, "another page"
    assert inventory.tells_of(EVENT)
    assert not inventory.tells_of(AsyncEvent(EventType.NOTICE, Notice.ANA_CHANGE, LogId.ANA))


async def test_an_idle_client_is_not_woken() -> None:
    """After megabytes at once, the client stops checking the queue after a limited number of
    times.

    The number of its wakeups is compared with the commands of a different connection.
    """
    wakes = 0
    store = 'store = "ram"\nsize = "16MiB"\nblock_size = 4096'
    async with (
        serving(store) as (_, url),
        connect(url, **OPTIONS) as idle,
        connect(url, **OPTIONS) as busy,
    ):
        [queue] = idle.session.queues
        readable = queue._on_readable

        def woken() -> None:
            nonlocal wakes
            wakes += 1
            readable()

        loop = asyncio.get_running_loop()
        loop.remove_reader(queue._host.fileno())
        loop.add_reader(queue._host.fileno(), woken)
        for size in (15, 16, 17, 32):
            await idle.namespace(1).write(0, bytes(size * 128 * 1024))
            for _ in range(20):
                await busy.namespace(1).read(0, 1)
            wakes = 0
            for _ in range(200):
                await busy.namespace(1).read(0, 1)
            assert wakes < 20, f"woken {wakes} times after {size} pieces of 128 KiB"
