# SPDX-License-Identifier: BSD-3-Clause
"""Requests of several clients: each meets the changes of those that were before it in line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest_asyncio

from support.rpclab import NQN, Client, Lab, connected, request, served
from support.serverlab import until

SIZE = {"block_size": 512, "num_blocks": 2048}


@pytest_asyncio.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with served(tmp_path) as made:
        yield made


@asynccontextmanager
async def clients(lab: Lab, count: int) -> AsyncIterator[list[Client]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connected(lab.rpc.path)) for _ in range(count)]


async def in_line(lab: Lab, *requests: tuple[Client, bytes]) -> list[object]:
    """Return the results of requests that wait in this order while a slow change is made."""
    changing = lab.server._changing
    async with changing:
        for number, (client, raw) in enumerate(requests, 1):
            client.write(raw)
            await until(lambda: len(changing._waiters or ()) == number)  # noqa: B023
    answers = [await client.read() for client, _ in requests]
    assert all("result" in answer for answer in answers), answers
    return [answer["result"] for answer in answers]


async def test_two_bdevs_without_a_name(lab: Lab) -> None:
    async with clients(lab, 2) as (one, two):
        create = request("bdev_malloc_create", **SIZE)
        assert await in_line(lab, (one, create), (two, create)) == ["Malloc0", "Malloc1"]


async def test_a_limit_of_a_bdev_whose_namespace_is_replaced(lab: Lab) -> None:
    """The limit is that of the bdev, not of the namespace that now has its NSID."""
    async with clients(lab, 3) as (one, two, three):
        for name in ("old", "new"):
            await one.result("bdev_malloc_create", name=name, **SIZE)
        old, new = ({"bdev_name": name, "nsid": 2} for name in ("old", "new"))
        await one.result("nvmf_subsystem_add_ns", nqn=NQN, namespace=old)
        await in_line(
            lab,
            (one, request("nvmf_subsystem_remove_ns", nqn=NQN, nsid=2)),
            (two, request("nvmf_subsystem_add_ns", nqn=NQN, namespace=new)),
            (three, request("bdev_set_qos_limit", name="old", rw_ios_per_sec=1000)),
        )
        assert await one.result("target_get_ns_limits", nqn=NQN, nsid=2) == {}
        (bdev,) = lab.server.config.bdevs
        assert (bdev.name, bdev.limits.iops) == ("old", 1000)
