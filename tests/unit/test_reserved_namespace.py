# SPDX-License-Identifier: BSD-3-Clause
"""Reservations between real hosts, over real sockets, through restarts of the target."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nvmf.config import loads
from nvmf.initiator import Controller, Namespace, NvmeError, connect
from nvmf.spec import commands
from nvmf.spec.opcodes import FeatureId, LogId
from nvmf.spec.reservations import (
    NotificationPage,
    NotificationType,
    ReservationType,
)
from nvmf.spec.status import DNR, Status
from nvmf.target.lasting.state import DamagedState
from nvmf.target.model.reservekeeper import load
from nvmf.target.service.starting import serve
from support.clientlab import OPTIONS, config, serving_at, slow_disk, status_of, url

DISK = 'store = "ram"\nsize = "8MiB"\nblock_size = 512\nuuid = "{}"'
UUID = "1f0c1c9e-0000-4000-8000-000000000001"
OTHER = "1f0c1c9e-0000-4000-8000-000000000002"
BLOCK = bytes(512)
HOSTS = [str(uuid.UUID(int=number + 1)) for number in range(3)]
WE, EA, WERO, EARO, WEAR, EAAR = ReservationType


@asynccontextmanager
async def serving(state: Path | None) -> AsyncIterator[str]:
    text = config(DISK.format(UUID), DISK.format(OTHER))
    if state is not None:
        text = f"[target]\nstate_dir = {json.dumps(str(state))}\n{text}"
    server = await serve(loads(text))
    try:
        yield url(server.ports[0].address[1])
    finally:
        await server.stop()


@asynccontextmanager
async def hosts(where: str, count: int = 2, **options: Any) -> AsyncIterator[list[Controller]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                connect(
                    where,
                    **{**OPTIONS, **options},
                    hostnqn=f"nqn.2014-08.org.nvmexpress:uuid:{host}",
                    hostid=host,
                )
            )
            for host in HOSTS[:count]
        ]


def conflict(status: int) -> bool:
    return status & 0x7FF == Status.RESERVATION_CONFLICT


async def reserve(disk: Namespace, key: int, rtype: ReservationType) -> None:
    await disk.reservations.register(key)
    await disk.reservations.acquire(key, rtype)


@pytest.mark.feature("reservations")
async def test_exclusive_access() -> None:
    async with serving(None) as where, hosts(where, 3) as (a, b, c):
        one, two, three = (controller.namespace(1) for controller in (a, b, c))
        await one.write(0, BLOCK)
        assert one.info.rescap == 0xFE
        await reserve(one, 0xA, EA)
        await two.reservations.register(0xB)
        await one.write(0, BLOCK)
        for other in (two, three):
            assert conflict(await status_of(other.read(0, 1)))
            assert conflict(await status_of(other.write(0, BLOCK)))
            assert conflict(await status_of(other.write_zeroes(0, 1)))
            assert conflict(await status_of(other.deallocate([(0, 1)])))
            assert conflict(await status_of(other.flush()))
        await b.namespace(2).write(0, BLOCK)  # the other namespace is free
        async with connect(where, **OPTIONS, hostid=HOSTS[2]) as late:  # it arrives after that
            assert conflict(await status_of(late.namespace(1).read(0, 1)))
        await one.reservations.release(0xA, EA)
        await three.write(0, BLOCK)


@pytest.mark.feature("reservations")
async def test_registrants_only() -> None:
    async with serving(None) as where, hosts(where, 3) as (a, b, c):
        one, two, three = (controller.namespace(1) for controller in (a, b, c))
        await reserve(one, 0xA, WERO)
        assert conflict(await status_of(two.write(0, BLOCK)))
        await three.read(0, 1)
        await two.reservations.register(0xB)
        await two.write(0, BLOCK)
        report = await three.reservations.report()
        assert [(e.rkey, e.rcsts, e.cntlid) for e in report.registrants] == [
            (0xA, 1, a.identify.cntlid),
            (0xB, 0, b.identify.cntlid),
        ]
        assert (report.rtype, report.gen, report.ptpls) == (WERO, 2, 0)
        assert report.registrants[0].hostid == uuid.UUID(HOSTS[0]).bytes
        assert conflict(await status_of(three.reservations.acquire(0xC, WERO)))
        await two.reservations.preempt(0xB, WERO, 0xA, abort=True)
        assert conflict(await status_of(one.write(0, BLOCK)))
        await two.reservations.clear(0xB)
        await one.write(0, BLOCK)


async def notice(controller: Controller, *, rae: bool = False) -> NotificationPage:
    sqe = commands.get_log_page(LogId.RESERVATION_NOTIFICATION, 64, rae=rae)
    data, _ = await controller.session.admin.receive(sqe, "Get Log Page", 64)
    return NotificationPage.decode(data)


@pytest.mark.feature("reservations", "events")
async def test_notifications() -> None:
    async with serving(None) as where, hosts(where, 3) as (a, b, c):
        one, two = a.namespace(1), b.namespace(1)
        await reserve(one, 0xA, EARO)
        await two.reservations.register(0xB)
        await c.namespace(1).reservations.register(0xC)
        mask = commands.set_features(FeatureId.RESERVATION_NOTIFICATION_MASK, 1 << 2, nsid=1)
        await c.session.admin.run(mask, "Set Features")
        await one.reservations.release(0xA, EARO)
        await one.reservations.acquire(0xA, EARO)
        await two.reservations.preempt(0xB, EARO, 0xA)
        assert await notice(a) == NotificationPage(1, NotificationType.REGISTRATION_PREEMPTED, 0, 1)
        assert (await notice(a)).type == NotificationType.EMPTY
        kept = await notice(b, rae=True)
        assert kept == NotificationPage(1, NotificationType.RESERVATION_RELEASED, 0, 1)
        assert await notice(b) == kept
        assert (await notice(c)).type == NotificationType.EMPTY


@pytest.mark.feature("ptpl")
async def test_persists_through_power_loss(tmp_path: Path) -> None:
    async with serving(tmp_path) as where, hosts(where) as (a, b):
        one = a.namespace(1)
        assert one.info.rescap == 0xFF
        await one.reservations.register(0xA, persist=True)
        await one.reservations.acquire(0xA, EA)
        await b.namespace(2).reservations.register(0xB)  # not through power loss
    assert [file.name for file in (tmp_path / "reservations").iterdir()] == [f"{UUID}.json"]
    async with serving(tmp_path) as where, hosts(where) as (a, b):
        one, two = a.namespace(1), b.namespace(1)
        await one.write(0, BLOCK)
        assert conflict(await status_of(two.read(0, 1)))
        report = await one.reservations.report()
        assert (report.rtype, report.ptpls, report.gen) == (EA, 1, 0)
        assert not (await b.namespace(2).reservations.report()).registrants
        await one.reservations.unregister(0xA)
        await two.reservations.register(0xB, persist=False)
    assert not list((tmp_path / "reservations").iterdir())


@pytest.mark.feature("ptpl")
async def test_a_slow_disk_holds_up_nobody_else(tmp_path: Path) -> None:
    """A change takes effect only after it is on the disk, and the next one waits for it."""
    async with serving(tmp_path) as where, hosts(where) as (a, b):
        one, two = a.namespace(1), b.namespace(1)
        await one.reservations.register(0xA, persist=True)
        await two.reservations.register(0xB)
        with slow_disk() as slow:
            acquiring = asyncio.create_task(one.reservations.acquire(0xA, EA))
            await slow.reached()
            await two.write(0, BLOCK)
            assert not (await two.reservations.report()).rtype
            await b.namespace(2).reservations.register(0xB)
            stale = asyncio.create_task(two.reservations.acquire(0xB, WE))
            taking = asyncio.create_task(two.reservations.preempt(0xB, WE, 0xA, abort=True))
            await b.get_features(FeatureId.KEEP_ALIVE_TIMER)
            assert not any(task.done() for task in (acquiring, stale, taking))
            slow.go.set()
            await acquiring
            assert conflict(await status_of(stale))
            await taking
        report = await two.reservations.report()
        assert (report.rtype, len(report.registrants)) == (WE, 1)
        assert conflict(await status_of(one.write(0, BLOCK)))


@pytest.mark.feature("ptpl")
async def test_what_is_being_written_goes_along(tmp_path: Path) -> None:
    """The rebuilt subsystem gets it: the stored state and the state in force are the same."""
    async with serving_at(tmp_path, DISK.format(UUID)) as (server, where):
        with slow_disk() as slow:
            async with hosts(where, 1, ctrl_loss_tmo=0) as (a,):
                one = a.namespace(1)
                registering = asyncio.create_task(one.reservations.register(0xA, persist=True))
                await slow.reached()
                changed = server.config.subsystems[0].model_copy(update={"serial": "NEW"})
                await server.apply(server.config.model_copy(update={"subsystems": (changed,)}))
                slow.go.set()
                await asyncio.gather(registering, return_exceptions=True)
        async with hosts(where, 1) as (a,):
            assert a.identify.sn == "NEW"
            report = await a.namespace(1).reservations.report()
            assert (report.ptpls, len(report.registrants)) == (1, 1)


@pytest.mark.feature("ptpl")
async def test_nothing_lasts_without_a_state_folder() -> None:
    async with serving(None) as where, hosts(where, 1) as (a,):
        one = a.namespace(1)
        status = await status_of(one.reservations.register(0xA, persist=True))
        assert status & 0x7FF == Status.INVALID_FIELD
        assert not (await one.reservations.report()).registrants


@pytest.mark.feature("ptpl")
async def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that cannot be stored is refused, and nothing has changed."""
    async with serving(tmp_path) as where, hosts(where) as (a, b):
        one, two = a.namespace(1), b.namespace(1)
        await one.reservations.register(0xA, persist=True)
        before = {path: path.read_bytes() for path in (tmp_path / "reservations").iterdir()}

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("nvmf.target.lasting.namespacefiles.write_atomically", full)
        status = await status_of(one.reservations.acquire(0xA, EA))
        assert status & 0x7FF == Status.INTERNAL_ERROR
        await two.write(0, BLOCK)
        assert not (await one.reservations.report()).rtype
        after = {path: path.read_bytes() for path in (tmp_path / "reservations").iterdir()}
        assert after == before


