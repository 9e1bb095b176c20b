# SPDX-License-Identifier: BSD-3-Clause
"""Log on files and on namespaces of real targets, with replicas that fail."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from nvmf.engine import crc32c
from nvmf.replication import (
    Damaged,
    LegState,
    Log,
    LogFull,
    NamespaceReplica,
    QuorumLost,
    ReplicationError,
    logformat,
)
from support import documents
from support.replicas import Memory, files, on, targets


def state_of(log: Log) -> str:
    return str(log.replicas[0][1])


async def everything(log: Log) -> list[bytes]:
    return [record async for _, record in log.records()]


# ---- the document ----


@pytest.mark.parametrize(
    ("chapter", "says"),
    [
        ("A log", "100 records, the last one: record 99\n"),
        ("A mirror", "hello\nclean ['in', 'in']\n"),
        ("A mirror as a namespace", "on both clean\n"),
    ],
)
def test_the_examples(chapter: str, says: str) -> None:
    (program,) = documents.blocks(chapter, "python", documents.REPLICATION)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == (says, "", 0)


# ---- Log ----


async def test_log_on_files(tmp_path: Path) -> None:
    paths = files(tmp_path)
    async with Log(on(paths), 2) as log:
        await log.create()
        lsns = await asyncio.gather(*(log.append(b"%d" % i) for i in range(200)))
        assert lsns == sorted(lsns)
        assert await everything(log) == [b"%d" % i for i in range(200)]
        # Records that waited at the same time shared frames.
        assert log.tail < 200 * 4096
    paths[2].unlink()
    async with Log(on(paths), 2) as log:
        await log.recover()
        assert len(await everything(log)) == 200
        assert "cannot open" in log.replicas[2][2]
        assert await log.truncate(lsns[150]) <= lsns[150]
        assert b"150" in await everything(log)
    async with Log(on(paths[:1]), 1) as log:
        with pytest.raises(QuorumLost, match="log of 3 replicas"):
            await log.recover()


async def test_log_that_is_full(tmp_path: Path) -> None:
    async with Log(on(files(tmp_path)), 2) as log:
        await log.create()
        with pytest.raises(LogFull, match="truncate"):
            while True:
                last = await log.append(bytes(20000))
        await log.truncate(last)
        await log.append(b"goes on")
        with pytest.raises(ReplicationError, match="split it"):
            await log.append(bytes(1 << 20))


async def test_log_without_room_for_a_new_epoch(tmp_path: Path) -> None:
    """A new writer needs all replicas then, and can truncate the log."""
    paths = files(tmp_path)
    async with Log(on(paths), 2) as log:
        await log.create()
        for size in (20000, 1):
            with pytest.raises(LogFull, match="truncate"):
                while True:
                    last = await log.append(bytes(size))
        records = await everything(log)
    away = paths[2].rename(tmp_path / "away")
    taken = 0
    with pytest.raises(QuorumLost, match="no room even for a new epoch: 3 of 3 replicas are"):
        while True:
            async with Log(on(paths), 2) as log:
                await log.recover()
                taken += 1
    assert taken == logformat.RESERVE
    away.rename(paths[2])
    for _ in range(2):
        async with Log(on(paths), 2) as log:
            await log.recover()
            assert await everything(log) == records
            with pytest.raises(LogFull, match="truncate"):
                await log.append(b"more")
    async with Log(on(paths), 2) as log:
        await log.recover()
        await log.truncate(last)
        await log.append(b"more")
    async with Log(on(paths), 2) as log:
        await log.recover()
        assert (await everything(log))[-2:] == [b"\0", b"more"]


async def test_log_with_damaged_frames(tmp_path: Path) -> None:
    paths = files(tmp_path)
    async with Log(on(paths), 2) as log:
        await log.create()
        lsns = [await log.append(b"record %d" % i) for i in range(10)]
    at = logformat.START + lsns[4] + 8

    def spoil(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    spoil(paths[0])
    async with Log(on(paths), 2) as log:
        await log.recover()
        assert len(await everything(log)) == 10
    for path in paths:
        spoil(path)
    async with Log(on(paths), 2) as log:
        with pytest.raises(Damaged, match=r"acknowledged.*bring back the others"):
            await log.recover()


@pytest.mark.parametrize("which", ["blank", "other log", "wrong place", "other version"])
async def test_log_with_a_wrong_replica(tmp_path: Path, which: str) -> None:
    paths = files(tmp_path)
    (tmp_path / "more").mkdir()
    others = files(tmp_path / "more")
    async with Log(on(paths), 2) as log, Log(on(others), 2) as other:
        await log.create()
        await log.append(b"mine")
        await other.create()
    words = {
        "blank": "no valid header",
        "other log": "different log",
        "wrong place": "it is replica 1",
        "other version": "version 9",
    }[which]
    if which == "blank":
        paths[2].write_bytes(bytes(1 << 20))
    elif which == "other log":
        paths[2].write_bytes(others[2].read_bytes())
    elif which == "wrong place":
        paths[2].write_bytes(paths[1].read_bytes())
    else:
        data = bytearray(paths[2].read_bytes())
        for slot in (0, logformat.SLOT):
            data[slot + 8] = 9
            size = logformat._HEADER.size
            crc = crc32c(bytes(data[slot : slot + size]))
            data[slot + size : slot + size + 4] = crc.to_bytes(4, "little")
        paths[2].write_bytes(data)
    async with Log(on(paths), 2) as log:
        await log.recover()
        assert await everything(log) == [b"mine"]
        assert log.replicas[2][1] is LegState.OUT
        assert words in log.replicas[2][2]


async def test_two_writers_of_a_log() -> None:
    async with targets() as urls:
        first = Log([NamespaceReplica(url) for url in urls], 2)
        second = Log([NamespaceReplica(url) for url in urls], 2)
        async with first, second:
            await first.create()
            await first.append(b"first")
            await second.recover()
            with pytest.raises(ReplicationError):
                await first.append(b"too late")
            with pytest.raises(ReplicationError, match="different writer"):
                await first.append(b"too late")
            await second.append(b"second")
            assert await everything(second) == [b"first", b"second"]


async def test_a_replica_of_a_log_comes_back() -> None:
    replicas = [Memory(1 << 20) for _ in range(3)]
    async with Log(replicas, 2) as log:
        await log.create()
        await log.append(b"all")
        replicas[0].broken = True
        await log.append(b"two")
        await log.append(b"still two")
        assert state_of(log) == "out"
        replicas[0].broken = False
        busy = asyncio.gather(*(log.append(b"%d" % i) for i in range(50)))
        await log.rejoin(0)
        await busy
        assert state_of(log) == "in"
    replicas[1].broken = True
    async with Log(replicas, 2) as log:
        await log.recover()
        assert len(await everything(log)) == 53
