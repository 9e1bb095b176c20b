# SPDX-License-Identifier: BSD-3-Clause
"""Write Uncorrectable between real hosts, over real sockets, through restarts."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvmf.initiator import Namespace, NvmeError, connect
from nvmf.initiator.sync import connect as connect_blocking
from nvmf.spec.features import WriteProtection
from nvmf.spec.identify import Oncs
from nvmf.spec.opcodes import FeatureId
from nvmf.spec.status import DNR, Status
from nvmf.target.commands import uncorrectable
from support.clientlab import (
    NQN,
    OPTIONS,
    RAM,
    RAM_4K,
    SlowDisk,
    serving,
    serving_at,
    slow_disk,
    status_of,
)
from support.serverlab import until

UUID = "1f0c1c9e-0000-4000-8000-000000000005"
LOST = Status.UNRECOVERED_READ_ERROR | DNR


def file_of(folder: Path, store: str = "file") -> str:
    path = folder / "disk"
    if not path.exists():
        path.write_bytes(bytes(8 << 20))
    return f'store = "{store}"\npath = {json.dumps(str(path))}\nblock_size = 512\nuuid = "{UUID}"'


async def lost(disk: Namespace, lba: int, blocks: int = 1) -> None:
    """Check that no command can read them."""
    data = bytes(blocks * disk.block_size)
    for one in (
        disk.read(lba, blocks),
        disk.compare(lba, data),
        disk.verify(lba, blocks),
    ):
        with pytest.raises(NvmeError) as caught:
            await one
        assert caught.value.code == LOST
    if blocks == 1:
        assert await status_of(disk.compare_and_write(lba, data, data)) == LOST & ~DNR


@pytest.mark.feature("write-uncorrectable")
@pytest.mark.parametrize("store", [RAM, RAM_4K, "file", "pmem"])
async def test_until_they_are_written(tmp_path: Path, store: str) -> None:
    disk_of = file_of(tmp_path, store) if store in ("file", "pmem") else store
    async with (
        serving_at(None, disk_of) as (server, where),
        connect(where, **OPTIONS) as a,
        connect(where, **OPTIONS) as b,
    ):
        assert a.identify.oncs & Oncs.WRITE_UNCORRECTABLE
        disk, other, size = a.namespace(1), b.namespace(1), a.namespace(1).block_size
        await disk.write(0, b"x" * 64 * size)
        await disk.write_uncorrectable(8, 16)
        await lost(disk, 8)
        await lost(other, 23)
        await lost(other, 0, 64)
        assert await disk.read(0, 8) == b"x" * 8 * size
        assert await disk.read(24, 40) == b"x" * 40 * size
        await disk.write(8, b"y" * size)  # small: in its capsule
        await other.write(9, b"z" * 4 * size)
        assert await other.read(8, 5) == b"y" * size + b"z" * 4 * size
        await lost(disk, 13)
        await disk.write_zeroes(13, 2)
        assert await disk.read(13, 2) == bytes(2 * size)
        await lost(disk, 15)
        await other.write(0, b"w" * 64 * size)
        assert await disk.read(0, 64) == b"w" * 64 * size
        subsystem = server.core.subsystems[NQN]
        assert subsystem.lasting.state(1).invalid == ()
        await disk.write_uncorrectable(100, 3)
        with pytest.raises(NvmeError) as caught:
            await disk.copy(200, [(0, 8), (102, 2)])
        assert caught.value.code == LOST
        await other.copy(90, [(0, 12)])
        assert await disk.read(90, 12) == b"w" * 12 * size
        await lost(disk, 102)
        assert subsystem.lasting.state(1).invalid == ((102, 1),)


async def test_deallocation() -> None:
    """Deallocated blocks read as zeroes, whatever their earlier state."""
    async with serving_at(None, RAM) as (_, where), connect(where, **OPTIONS) as a:
        disk = a.namespace(1)
        await disk.write_uncorrectable(0, 100)
        await disk.deallocate([(10, 20), (60, 5), (200, 8)])
        assert await disk.read(10, 20) == bytes(20 * 512)
        assert await disk.read(60, 5) == bytes(5 * 512)
        for lba in (9, 30, 59, 65):
            await lost(disk, lba)


@pytest.mark.feature("write-uncorrectable")
async def test_they_outlive_the_target(tmp_path: Path) -> None:
    """Marks are kept with a file's data; those of RAM end with the target."""
    disks, state = (file_of(tmp_path), RAM), tmp_path / "state"
    async with serving_at(state, *disks) as (_, where), connect(where, **OPTIONS) as a:
        for nsid in (1, 2):
            await a.namespace(nsid).write_uncorrectable(5, 2)
    assert [one.name for one in (state / "namespaces").iterdir()] == [f"{UUID}.json"]
    async with serving_at(state, *disks) as (_, where), connect(where, **OPTIONS) as a:
        await lost(a.namespace(1), 5)
        assert await a.namespace(2).read(5, 2) == bytes(1024)
        await a.namespace(1).write(5, b"x" * 512)
    async with serving_at(state, *disks) as (_, where), connect(where, **OPTIONS) as a:
        assert await a.namespace(1).read(5, 1) == b"x" * 512
        await lost(a.namespace(1), 6)
        await a.namespace(1).write_zeroes(0, 16)
    assert not list((state / "namespaces").iterdir())