@pytest.mark.feature("ptpl")
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-20],
        lambda data: data.replace(b'"rtype": 2', b'"rtype": 1'),
        lambda data: b'{"crc32": 0, "reservation": []}',
        lambda data: b"\xff" * len(data),
        lambda data: b"[]",
    ],
)
async def test_a_damaged_file(
    tmp_path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """The namespace is refused and the file named; the other namespace is served."""
    async with serving(tmp_path) as where, hosts(where, 1) as (a,):
        await a.namespace(1).reservations.register(0xA, persist=True)
        await a.namespace(1).reservations.acquire(0xA, EA)
    file = tmp_path / "reservations" / f"{UUID}.json"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DamagedState, match=UUID):
        load(file)
    async with serving(tmp_path) as where, hosts(where, 1) as (a,):
        status = await status_of(a.namespace(1).write(0, BLOCK))
        assert status & 0x7FF == Status.NAMESPACE_NOT_READY
        status = await status_of(a.namespace(1).reservations.report())
        assert status & 0x7FF == Status.NAMESPACE_NOT_READY
        await a.namespace(2).write(0, BLOCK)
    assert str(file) in caplog.text
    file.unlink()
    async with serving(tmp_path) as where, hosts(where, 1) as (a,):
        await a.namespace(1).write(0, BLOCK)


