# SPDX-License-Identifier: BSD-3-Clause
"""Namespace Write Protection between real hosts, over real sockets, through restarts."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from nvmf.initiator import Controller, Namespace, connect
from nvmf.spec import commands
from nvmf.spec.features import WriteProtection
from nvmf.spec.identify import IdentifyNamespace
from nvmf.spec.opcodes import Cns, FeatureId
from nvmf.spec.status import Status
from nvmf.target.model.controller import Controller as ServedController
from nvmf.target.rpc.socket import RpcSocket
from nvmf.target.service.administration import Administration
from nvmf.target.service.server import Server
from support.clientlab import NQN, OPTIONS, serving_at, status_of

UUID = "1f0c1c9e-0000-4000-8000-000000000003"
RAM = f'store = "ram"\nsize = "8MiB"\nblock_size = 512\nuuid = "{UUID}"'
BLOCK = bytes(512)
FID = FeatureId.NAMESPACE_WRITE_PROTECTION
PERMANENT = "permanent_write_protect = true"
ALL = 0xFFFFFFFF
NONE, PROTECTED, UNTIL, FOR_GOOD = WriteProtection


def serving(
    state: Path | None, *disks: str, extra: str = ""
) -> AbstractAsyncContextManager[tuple[Server, str]]:
    return serving_at(state, *(disks or (RAM,)), extra=extra)


async def protect(controller: Controller, state: int, nsid: int = 1) -> None:
    await controller.set_features(FID, state, nsid=nsid)


async def state_of(controller: Controller, nsid: int = 1) -> int:
    return await controller.get_features(FID, nsid=nsid)


async def refused(disk: Namespace) -> None:
    """Check that writes are refused, and that reads and Flush are not."""
    writes = [
        disk.write(0, BLOCK),
        disk.write(0, bytes(65536)),
        disk.write_zeroes(0, 1),
        disk.deallocate([(0, 1)]),
        disk.compare_and_write(0, BLOCK, BLOCK),
    ]
    for one in writes:
        assert await status_of(one) == Status.NAMESPACE_WRITE_PROTECTED
    await disk.read(0, 1)
    await disk.compare(0, BLOCK)
    await disk.verify(0, 1)
    await disk.flush()
    await disk.reservations.report()
    hints = commands.dataset_management(disk.nsid, 1, deallocate=False)
    await disk.send(hints, "Dataset Management", commands.dsm_ranges([(0, 1)]))


async def attributes(controller: Controller) -> int:
    data = await controller.identify_data(Cns.NAMESPACE, 1)
    return IdentifyNamespace.decode(data).nsattr


@pytest.mark.feature("write-protect")
async def test_a_protected_namespace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The protection applies to all hosts, is reported, and the other hosts are notified."""
    caplog.set_level("INFO")
    async with (
        serving(tmp_path) as (_, where),
        connect(where, **OPTIONS) as a,
        connect(where, **OPTIONS) as b,
    ):
        assert (a.identify.nwpc, await state_of(a), await attributes(a)) == (1, NONE, 0)
        await protect(a, PROTECTED)
        said = r"controller 1 of \S+ for \S+: namespace 1: write protection protected"
        assert re.search(said, caplog.text), caplog.text
        for controller in (a, b):
            assert await state_of(controller) == PROTECTED
            assert await attributes(controller) == 1
            await refused(controller.namespace(1))
        async with asyncio.timeout(60):  # the event arrives, and the client reads the state again
            while not b.namespace(1).info.nsattr:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        async with connect(where, **OPTIONS) as late:
            await refused(late.namespace(1))
        await protect(b, PROTECTED)  # no change
        await protect(b, NONE)
        assert (await state_of(a), await attributes(a)) == (NONE, 0)
        await a.namespace(1).write(0, BLOCK)


@pytest.mark.feature("write-protect")
async def test_it_outlives_the_target(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(1 << 20))
    state = tmp_path / "state"
    file = f'store = "file"\npath = {json.dumps(str(disk))}\nuuid = "{UUID}"'
    disks = (file, RAM.replace("0003", "0004"))
    async with serving(state, *disks) as (_, where), connect(where, **OPTIONS) as a:
        await a.namespace(1).write(0, b"x" * 4096)
        await protect(a, PROTECTED)
    assert [one.name for one in (state / "namespaces").iterdir()] == [f"{UUID}.json"]
    async with serving(state, file) as (_, where), connect(where, **OPTIONS) as a:
        assert await state_of(a) == PROTECTED
        assert await status_of(a.namespace(1).write(0, bytes(4096))) == 0x20
        assert await a.namespace(1).read(0, 1) == b"x" * 512
        await protect(a, NONE)
        await a.namespace(1).write(0, bytes(4096))
    assert not list((state / "namespaces").iterdir())