async def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disks = (file_of(tmp_path) + "\nread_only = true", RAM)
    async with serving_at(tmp_path / "s", *disks) as (_, where), connect(where, **OPTIONS) as a:
        status = await status_of(a.namespace(1).write_uncorrectable(0, 1))
        assert status == Status.NAMESPACE_WRITE_PROTECTED
        disk = a.namespace(2)
        with pytest.raises(NvmeError):
            await disk.write_uncorrectable(disk.blocks - 1, 2)
        await a.set_features(
            FeatureId.NAMESPACE_WRITE_PROTECTION, WriteProtection.PROTECTED, nsid=2
        )
        status = await status_of(disk.write_uncorrectable(0, 1))
        assert status == Status.NAMESPACE_WRITE_PROTECTED
        await a.set_features(FeatureId.NAMESPACE_WRITE_PROTECTION, 0, nsid=2)
        monkeypatch.setattr(uncorrectable, "MOST_RANGES", 2)
        await disk.write_uncorrectable(0, 1)
        await disk.write_uncorrectable(2, 1)
        status = await status_of(disk.write_uncorrectable(4, 1))
        assert status == Status.INTERNAL_ERROR
        assert await disk.read(4, 1) == bytes(512)
        await disk.write_uncorrectable(1, 1)  # the two ranges become one
        await lost(disk, 0, 3)
        monkeypatch.setattr(uncorrectable, "MOST_PIECES", 2)
        await disk.write(1, bytes(512))
        monkeypatch.setattr(uncorrectable, "MOST_RANGES", 3)
        await disk.write_uncorrectable(4, 5)
        await disk.write_zeroes(0, 1)
        await disk.write_zeroes(4, 1)  # of two ranges, none is divided
        status = await status_of(disk.write(6, bytes(512)))
        assert status == Status.INTERNAL_ERROR
        await lost(disk, 6)


async def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that cannot be stored is refused: setting marks, and removing them."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    disk_of = file_of(tmp_path)
    async with serving_at(tmp_path / "s", disk_of) as (_, where), connect(where, **OPTIONS) as a:
        disk = a.namespace(1)
        await disk.write_uncorrectable(0, 2)
        with monkeypatch.context() as patch:
            patch.setattr("nvmf.target.lasting.namespacefiles.write_atomically", full)
            for one in (disk.write_uncorrectable(8, 1), disk.write(1, bytes(512))):
                assert await status_of(one) == Status.INTERNAL_ERROR
            await lost(disk, 0, 2)
            assert await disk.read(8, 1) == bytes(512)
        await disk.write(1, bytes(512))
        assert await disk.read(1, 1) == bytes(512)