@pytest.mark.feature("reservations")
async def test_two_controllers_of_one_host() -> None:
    """A registration belongs to a host: both of its controllers have it."""
    async with serving(None) as where, hosts(where, 1) as (a,), hosts(where, 1) as (again,):
        await reserve(a.namespace(1), 0xA, EA)
        await again.namespace(1).write(0, BLOCK)
        report = await again.namespace(1).reservations.report()
        assert [e.cntlid for e in report.registrants] == [a.identify.cntlid, again.identify.cntlid]
        await again.namespace(1).reservations.unregister(0xA)
        assert not (await a.namespace(1).reservations.report()).rtype


@pytest.mark.feature("reservations", "abort")
async def test_preempt_and_abort_under_load() -> None:
    """When it completes, none of the commands that the preempted host had begun can still take
    effect.
    """
    async with serving(None) as where, hosts(where, io_timeout=60.0) as (a, b):
        one, two = a.namespace(1), b.namespace(1)
        await reserve(two, 0xB, WERO)
        await one.reservations.register(0xA)
        stop = asyncio.Event()

        async def write(lba: int) -> int:
            while not stop.is_set():
                try:
                    await two.write(lba, b"\xbb" * 4096)
                except NvmeError as error:
                    return error.status
            return 0

        writers = [asyncio.create_task(write(lba * 8)) for lba in range(16)]
        await asyncio.sleep(0)
        await one.reservations.preempt(0xA, EA, 0xB, abort=True)
        await one.write(0, bytes(16 * 4096))
        statuses = await asyncio.gather(*writers)
        aborted = {Status.ABORTED_PREEMPT | dnr for dnr in (0, DNR)}
        assert all(conflict(status) or status in aborted for status in statuses)
        assert not any(await one.read(0, 128))