async def test_states_that_end_with_the_target_or_never(tmp_path: Path) -> None:
    async with serving(tmp_path, extra=PERMANENT) as (_, where), connect(where, **OPTIONS) as a:
        assert a.identify.nwpc == 7
        await protect(a, PROTECTED)
        await protect(a, UNTIL)
        for other in (NONE, PROTECTED, FOR_GOOD):
            status = await status_of(protect(a, other))
            assert status == Status.FEATURE_NOT_CHANGEABLE
        await protect(a, UNTIL)
        await refused(a.namespace(1))
    async with serving(tmp_path, extra=PERMANENT) as (_, where), connect(where, **OPTIONS) as a:
        assert await state_of(a) == NONE
        await a.namespace(1).write(0, BLOCK)
        await protect(a, FOR_GOOD)
    async with serving(tmp_path) as (_, where), connect(where, **OPTIONS) as a:
        assert (a.identify.nwpc, await state_of(a)) == (1, FOR_GOOD)
        for other in (NONE, PROTECTED):
            status = await status_of(protect(a, other))
            assert status == Status.FEATURE_NOT_CHANGEABLE
        await refused(a.namespace(1))


async def test_what_cannot_be_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, where), connect(where, **OPTIONS) as a:
        for state in (UNTIL, FOR_GOOD, 4, 7):
            assert await status_of(protect(a, state)) == Status.INVALID_FIELD
        for nsid in (0, 2):
            status = await status_of(protect(a, PROTECTED, nsid))
            assert status == Status.INVALID_NAMESPACE_OR_FORMAT
        status = await status_of(state_of(a, ALL))
        assert status == Status.INVALID_NAMESPACE_OR_FORMAT
        assert await state_of(a) == NONE
    async with serving(None, extra=PERMANENT) as (_, where), connect(where, **OPTIONS) as a:
        assert a.identify.nwpc == 0
        assert await status_of(protect(a, PROTECTED)) == Status.INVALID_FIELD
        assert await status_of(state_of(a)) == Status.INVALID_FIELD


async def test_all_namespaces(tmp_path: Path) -> None:
    disks = [RAM.replace("0003", f"{number:04}") for number in range(3, 7)]
    async with serving(tmp_path, *disks) as (_, where), connect(where, **OPTIONS) as a:
        await protect(a, PROTECTED, 2)
        await protect(a, PROTECTED, ALL)
        for nsid in range(1, 5):
            assert await state_of(a, nsid) == PROTECTED
            await refused(a.namespace(nsid))
        await protect(a, NONE, ALL)
        for nsid in range(1, 5):
            assert await state_of(a, nsid) == NONE
            await a.namespace(nsid).write(0, BLOCK)


async def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that cannot be stored is refused, and nothing has changed."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with serving(tmp_path) as (_, where), connect(where, **OPTIONS) as a:
        with monkeypatch.context() as patch:
            patch.setattr("nvmf.target.lasting.namespacefiles.write_atomically", full)
            assert await status_of(protect(a, PROTECTED)) == Status.INTERNAL_ERROR
        assert await state_of(a) == NONE
        await a.namespace(1).write(0, BLOCK)
        await protect(a, PROTECTED)


