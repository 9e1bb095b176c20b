# SPDX-License-Identifier: BSD-3-Clause
"""Reports of a mirror: events, SMART, `nvmeof top`; and the return from a later writer."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nvmf.cli.main import main
from nvmf.initiator import NvmeError, connect
from nvmf.spec.features import AsyncEvent, AsyncEvents
from nvmf.spec.logs import CriticalWarning, SmartLog
from nvmf.spec.opcodes import FeatureId, LogId
from nvmf.target.client import connect as connect_rpc
from support.clientlab import url
from support.livelab import command
from support.mirrorlab import NQN, mirror_text, remotes
from support.replicas import claim, files
from support.served import Served

HANG = 60


async def becomes(served: Served, state: str) -> None:
    async with connect_rpc(served.rpc_socket) as rpc, asyncio.timeout(HANG):
        while (await rpc.mirrors())[0]["state"] != state:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def said(*words: str) -> str:
    """Return the output of a command."""

    def run() -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert main(list(words)) == 0
        return out.getvalue()

    return await asyncio.to_thread(run)


async def test_legs_that_a_later_writer_has_claimed(tmp_path: Path) -> None:
    """The mirror is deposed, and `target mirror resync` takes over again; each state is told."""
    paths = files(tmp_path, 2, 4 << 20)
    legs = [f'path = "{path}"' for path in paths]
    async with remotes(tmp_path / "legs", 1) as (other,):
        with Served(tmp_path, mirror_text([*legs, other.leg])) as served:
            await asyncio.to_thread(served.wait_ready)
            await becomes(served, "clean")
            socket = str(served.rpc_socket)
            async with connect(url(served.port, NQN)) as controller:
                told: list[AsyncEvent] = []
                wanted = AsyncEvents.SMART_DEGRADED | AsyncEvents.NAMESPACE_ATTRIBUTE
                await controller.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, int(wanted))
                controller.on_event(told.append)

                async def warning() -> int:
                    page = await controller.log_page(LogId.SMART, 512)
                    return SmartLog.decode(page).critical_warning

                disk = controller.namespace(1)
                assert await warning() == 0
                await other.stop()
                await disk.write(0, b"\1" * 4096)
                await becomes(served, "degraded")
                await until(lambda: AsyncEvent(1, 0, LogId.SMART) in told)
                assert await warning() == CriticalWarning.RELIABILITY_DEGRADED
                shown = await said("top", "-d", "0.1", "-n", "1", "--rpc-socket", socket)
                assert f"mirror, namespace 1 of {NQN}: degraded, quorum 2 of 3; leg" in shown
                for path in (paths[0], other.path):  # as many as a new writer needs
                    claim(path)
                await other.start()
                await becomes(served, "deposed")
                with pytest.raises(NvmeError):
                    await disk.write(0, b"\2" * 4096)
                # The log has the sentence of the error, and no traceback: nothing is wrong here.
                log = served.log
                assert "cannot use the mirror: a different writer has taken over" in log
                assert "Traceback" not in log
                await command(served, "mirror", "resync", NQN, "1")
                await becomes(served, "clean")
                assert await disk.read(0, 8) == b"\1" * 4096
                await disk.write(8, b"\3" * 4096)
                async with asyncio.timeout(HANG):
                    while await warning():  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
            text = await said("target", "mirror", "events", "-o", "json", "--rpc-socket", socket)
            events = [json.loads(line) for line in text.splitlines()]
            assert [one["id"] for one in events] == list(range(len(events)))
            types = [one["type"] for one in events]
            lost = types.index("mirror_leg_lost")
            assert events[lost]["leg"] == other.name
            assert events[lost]["reason"]
            assert types.index("mirror_degraded") < types.index("mirror_deposed")
            assert types[-1] in ("mirror_clean", "mirror_leg_in_sync")
            shown = await said("target", "mirror", "events", "--rpc-socket", socket)
            assert f"mirror_deposed: namespace 1 of {NQN}" in shown
            async with connect_rpc(served.rpc_socket) as rpc:
                known = await rpc.request("notify_get_types", {})
                assert isinstance(known, list)
                assert set(types) <= set(known)
                last = await rpc.events(id=events[-1]["id"], max=5)
                assert [one["id"] for one in last] == [events[-1]["id"]]