@pytest.mark.feature("reservations", "write-uncorrectable")
@pytest.mark.parametrize("gone", [False, True])
async def test_preempt_and_abort_of_blocks_being_marked(tmp_path: Path, gone: bool) -> None:
    """Write Uncorrectable of a preempted host takes effect before it completes, or not at all."""
    image = tmp_path / "disk"
    image.write_bytes(bytes(1 << 20))
    disk = f'store = "file"\npath = {json.dumps(str(image))}\nblock_size = 512\nuuid = "{UUID}"'
    state = tmp_path / "state"
    async with (
        serving_at(state, disk) as (_, where),
        hosts(where, io_timeout=60.0, ctrl_loss_tmo=0) as (a, b),
    ):
        one, two = a.namespace(1), b.namespace(1)
        await reserve(one, 0xA, WE)
        await two.reservations.register(0xB)
        with slow_disk() as slow:
            marking = [asyncio.create_task(one.write_uncorrectable(lba, 1)) for lba in (5, 6)]
            await slow.reached()
            if gone:
                await a.close()
            fencing = asyncio.create_task(two.reservations.preempt(0xB, WE, 0xA, abort=True))
            await asyncio.sleep(0.2)
            assert not fencing.done()
            slow.go.set()
            await fencing
        await two.write(5, BLOCK * 2)
        first, second = await asyncio.gather(*marking, return_exceptions=True)
        assert await two.read(5, 2) == BLOCK * 2
        if not gone:
            assert first is None
            assert isinstance(second, NvmeError)
            assert conflict(second.status)


@pytest.mark.feature("reservations")
async def test_the_commands(tmp_path: Path) -> None:
    async with serving(tmp_path) as where:

        async def do(command: str, *flags: str, host: int = 0) -> tuple[int, str, str]:
            who = ["-I", HOSTS[host], "-q", f"nqn.2014-08.org.nvmexpress:uuid:{HOSTS[host]}"]
            program = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "nvmf.cli.main", command, where, "--device", "iwarp"),
                *who,
                *flags,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await program.communicate()
            assert program.returncode is not None
            return program.returncode, out.decode(), err.decode()

        assert (await do("resv-register", "--nrkey", "0xa", "--cptpl", "3"))[0] == 0
        done = await do("resv-acquire", "--crkey", "10", "--rtype", "1")
        assert done == (0, "namespace 1: acquired\n", "")
        status, _, said = await do("resv-acquire", "--crkey", "1", "--rtype", "1", host=1)
        assert status == 1
        assert "Reservation Conflict" in said
        report = json.loads((await do("resv-report", "-o", "json", host=1))[1])
        assert report["rtype"] == 1
        assert report["ptpls"] == 1
        assert report["regctlext"][0]["rkey"] == 10
        assert "write exclusive, persists across restarts" in (await do("resv-report"))[1]
        assert (await do("resv-release", "--crkey", "10", "--rtype", "1"))[0] == 0
        assert (await do("resv-register", "--rrega", "1", "--crkey", "10"))[0] == 0
        assert (await do("resv-acquire", "--rtype", "9"))[0] == 2
        assert (await do("resv-register", "--iekey", "--rrega", "2", "--nrkey", "0xb"))[0] == 0
        assert (await do("resv-register", "--iekey", "--rrega", "1"))[0] == 0
