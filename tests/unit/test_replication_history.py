# SPDX-License-Identifier: BSD-3-Clause
"""Histories of NVMe hosts on a namespace whose store is a mirror, while parts of it fail."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import nvmf.target
from nvmf.replication import Mirror
from nvmf.replication.store import MirrorStore
from support.historyhosts import Hosts
from support.mirrorlab import LEG, clean, data_of, leg_of, leg_text, mirror_text, remotes, until
from support.replicas import Memory, files
from support.served import Served


def store_on(replicas: list[Memory]) -> MirrorStore:
    """Return the store of a mirror of these."""
    store = MirrorStore(["/nowhere"] * len(replicas), 2)
    store.mirror = Mirror(replicas, 2, timeout=0.5, patience=0.01, retry=0.03)
    return store


async def test_hosts_of_a_mirror_whose_replicas_and_writer_fail() -> None:
    replicas = [Memory(1 << 20) for _ in range(3)]
    async with Mirror(replicas, 2, resync_rate=None) as mirror:
        await mirror.create(region=8192)
        await mirror.clean()
    hosts = Hosts()
    running: list[asyncio.Task[None]] = []
    try:
        for turn in range(3):
            store = store_on(replicas)
            async with AsyncExitStack() as stack:
                target = await stack.enter_async_context(nvmf.target.serve(store=store))
                hosts.url = target.url
                if not running:
                    running = [asyncio.create_task(hosts.run()) for _ in range(4)]
                await hosts.more(20)
                for index, replica in enumerate(replicas):
                    if (turn + index) % 2:
                        replica.broken = True
                    else:
                        replica.frozen.clear()
                    await hosts.more(20)
                    replica.broken = False
                    replica.frozen.set()
                    await hosts.more(5)
                    async with asyncio.timeout(60):
                        await store.mirror.clean()
                if turn == 2:
                    hosts.ended = True
                    await asyncio.gather(*running)
            # The mirror's writer ends in the middle of the load, and a new one takes over.
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    hosts.check()


async def test_hosts_of_a_namespace_whose_legs_are_frozen_and_killed(tmp_path: Path) -> None:
    """The legs are a file, a target in this process, and one that is frozen, killed and started
    again.
    """
    local, far = files(tmp_path, 2, 4 << 20)
    served = await asyncio.to_thread(Served(tmp_path, leg_text(far)).wait_ready)
    hosts = Hosts(8)
    running: list[asyncio.Task[None]] = []
    try:
        async with remotes(tmp_path / "legs", 1) as (near,):
            port = served.port
            url = f"nvme+rdma://127.0.0.1:{port}/{LEG}"
            legs = [f'path = "{local}"', f'url = "{url}"', near.leg]
            async with nvmf.target.serve(mirror_text(legs)) as target:
                await clean(target, 3)
                hosts.url = target.url
                running = [asyncio.create_task(hosts.run()) for _ in range(4)]
                await hosts.more(50)
                served.process.send_signal(signal.SIGSTOP)
                await hosts.more(50)
                served.process.send_signal(signal.SIGCONT)
                await hosts.more(50)
                await clean(target, 3)
                served.process.kill()
                await hosts.more(50)
                # A process that was killed may take a while to end.
                await until(lambda: leg_of(target, f"{url}#1")["state"] != "in-sync")
                await asyncio.to_thread(served.kill)
                served = await asyncio.to_thread(Served(tmp_path, leg_text(far, port)).wait_ready)
                await hosts.more(50)
                await clean(target, 3)
                await near.stop()
                await hosts.more(50)
                await near.start()
                await clean(target, 3)
                hosts.ended = True
                await asyncio.gather(*running)
                await clean(target, 3)
            await near.stop()
            await asyncio.to_thread(served.end)
            assert data_of(local) == data_of(far) == data_of(near.path)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.to_thread(served.kill)
    hosts.check()