@pytest.fixture
def slow() -> Iterator[SlowDisk]:
    with slow_disk() as disk:
        yield disk


async def test_a_reset_ends_with_marks_that_are_being_stored(
    tmp_path: Path, slow: SlowDisk
) -> None:
    """A mark from before the reset does not lose the data that the host writes after it."""
    async with (
        serving_at(tmp_path / "s", file_of(tmp_path)) as (server, where),
        connect(where, **OPTIONS) as host,
    ):
        (controller,) = server.core.controllers()
        async with connect(where, **OPTIONS) as other:
            marking = asyncio.create_task(host.namespace(1).write_uncorrectable(8, 1))
            await slow.reached()
            marking.cancel()
            resetting = asyncio.create_task(host.reset())
            await until(lambda: not controller.cc.en)
            for _ in range(3):  # the queues that the host has closed are gone
                await other.get_features(FeatureId.KEEP_ALIVE_TIMER)
            assert controller.csts.rdy
            slow.go.set()
            assert await resetting
        await host.namespace(1).write(8, b"new".ljust(512, b"\0"))
        assert bytes(await host.namespace(1).read(8, 1))[:3] == b"new"


async def test_a_slow_disk_holds_up_nobody_else(tmp_path: Path, slow: SlowDisk) -> None:
    """While marks are being stored, other hosts are answered, and changes are made in order."""
    async with (
        serving_at(tmp_path / "s", file_of(tmp_path)) as (_, where),
        connect(where, **OPTIONS) as a,
        connect(where, **OPTIONS) as b,
    ):
        disk = a.namespace(1)
        marking = asyncio.create_task(disk.write_uncorrectable(8, 4))
        await slow.reached()
        protection = FeatureId.NAMESPACE_WRITE_PROTECTION
        assert await b.get_features(protection, nsid=1) == WriteProtection.NONE
        assert await b.namespace(1).read(8, 4) == bytes(2048)
        more = [
            asyncio.create_task(disk.write_uncorrectable(lba, 4)) for lba in range(100, 200, 10)
        ]
        protecting = asyncio.create_task(
            b.set_features(protection, WriteProtection.PROTECTED, nsid=1)
        )
        await b.get_features(FeatureId.KEEP_ALIVE_TIMER)
        assert not marking.done()
        assert not protecting.done()
        slow.go.set()
        await asyncio.gather(marking, protecting)
        done = await asyncio.gather(*more, return_exceptions=True)
        await lost(b.namespace(1), 8, 4)
        for lba, one in zip(range(100, 200, 10), done, strict=True):
            if one is None:
                await lost(disk, lba, 4)
            else:  # it arrived when the namespace was about to be protected
                assert isinstance(one, NvmeError)
                assert one.status == Status.NAMESPACE_WRITE_PROTECTED


async def test_what_is_being_written_goes_along(tmp_path: Path, slow: SlowDisk) -> None:
    """The rebuilt subsystem gets it: the stored state and the state in force are the same."""
    async with serving_at(tmp_path / "s", file_of(tmp_path)) as (server, where):
        async with connect(where, **OPTIONS, ctrl_loss_tmo=0) as a:
            marking = asyncio.create_task(a.namespace(1).write_uncorrectable(8, 4))
            await slow.reached()
            changed = server.config.subsystems[0].model_copy(update={"serial": "NEW"})
            await server.apply(server.config.model_copy(update={"subsystems": (changed,)}))
            slow.go.set()
            await asyncio.gather(marking, return_exceptions=True)
        async with connect(where, **OPTIONS) as a:
            assert a.identify.sn == "NEW"
            await lost(a.namespace(1), 8, 4)
            await a.namespace(1).write(8, bytes(2048))
            assert await a.namespace(1).read(8, 4) == bytes(2048)


