# SPDX-License-Identifier: BSD-3-Clause
"""Commands that stayed outstanding: their completions are sent automatically."""

from __future__ import annotations

from nvmf.spec import commands
from nvmf.spec.opcodes import FeatureId
from nvmf.target.command.events import NAMESPACE_CHANGED
from nvmf.target.command.outbox import Outbox
from support.serverlab import running, until


def test_scheduled_once_until_taken() -> None:
    calls: list[int] = []
    outbox: Outbox[str] = Outbox()
    outbox.schedule = lambda: calls.append(1)
    assert outbox.take() == []
    outbox.add("a")
    outbox.add("b")
    outbox.add("a")
    assert calls == [1]
    assert outbox.take() == ["a", "b"]
    outbox.add("a")
    assert calls == [1, 1]
    assert outbox.take() == ["a"]


async def test_an_event_from_anywhere_reaches_the_host() -> None:
    async with running() as lab:
        admin = await lab.host()
        await lab.run(admin, commands.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, 0x100))
        request = await lab.run(admin, commands.async_event_request())
        (controller,) = lab.server.core.controllers()
        controller.events.post(NAMESPACE_CHANGED)
        await until(lambda: request.result is not None)
        assert request.result == (0, 0x40002, 0, b"")
