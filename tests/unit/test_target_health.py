# SPDX-License-Identifier: BSD-3-Clause
"""The counters of SMART logs over the lifetime of a subsystem, and their storage."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from nvmf.config import loads
from nvmf.spec import commands
from nvmf.spec.logs import SmartLog
from nvmf.spec.opcodes import LogId
from nvmf.target.io.stores import ServerError
from nvmf.target.lasting import health, healthkeeper
from nvmf.target.lasting.health import SubsystemHealth
from nvmf.target.lasting.healthkeeper import FILE, HealthKeeper
from nvmf.target.lasting.state import seal, write_atomically
from nvmf.target.service.server import Server
from nvmf.target.service.starting import Starting, serve
from support.fakeengine import FakeEngine
from support.faketarget import HOST, Bench, FakeNamespace

NQN = "nqn.2014-08.org.example:health"
ONE, TWO = UUID(int=1), UUID(int=2)
HOURS = 3600.0


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def traffic(**counts: int) -> FakeNamespace:
    return FakeNamespace(dict(counts))


def smart(bench: Bench, hostnqn: str = HOST, nsid: int = 0xFFFFFFFF) -> SmartLog:
    sqe = commands.get_log_page(LogId.SMART, 512, nsid=nsid)
    return SmartLog.decode(bench.do(bench.admin(hostnqn=hostnqn), sqe, length=512).data)


# ---- counters ----


def test_what_counts_as_what() -> None:
    """NVM Command Set 1.0: Compare and Verify count read units, Copy written ones."""
    engine = traffic(reads=3, compares=2, verifies=5, writes=7, write_zeroes=11, read_bytes=1000,
                     checked_bytes=200, write_bytes=40, media_errors=1, errors=9, copies=4,
                     copied_bytes=30)  # fmt: skip
    assert health.smart_counts(engine) == {
        "read_bytes": 1200, "write_bytes": 70, "reads": 9, "writes": 11, "media_errors": 1,
    }  # fmt: skip


def test_a_namespace_that_goes_stays_in_the_sum() -> None:
    life = SubsystemHealth()
    old, new = traffic(reads=3), traffic(reads=4)
    life.come(ONE, old, masked=False)
    life.come(ONE, new, masked=False)
    assert life.of(ONE)["reads"] == 7, "one takes the place of the other"
    life.went(ONE, old)
    old.stats["reads"] = 100
    life.went(ONE, old)
    assert life.of(ONE)["reads"] == 7
    life.went(ONE, new)
    assert life.totals(())["reads"] == 7
    life.come(ONE, traffic(reads=5), masked=False)
    assert life.of(ONE)["reads"] == 12, "and counts on when it comes back"
    assert life.of(TWO) == {}


def test_a_masked_one_is_in_nobody_elses_sum() -> None:
    life = SubsystemHealth()
    engine = traffic(reads=3)
    life.come(ONE, engine, masked=True)
    life.come(TWO, traffic(reads=1), masked=False)
    assert life.totals({TWO})["reads"] == 1
    assert life.totals({ONE, TWO})["reads"] == 4
    life.went(ONE, engine)
    assert life.totals({TWO})["reads"] == 1


def test_many_that_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "ABSENT_MOST", 3)
    life = SubsystemHealth()
    for number in range(10):
        engine = traffic(reads=1)
        life.come(UUID(int=number), engine, masked=number % 2 == 0)
        life.went(UUID(int=number), engine)
    assert len(life.spaces) == 3
    assert life.gone["reads"] == 3, "those that were not masked"
    assert life.totals(())["reads"] == 5


def test_busy_time() -> None:
    life = SubsystemHealth()
    one, two = traffic(busy=0), traffic(busy=0)
    life.power_on(0.0)
    life.come(ONE, one, masked=False)
    life.come(TWO, two, masked=False)
    one.stats["busy"] = two.stats["busy"] = 50 * 10**9
    life.look(100.0)
    assert life.busy_seconds == pytest.approx(75.0), "two halves by chance"
    one.stats["busy"] += 200 * 10**9
    life.look(200.0)
    assert life.busy_seconds == pytest.approx(175.0), "never more than the time"
    life.look(200.0)
    life.look(300.0)
    assert life.busy_seconds == pytest.approx(175.0)
    assert life.on_seconds == 300.0
    life.power_off(301.0)
    life.look(999.0)
    assert life.on_seconds == 301.0


def test_busy_until_the_end(clock: Clock) -> None:
    """For a namespace used until the engine ends, the time since the last check counts as well."""
    keeper, engine = HealthKeeper(None, clock), traffic(busy=0)
    keeper.power_on("nqn")
    keeper.subsystem("nqn").come(ONE, engine, masked=False)
    clock.now += 100
    engine.stats["busy"] = 50 * 10**9
    keeper.end()
    assert keeper.look("nqn").busy_seconds == pytest.approx(50.0)


def test_the_log_of_a_host() -> None:
    bench = Bench()
    space = bench.add_namespace()
    hidden = bench.add_namespace(2)
    for each, reads in ((space, 3), (hidden, 10)):
        assert isinstance(each.engine, FakeNamespace)
        each.engine.stats = {"reads": reads, "read_bytes": 512_000 * reads}
    bench.subsystem.change({2: (hidden, frozenset({f"{HOST}2"}))})
    bench.subsystem.health.power_cycles = 7
    bench.subsystem.health.on_seconds = 2.5 * HOURS
    bench.subsystem.health.busy_seconds = 179.0
    bench.subsystem.health.unsafe_shutdowns = 2
    found = smart(bench)
    assert (found.host_read_commands, found.data_units_read) == (3, 3)
    assert smart(bench, f"{HOST}2").host_read_commands == 13
    assert smart(bench, f"{HOST}2", nsid=2).host_read_commands == 10
    assert (found.power_cycles, found.power_on_hours, found.controller_busy_time) == (7, 2, 2)
    assert found.unsafe_shutdowns == 2


# ---- after a restart of the target ----


async def test_a_life_over_runs(tmp_path: Path, clock: Clock) -> None:
    keeper = HealthKeeper(tmp_path, clock)
    engine = traffic(reads=3, write_bytes=4096)
    keeper.power_on(NQN)
    keeper.subsystem(NQN).come(ONE, engine, masked=True)
    assert await keeper.save()
    assert not await keeper.save(), "nothing has changed"
    clock.now += 1
    assert not await keeper.save(), "a second is not worth a write"
    clock.now += HOURS
    assert await keeper.save(), "an hour is"
    engine.stats["reads"] = 5
    assert await keeper.save()

    crashed = HealthKeeper(tmp_path, clock).subsystem(NQN)
    assert (crashed.power_cycles, crashed.unsafe_shutdowns, crashed.on) == (1, 1, False)
    assert crashed.of(ONE)["reads"] == 5
    assert crashed.spaces[ONE].masked

    keeper.end()
    await keeper.close()
    again = HealthKeeper(tmp_path, clock)
    life = again.subsystem(NQN)
    assert (life.power_cycles, life.unsafe_shutdowns, life.on_seconds) == (1, 0, 1 + HOURS)
    again.power_on(NQN)
    again.power_on(NQN)
    assert life.power_cycles == 2
    life.come(ONE, traffic(reads=1), masked=False)
    assert life.of(ONE) == {
        "read_bytes": 0, "write_bytes": 4096, "reads": 6, "writes": 0, "media_errors": 0
    }  # fmt: skip


async def test_without_a_folder(clock: Clock) -> None:
    keeper = HealthKeeper(None, clock)
    keeper.power_on(NQN)
    keeper.stir()
    assert not await keeper.save()
    assert keeper.look(NQN).power_cycles == 1
    await keeper.close()


async def test_subsystems_that_were_removed(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healthkeeper, "SUBSYSTEMS_MOST", 2)
    keeper = HealthKeeper(tmp_path, clock)
    for number in range(5):
        keeper.power_on(f"{NQN}{number}")
    for number in range(4):
        keeper.power_off(f"{NQN}{number}")
    await keeper.save()
    body = json.loads((tmp_path / FILE).read_bytes())["health"]["subsystems"]
    assert list(body) == [f"{NQN}2", f"{NQN}3", f"{NQN}4"]
    assert [one["on"] for one in body.values()] == [False, False, True]


def newer(text: str) -> str:
    body = {"format": 2, "subsystems": {}}
    return seal("health", body).decode()


def wrong(text: str) -> str:
    return text.replace('"power_cycles": 1', '"power_cycles": 2')


DAMAGES: list[tuple[Callable[[str], str], str]] = [
    (lambda text: "", "Expecting value"),
    (lambda text: text[: len(text) // 2], "Unterminated|Expecting|delimiter"),
    (lambda text: "\0" * len(text), "Expecting value"),
    (lambda text: "[]", "list indices"),
    (lambda text: "{}", "'health'"),
    (wrong, "its CRC is wrong"),
    (newer, "its format is 2, not 1"),
    (lambda text: seal("health", {"format": 1, "subsystems": {NQN: {}}}).decode(),
     "has no busy_seconds"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "why"), DAMAGES)
async def test_a_damaged_file_is_set_aside(
    tmp_path: Path,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[str], str],
    why: str,
) -> None:
    keeper = HealthKeeper(tmp_path, clock)
    keeper.power_on(NQN)
    await keeper.save()
    path = tmp_path / FILE
    damaged = damage(path.read_text())
    for number in (1, 2):
        path.write_text(damaged)
        caplog.clear()
        again = HealthKeeper(tmp_path, clock)
        assert again.subsystem(NQN).power_cycles == 0
        assert f"{path} is damaged (" in caplog.text
        assert f"start at zero; it was renamed to {FILE}.damaged-{number}" in caplog.text
        assert (tmp_path / f"{FILE}.damaged-{number}").read_text() == damaged
        again.power_on(NQN)
        assert await again.save()
    assert HealthKeeper(tmp_path, clock).subsystem(NQN).power_cycles == 1
    assert any(word in caplog.text for word in why.split("|")), caplog.text


async def test_a_damaged_file_that_cannot_be_moved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    path = tmp_path / FILE
    path.write_text("rubbish")
    monkeypatch.setattr("os.rename", refuse)
    keeper = HealthKeeper(tmp_path)
    keeper.power_on(NQN)
    assert not await keeper.save()
    assert "cannot be renamed (Read-only file system)" in caplog.text
    assert path.read_text() == "rubbish", "and is not overwritten"


async def test_a_full_disk_is_said_once(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    room = False

    def write(path: Path, data: bytes) -> None:
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_atomically(path, data)

    monkeypatch.setattr(healthkeeper, "write_atomically", write)
    keeper = HealthKeeper(tmp_path, clock)
    keeper.power_on(NQN)
    for _ in range(3):
        assert await keeper.save(), "it is tried again, though nothing has changed since"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert f"{tmp_path / FILE} cannot be written (No space left on device)" in said[0]
    room = True
    assert await keeper.save()
    assert not await keeper.save()
    assert caplog.records[-1].getMessage() == f"{tmp_path / FILE} can be written again"
    assert HealthKeeper(tmp_path, clock).subsystem(NQN).power_cycles == 1


async def until(true: Callable[[], bool]) -> None:
    for _ in range(6000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not happen")


async def test_it_is_written_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healthkeeper, "SAVE_EVERY", 0.01)
    keeper = HealthKeeper(tmp_path)
    engine = traffic(reads=1)
    keeper.power_on(NQN)
    keeper.subsystem(NQN).come(ONE, engine, masked=False)
    keeper.stir()
    now = asyncio.get_running_loop().time
    await until(lambda: keeper._timer is not None and keeper._timer.when() - now() > 9)
    assert HealthKeeper(tmp_path).subsystem(NQN).of(ONE)["reads"] == 1, "and then it rests"
    engine.stats["reads"] = 2
    keeper.stir()
    await until(lambda: HealthKeeper(tmp_path).subsystem(NQN).of(ONE)["reads"] == 2)
    await keeper.close()
    assert keeper._timer is None


# ---- in the server ----


def serving(folder: Path, engine: Any) -> Starting[Server]:
    text = f'[target]\nstate_dir = "{folder}"\n[[port]]\ntrsvcid = 0\ndevice = "iwarp"\n'
    text += f'[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n'
    text += '[[subsystem.namespace]]\nstore = "ram"\nsize = "1MiB"\n'
    return serve(loads(text), engine=engine)


async def test_runs_of_a_server(tmp_path: Path) -> None:
    for run in (1, 2, 3):
        engine = FakeEngine()
        server = await serving(tmp_path, engine)
        life = server.health.subsystem(NQN)
        assert (life.power_cycles, life.unsafe_shutdowns, life.on) == (run, 0, True)
        assert '"on": true' in (tmp_path / FILE).read_text(), "a crash would be known for one"
        engine.namespaces[0].stats = {"reads": 10}
        await server.stop()
        assert server.health.subsystem(NQN).totals(())["reads"] == 10 * run
        assert '"on": false' in (tmp_path / FILE).read_text()


async def test_a_subsystem_that_goes_and_comes_back(tmp_path: Path) -> None:
    engine = FakeEngine()
    async with serving(tmp_path, engine) as server:
        engine.namespaces[0].stats = {"writes": 4}
        with_it = server.config
        await server.apply(with_it.model_copy(update={"subsystems": ()}))
        assert '"on": false' in (tmp_path / FILE).read_text()
        await server.apply(with_it)
        life = server.health.subsystem(NQN)
        assert (life.power_cycles, life.unsafe_shutdowns) == (2, 0)
        assert life.totals(())["writes"] == 4
        assert server.core.subsystems[NQN].health is life


async def test_a_start_that_fails_is_no_power_cycle(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.listen_errors["iwarp"] = OSError(errno.EADDRINUSE, "Address already in use")
    with pytest.raises(ServerError):
        await serving(tmp_path, engine)
    assert HealthKeeper(tmp_path).subsystem(NQN).power_cycles == 0
    assert HealthKeeper(tmp_path).subsystem(NQN).unsafe_shutdowns == 0