async def test_a_fault_inside_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is answered, and so are those after it."""
    async with (
        serving_at(tmp_path, file_of(tmp_path)) as (_, where),
        connect(where, **OPTIONS) as a,
    ):
        disk = a.namespace(1)
        with monkeypatch.context() as patch:
            patch.setattr("nvmf.target.model.lastingkeeper.encode", lambda _: 1 // 0)
            done = await asyncio.gather(
                *(status_of(disk.write_uncorrectable(lba, 1)) for lba in (1, 3, 5))
            )
        assert done == [Status.INTERNAL_ERROR] * 3
        await disk.write_uncorrectable(7, 1)
        await lost(disk, 7)
        assert await disk.read(1, 1) == bytes(512)


async def test_many_writers() -> None:
    """Marks are set and removed under load; blocks of completed writes are readable."""
    async with serving_at(None, RAM) as (_, where), connect(where, **OPTIONS) as a:
        disk = a.namespace(1)

        async def one(first: int) -> None:
            chance = random.Random(first)
            for turn in range(20):
                await disk.write_uncorrectable(first, 16)
                lba, count = first + chance.randrange(8), chance.choice((1, 4, 8))
                data = bytes([turn]) * 512 * count
                await disk.write(lba, data)
                assert await disk.read(lba, count) == data
                assert await status_of(disk.read(first, 16)) == LOST & ~DNR

        await asyncio.gather(*(one(first) for first in range(0, 16 * 16, 16)))


def test_by_a_script(tmp_path: Path) -> None:
    """The blocking client."""

    async def script() -> None:
        async with serving(RAM) as (_, where):
            await asyncio.to_thread(work, where)

    def work(where: str) -> None:
        with connect_blocking(where, **OPTIONS) as controller:
            disk = controller.namespace(1)
            old, new = bytes(512), b"n" * 512
            disk.compare_and_write(7, old, new)
            with pytest.raises(NvmeError) as caught:
                disk.compare_and_write(7, old, new)
            assert caught.value.status == Status.COMPARE_FAILURE
            assert disk.read(7, 1) == new
            disk.write_uncorrectable(7, 1)
            with pytest.raises(NvmeError):
                disk.read(7, 1)
            disk.write(7, old)
            assert disk.read(7, 1) == old

    asyncio.run(script())


async def test_the_commands(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(bytes(512))
    new.write_bytes(b"n" * 512)
    async with serving_at(None, RAM) as (_, where), connect(where, **OPTIONS) as a:

        async def do(command: str, *flags: str) -> tuple[int, str]:
            program = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "nvmf.cli.main", command, where, "--device", "iwarp"),
                *flags,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            out, _ = await program.communicate()
            assert program.returncode is not None
            return program.returncode, out.decode()

        said = await do("write-uncor", "-b", "8", "--blocks", "4")
        assert said == (0, "namespace 1: 4 blocks starting at 8 are invalid\n")
        await lost(a.namespace(1), 8, 4)
        status, text = await do("read", "-b", "11", "--blocks", "1")
        assert status == 1
        assert "Unrecovered Read Error" in text
        status, text = await do("write-uncor", "-o", "json")
        assert (status, json.loads(text)) == (0, {"nsid": 1, "slba": 0, "block_count": 1})
        assert (await do("write-uncor", "--blocks", "0"))[0] == 2
        last = a.namespace(1).blocks - 1
        status, text = await do("write-uncor", "-b", str(last), "--blocks", "70000")
        assert status == 1
        assert f"only 1 block (512 bytes) from block {last} to the end" in text
        assert await a.namespace(1).read(last, 1) == bytes(512)
        files = ("--expected", str(old), "-d", str(new), "-b", "3")
        said = await do("compare-and-write", *files)
        assert said == (0, "namespace 1: block 3 had the expected content and was written\n")
        status, text = await do("compare-and-write", *files)
        assert status == 1
        assert "Compare Failure" in text
        assert "differs from the expected data" in text
        for file in (old, new):
            file.write_bytes(file.read_bytes() * 2)
        status, text = await do("compare-and-write", *files)
        assert status == 2
        assert "2 blocks at LBA 3" in text
        assert "acwu of id-ctrl" in text
