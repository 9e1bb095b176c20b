# SPDX-License-Identifier: BSD-3-Clause
"""Controller resets over the client: CC.EN = 0, a new connection, and commands meanwhile."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from nvmf.cli.main import main
from nvmf.initiator import ConnectionLost, State, connect, sync
from nvmf.initiator.client.admin import Admin
from nvmf.spec.opcodes import FeatureId
from nvmf.spec.properties import Property
from support.clientlab import OPTIONS, RAM, config, free_port, serving, url
from support.served import Served

HANG = 60


async def test_a_reset(caplog: pytest.LogCaptureFixture) -> None:
    """The controller is a new one: it has forgotten the features that were set, not the data."""
    caplog.set_level(logging.WARNING)
    async with serving(RAM) as (server, where), connect(where, **OPTIONS) as controller:
        disk = controller.namespace(1)
        await disk.write(0, b"r" * 512)
        await controller.set_features(FeatureId.TEMPERATURE_THRESHOLD, 300)
        before = controller.session
        assert await controller.reset()
        assert controller.session is not before
        assert (controller.state, controller.reconnects) == (State.LIVE, 1)
        assert await controller.get_features(FeatureId.TEMPERATURE_THRESHOLD) != 300
        assert await disk.read(0, 1) == b"r" * 512
        (found,) = [one for one in server.core.subsystems.values() if not one.discovery]
        async with asyncio.timeout(HANG):  # the target ends the other one by itself
            while list(found.controllers) != [controller.session.cntlid]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not caplog.records  # it was asked for


async def test_commands_meanwhile() -> None:
    """Each command is executed once the controller is connected again, including those in
    flight.
    """
    async with serving(RAM) as (_, where), connect(where, **OPTIONS) as controller:
        disk = controller.namespace(1)
        more = True

        async def load(lba: int) -> int:
            count = 0
            while more or not count:
                await disk.write(lba, bytes([count % 256]) * 512)
                assert await disk.read(lba, 1) == bytes([count % 256]) * 512
                count += 1
            return count

        loads = [asyncio.create_task(load(lba)) for lba in range(8)]
        async with asyncio.timeout(HANG):
            for number in range(1, 3):
                assert await controller.reset()
                assert controller.reconnects == number
            await asyncio.gather(controller.reset(), controller.reset())
            more = False
            assert all(await asyncio.gather(*loads))


async def test_the_io_queues_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target answers commands of a disabled controller, and they would fail for good."""
    lost: list[str | None] = []
    property_set = Admin.property_set

    async def disable(self: Admin, offset: Property, value: int, size: int = 4) -> None:
        lost.extend(queue.lost for queue in controller.session.queues)
        await property_set(self, offset, value, size)

    async with serving(RAM) as (_, where), connect(where, **OPTIONS) as controller:
        with monkeypatch.context() as during:
            during.setattr(Admin, "property_set", disable)
            assert await controller.session.reset()
        assert lost
        assert set(lost) == {"the controller was reset"}


async def test_it_cannot_be_connected_again() -> None:
    """One attempt is made, even if there is no time for attempts."""
    options = {**OPTIONS, "ctrl_loss_tmo": 0}
    async with serving(RAM) as (server, where), connect(where, **options) as controller:
        assert await controller.reset()
        await server.stop()
        with pytest.raises(ConnectionLost):
            await controller.reset()
        assert controller.state is State.LOST
    with pytest.raises(ConnectionLost, match="the controller was closed"):
        await controller.reset()


def test_for_scripts_and_on_the_command_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Served(tmp_path, config(RAM)).wait_ready() as served:
        where = url(served.port)
        with sync.connect(where, **OPTIONS) as controller:
            assert controller.reset()
            assert controller.reconnects == 1
        assert main(["reset", where]) == 0
        said, err = capfd.readouterr()
        assert said.startswith("reset controller ")
        assert ": disabled (CC.EN = 0), disconnected, and connected again as controller " in said
        assert not err
        assert main(["reset", where, "-o", "json"]) == 0
        found = json.loads(capfd.readouterr().out)["reset"]
        assert found["disabled"] is True
        assert main(["reset", url(free_port())]) == 1
        assert "refused" in capfd.readouterr().err
