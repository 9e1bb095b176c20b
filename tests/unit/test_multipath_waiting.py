# SPDX-License-Identifier: BSD-3-Clause
"""Commands that wait for a usable path, and paths that cannot be reached at first."""

from __future__ import annotations

import asyncio

import pytest

from nvmf.initiator import State
from nvmf.initiator.multipath import connect_multipath
from nvmf.spec.ana import AnaState
from support.clientlab import NQN, RAM_4K, serving, url
from support.multipathrig import STEADY, knows, two_ports, until
from support.relay import relayed


async def test_no_usable_ana_state(caplog: pytest.LogCaptureFixture) -> None:
    """A command that waits because of ANA states is logged, once for all that wait."""

    def told() -> list[str]:
        return [record.message for record in caplog.records if "wait" in record.message]

    async with two_ports() as lab, connect_multipath(lab.urls, **STEADY) as subsystem:
        disk = subsystem.namespace(1)
        for _ in range(2):
            caplog.clear()
            await lab.ana(0, "inaccessible")
            await lab.ana(1, "persistent-loss")
            await knows(subsystem, 0, AnaState.INACCESSIBLE)
            await knows(subsystem, 1, AnaState.PERSISTENT_LOSS)
            waiting = [asyncio.create_task(disk.read(lba, 1)) for lba in range(3)]
            await until(lambda: bool(told()))
            assert not any(task.done() for task in waiting)
            await lab.ana(1, "non-optimized")
            await asyncio.gather(*waiting)
            assert told() == [
                f"{NQN}: commands of namespace 1 wait: no live path has a usable ANA state "
                f"(127.0.0.1:{lab.services[0]}: inaccessible, "
                f"127.0.0.1:{lab.services[1]}: persistent loss)"
            ]


async def test_a_path_that_is_not_there_at_first() -> None:
    """As after a loss, the last attempt is made when ctrl_loss_tmo ends."""
    options = {**STEADY, "ctrl_loss_tmo": 1.0, "reconnect_delay": 30.0}
    async with serving(RAM_4K) as (server, _), relayed(server.ports[0].address[1]) as relays:
        await relays[1].cut()
        async with connect_multipath([url(relay.port) for relay in relays], **options) as subsystem:
            await relays[1].open()
            await until(lambda: subsystem.paths[1].state is not State.RECONNECTING)
            assert subsystem.paths[1].state is State.LIVE
