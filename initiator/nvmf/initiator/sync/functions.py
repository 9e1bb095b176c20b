# SPDX-License-Identifier: BSD-3-Clause
"""The functions of the client, each on the loop of a thread, or on one that ends with the call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from nvmf.initiator.base.interface import AnyController
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.connecting.connect import connect as async_connect
from nvmf.initiator.connecting.everything import Outcome
from nvmf.initiator.connecting.everything import connect_all as async_connect_all
from nvmf.initiator.discovery.log import discover as async_discover
from nvmf.initiator.discovery.referrals import MAX_DEPTH
from nvmf.initiator.discovery.watching import Change
from nvmf.initiator.discovery.watching import watch as async_watch
from nvmf.initiator.multipath import Policy
from nvmf.initiator.multipath import connect_multipath as async_connect_multipath
from nvmf.initiator.multipath import find_paths as async_find_paths
from nvmf.initiator.sync.blocking import Loop
from nvmf.initiator.sync.controller import Controller
from nvmf.spec.fabrics import DiscoveryEntry
from nvmf.spec.nqn import DISCOVERY_NQN

T = TypeVar("T")


def connect(
    where: str | TransportId, options: ConnectOptions | None = None, /, **changes: Any
) -> Controller:
    """Connect: see nvmf.initiator.connect."""
    return _connected(async_connect(where, options, **changes))


def connect_multipath(
    paths: Iterable[str | TransportId],
    options: ConnectOptions | None = None,
    /,
    *,
    policy: Policy = "numa",
    **changes: Any,
) -> Controller:
    """Connect by several ports: see nvmf.initiator.multipath.connect_multipath."""
    return _connected(async_connect_multipath(paths, options, policy=policy, **changes))


def _connected(pending: Awaitable[AnyController]) -> Controller:
    loop = Loop()
    try:
        return Controller(loop, loop.call(_result(pending)))
    except BaseException:
        loop.close()
        raise


async def _result(pending: Awaitable[T]) -> T:
    return await pending


def find_paths(
    where: str | TransportId, options: ConnectOptions | None = None, /, **changes: Any
) -> list[TransportId]:
    """The ports of a subsystem: see nvmf.initiator.multipath.find_paths."""
    return asyncio.run(async_find_paths(where, options, **changes))


def connect_all(
    where: str | TransportId | None = None,
    options: ConnectOptions | None = None,
    /,
    *,
    connected: Iterable[Controller] = (),
    depth: int = MAX_DEPTH,
    subnqn: str = DISCOVERY_NQN,
    config: Path | None = None,
    **changes: Any,
) -> Generator[Outcome[Controller], None, None]:
    """Connect to everything, one after the other: see nvmf.initiator.connect_all.

    One thread serves all the controllers.
    """
    outcomes = async_connect_all(
        where,
        options,
        connected=[one._controller for one in connected],
        depth=depth,
        subnqn=subnqn,
        config=config,
        **changes,
    )
    loop = Loop()
    try:
        while True:
            found = loop.call(_next(outcomes))
            if found is None:
                return
            made = found.controller
            yield Outcome(
                found.place,
                Controller(loop.share(), made) if made is not None else None,
                found.error,
                found.skipped,
            )
    finally:
        loop.call(outcomes.aclose())
        loop.close()


@contextmanager
def watch(
    where: str | TransportId,
    options: ConnectOptions | None = None,
    /,
    *,
    subnqn: str = DISCOVERY_NQN,
    **changes: Any,
) -> Generator[Generator[Change, None, None], None, None]:
    """A discovery log, and then its changes as they come: see nvmf.initiator.watch.

    with watch("nvme+rdma://192.0.2.1") as changes:
        for change in changes:      # waits for each; an interrupt ends the waiting
            print(change.added, change.removed)
    """
    watching = async_watch(where, options, subnqn=subnqn, **changes)
    loop = Loop()
    try:
        found = loop.call(_enter(watching))
        try:
            yield _iterate(loop, found)
        finally:
            loop.call(_leave(watching))
    finally:
        loop.close()


async def _enter(context: AbstractAsyncContextManager[T]) -> T:
    return await context.__aenter__()


async def _leave(context: AbstractAsyncContextManager[object]) -> None:
    await context.__aexit__(None, None, None)


async def _next(iterator: AsyncIterator[T]) -> T | None:
    """The next of them; None at the end."""
    return await anext(iterator, None)


def _iterate(loop: Loop, iterator: AsyncIterator[T]) -> Generator[T, None, None]:
    while (found := loop.call(_next(iterator))) is not None:
        yield found


def discover(
    where: str | TransportId, options: ConnectOptions | None = None, /, **changes: Any
) -> list[DiscoveryEntry]:
    """The discovery log of a port: see nvmf.initiator.discover."""
    return asyncio.run(async_discover(where, options, **changes))