async def test_a_flush_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a Flush fails, earlier writes are not safe, and the namespace is not protected."""
    async with serving(tmp_path) as (server, where), connect(where, **OPTIONS) as a:

        def work(namespace: object, flush: object, then: object) -> None:
            assert callable(then)
            then(OSError(5, "Input/output error"))

        subsystem = server.core.subsystems[NQN]
        monkeypatch.setattr(subsystem, "work", work)
        assert await status_of(protect(a, PROTECTED)) == Status.WRITE_FAULT
        assert (await state_of(a), await attributes(a)) == (NONE, 0)
        await a.namespace(1).write(0, BLOCK)


async def test_writes_that_do_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that does not transfer its data delays the protection, but not without limit."""
    async with serving(tmp_path) as (server, where), connect(where, **OPTIONS) as a:
        subsystem = server.core.subsystems[NQN]
        ended = subsystem.when_ended
        stuck: list[Callable[[], None]] = []

        def held_up(who: Iterable[ServedController], nsid: int, then: Callable[[], None]) -> None:
            if nsid:
                stuck.append(then)
            else:
                ended(who, nsid, then)

        with monkeypatch.context() as patch:
            patch.setattr(subsystem, "when_ended", held_up)
            patch.setattr("nvmf.target.commands.protection.SETTLE_TIMEOUT", 0.01)
            sqe = commands.set_features(FID, PROTECTED, nsid=1)
            status = await status_of(a.session.admin.run(sqe, "Set Features"))
            # Command Interrupted requires Host Behavior Support, ACRE.
            assert status == Status.NAMESPACE_NOT_READY
        assert await state_of(a) == NONE
        await a.namespace(1).write(0, BLOCK)
        await protect(a, PROTECTED)
        for then in stuck:
            then()
        assert await state_of(a) == PROTECTED


async def test_a_damaged_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The namespace is refused and the file named; the other namespace is served."""
    disks = (RAM, RAM.replace("0003", "0004"))
    async with serving(tmp_path, *disks) as (_, where), connect(where, **OPTIONS) as a:
        await protect(a, PROTECTED)
    file = tmp_path / "namespaces" / f"{UUID}.json"
    file.write_bytes(file.read_bytes().replace(b'protection": 1', b'protection": 0'))
    async with serving(tmp_path, *disks) as (_, where), connect(where, **OPTIONS) as a:
        for action in (a.namespace(1).read(0, 1), a.namespace(1).flush(), state_of(a)):
            assert await status_of(action) == Status.NAMESPACE_NOT_READY
        await a.namespace(2).write(0, BLOCK)
    assert str(file) in caplog.text


async def test_another_subsystem_in_its_place(tmp_path: Path) -> None:
    """A change that makes hosts connect again is not a power cycle."""
    async with serving(tmp_path, extra=PERMANENT) as (server, where):
        async with connect(where, **OPTIONS) as a:
            await protect(a, UNTIL)
        old = server.config.subsystems[0]
        new = old.model_copy(update={"model": "other"})
        await server.apply(server.config.model_copy(update={"subsystems": (new,)}))
        async with connect(where, **OPTIONS) as a:
            assert a.identify.mn == "other"
            assert await state_of(a) == UNTIL
            await refused(a.namespace(1))


async def test_by_the_administrator(tmp_path: Path) -> None:
    """Through the socket, by command: hosts are notified, and changes by hosts are visible."""
    path = tmp_path / "sock"

    async def do(*words: str) -> tuple[int, str]:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "nvmf.cli.main", "target", *words, "--rpc-socket", str(path)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await program.communicate()
        assert program.returncode is not None
        return program.returncode, out.decode()

    async with serving(tmp_path / "state") as (server, where), connect(where, **OPTIONS) as a:
        administration: asyncio.Future[Administration] = asyncio.Future()
        administration.set_result(Administration(server))
        rpc = RpcSocket(administration, path)
        await rpc.start()
        try:
            words = ("namespace", "protect", NQN)
            said = f"namespace 1 of {NQN} is write protected\n"
            assert await do(*words, "1") == (0, said)
            await refused(a.namespace(1))
            assert "blocks of 512 (write protected)" in (await do("ls"))[1]
            await protect(a, NONE)
            found = json.loads((await do("ls", "-o", "json"))[1])
            assert '"write_protection": "none"' in json.dumps(found)
            status, said = await do(*words, "1", "until-power-cycle", "-o", "json")
            assert (status, json.loads(said)["write_protection"]) == (0, "until-power-cycle")
            assert "(write protected until the target ends)" in (await do("ls"))[1]
            status, said = await do(*words, "1", "none")
            assert status == 1
            assert "write protected until the target is restarted" in said
            status, said = await do(*words, "1", "permanent")
            assert status == 2
            assert "can never be removed. Use --force to confirm" in said
            assert (await do(*words, "1", "permanent", "--force"))[0] == 1  # until-power-cycle
            assert (await do(*words, "9"))[0] == 1
            assert (await do(*words, "1", "sometimes"))[0] == 2
        finally:
            await rpc.close()
