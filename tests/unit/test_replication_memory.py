# SPDX-License-Identifier: BSD-3-Clause
"""A log on remote memory: written by RDMA, fenced by reservations, on real sockets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

import nvmf.target
from nvmf.initiator import ConnectionLost, ConnectOptions, TransportId
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.base.options import Backend
from nvmf.pmem.platform import MethodRefused
from nvmf.pmem.remote import MemoryMethod
from nvmf.pmem.replica import RemoteMemoryReplica
from nvmf.replication import (
    CarefulReplica,
    Deposed,
    Fenced,
    LegState,
    Log,
    LogState,
    NamespaceReplica,
    QuorumLost,
    ReplicaError,
)
from support.clientlab import NQN, config

HOST = "nqn.2026-11.io.example:writer"
TEXT = config(f'store = "ram"\nsize = "1MiB"\nmemory = ["{HOST}"]')


@contextlib.asynccontextmanager
async def three() -> AsyncIterator[list[nvmf.target.Target]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(nvmf.target.serve(TEXT)) for _ in range(3)]


def on(
    targets: list[nvmf.target.Target], method: MemoryMethod = "write-send"
) -> list[RemoteMemoryReplica]:
    urls = [f"{one.url}?hostnqn={HOST}" for one in targets]
    return [RemoteMemoryReplica(url, method=method, force=True) for url in urls]


async def contents(log: Log) -> list[bytes]:
    return [record async for _, record in log.records()]


@pytest.mark.parametrize("method", ["write-send", "write-read"])
async def test_a_log(method: MemoryMethod) -> None:
    """It survives its writer and a target, and a second writer ends the first one."""
    async with three() as targets:
        first, second = Log(on(targets, method), 2), Log(on(targets, method), 2)
        async with first, second:
            await first.create()
            records = [b"record %d" % n for n in range(20)]
            for record in records[:10]:
                await first.append(record)
            await second.recover()
            assert await contents(second) == records[:10]
            with pytest.raises((Deposed, QuorumLost)):
                await first.append(b"of a writer that was fenced")
            await targets[2].stop()
            for record in records[10:]:
                await second.append(record)
        async with Log(on(targets, method), 2) as third:
            await third.recover()
            assert await contents(third) == records


async def test_this_host_needs_no_name() -> None:
    """Without hostnqn the replica has this host's NQN, to which the namespace is exported."""
    async with nvmf.target.serve(TEXT.replace(HOST, host_identity().nqn)) as target:
        replica = RemoteMemoryReplica(target.url, force=True)
        try:
            await replica.fence()
            await replica.write(64, b"new" * 64)
            assert await replica.read(64, 192) == b"new" * 64
        finally:
            await replica.close()


@pytest.mark.parametrize("options", [None, ConnectOptions(hostnqn=HOST)])
@pytest.mark.parametrize("query", ["", f"?hostnqn={HOST}"])
@pytest.mark.parametrize("backend", ["client", "kernel"])
async def test_a_name_that_was_given(
    monkeypatch: pytest.MonkeyPatch, options: ConnectOptions | None, query: str, backend: Backend
) -> None:
    """It is used; without one, the kernel's NQN follows from the Host Identifier of a replica."""
    seen: list[ConnectOptions] = []

    async def record(where: str, options: ConnectOptions | None = None, **changes: Any) -> None:
        place = TransportId.of(where)
        seen.append((options or ConnectOptions()).with_options({**place.options, **changes}))
        raise ConnectionLost("not now")

    monkeypatch.setattr("nvmf.replication.replica.connect", record)
    options = (options or ConnectOptions()).with_options({"backend": backend})
    replica = NamespaceReplica(f"nvme+rdma://192.0.2.1/{NQN}{query}", options=options)
    with pytest.raises(ConnectionLost):
        await replica.fence()
    given = HOST if query or options.hostnqn else None
    own = None if backend == "kernel" else host_identity().nqn
    assert seen[0].hostnqn == (given or own)


async def test_a_fenced_writer_is_told() -> None:
    async with nvmf.target.serve(TEXT) as target:
        (old,), (new,) = on([target]), on([target])
        try:
            await old.fence()
            await old.write(64, b"old" * 64)
            assert await old.read(64, 3) == b"old"
            await old.flush()
            await new.fence()
            with pytest.raises(Fenced, match="reserved by a different writer"):
                await old.write(64, b"new" * 64)
            with pytest.raises(Fenced):
                await old.read(64, 3)
            with pytest.raises(Fenced):
                await old.flush()
            assert await new.read(64, 192) == b"old" * 64
            await new.give_up()
        finally:
            await old.close()
            await new.close()


async def test_a_replica_is_opened_again() -> None:
    """By its writer, but not by one that was fenced: that changes nothing."""
    async with nvmf.target.serve(TEXT) as target:
        (old,), (new,) = on([target]), on([target])
        assert isinstance(old, CarefulReplica)
        try:
            await old.fence()
            await old.write(64, b"old" * 64)
            await old.fence_again()
            assert await old.read(64, 192) == b"old" * 64
            await old.write(64, b"two" * 64)
            await new.fence()
            with pytest.raises(Fenced, match="reserved by a different writer"):
                await old.fence_again()
            with pytest.raises(ReplicaError, match="is not connected"):
                await old.read(64, 192)
            await new.write(64, b"new" * 64)
            assert await new.read(64, 192) == b"new" * 64
        finally:
            await old.close()
            await new.close()


async def test_a_deposed_writer_leaves_its_successor_alone() -> None:
    """It tries to bring back a replica that it had lost, and learns that there is a successor."""
    async with three() as targets:
        first, second = Log(on(targets), 2), Log(on(targets), 2)
        async with first, second:
            await first.create()
            await first.append(b"one")
            first._core.lose(2, ReplicaError("the path is cut"))
            await first.rejoin(2)  # its own reservation does not keep it out
            assert [state for _, state, _ in first.replicas] == [LegState.IN] * 3
            first._core.lose(2, ReplicaError("the path is cut"))
            await second.recover()
            with pytest.raises(Deposed, match="a different writer has taken over"):
                await first.rejoin(2)
            assert first.state is LogState.DEPOSED
            more = [b"%d" % number for number in range(20)]
            for record in more:
                await second.append(record)
            assert await contents(second) == [b"one", *more]
            assert [state for _, state, _ in second.replicas] == [LegState.IN] * 3


async def test_what_cannot_be_done() -> None:
    async with nvmf.target.serve(TEXT) as target:
        careful = RemoteMemoryReplica(f"{target.url}?hostnqn={HOST}")
        with pytest.raises(ReplicaError, match="is not connected"):
            await careful.write(0, b"x")
        try:
            with pytest.raises(MethodRefused, match="does not confirm"):
                await careful.fence()
        finally:
            await careful.close()
        (replica,) = on([target])
        try:
            await replica.fence()
            await target.stop()
            with pytest.raises((ReplicaError, Fenced)):
                await replica.write(0, b"x")
        finally:
            await replica.close()
