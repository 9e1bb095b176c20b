# SPDX-License-Identifier: BSD-3-Clause
"""Namespaces that are added and removed with their files and devices, which a test controls."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from pathlib import Path

import pytest

from nvmf.config import loads
from nvmf.target.change import presence
from nvmf.target.io.stores import ServerError
from nvmf.target.rpc.registry import Params
from nvmf.target.rpc.whole import get_tree
from nvmf.target.service.administration import Administration
from support.hotplugrig import NQN, PATIENCE, Lab, disks, running


@pytest.mark.feature("hotplug-disk")
async def test_a_namespace_comes_and_goes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    second.touch()
    with caplog.at_level(logging.INFO):
        async with running(disks(first, second)) as lab:
            assert lab.shown == {2}
            identity = lab.server.core.subsystems[NQN].namespaces[2].identity
            first.touch()
            lab.monitor.tell()
            await lab.until(lambda: lab.shown == {1, 2})
            second.rename(tmp_path / "away")
            lab.monitor.tell("remove")
            await lab.until(lambda: lab.shown == {1})
            await lab.until(lambda: lab.engine.stores[0].closed)
            (tmp_path / "away").rename(second)
            lab.monitor.tell()
            await lab.until(lambda: lab.shown == {1, 2})
            assert lab.server.core.subsystems[NQN].namespaces[2].identity == identity
            assert lab.server.config == loads(disks(first, second))
    waits = f"namespace 1 of {NQN}: waiting for {first}: No such file or directory"
    assert caplog.messages.count(waits) == 1
    assert f"namespace 2 of {NQN}: is present" in caplog.messages


async def test_without_hotplug_it_is_an_error(tmp_path: Path) -> None:
    """Opening a missing file fails, as in the real engine."""
    lab = Lab(disks(tmp_path / "none", more=""))
    lab.engine.store_error = OSError(errno.ENOENT, "no such file")
    with pytest.raises(ServerError, match="no such file"):
        await lab.start()
    lab.monitor.close()


@pytest.mark.feature("hotplug-disk")
async def test_a_file_system_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Available namespaces stay, others are waited for, and changes continue meanwhile."""
    monkeypatch.setattr(presence, "STAT_TIMEOUT", 0.05)
    served, other = tmp_path / "served", tmp_path / "other"
    served.touch()
    answers = threading.Event()
    look = presence.Mark.of

    def slowly(path: Path) -> presence.Mark:
        answers.wait(PATIENCE)
        return look(path)

    async with running(disks(served)) as lab:
        monkeypatch.setattr(presence.Mark, "of", slowly)
        other.touch()
        await lab.server.apply(loads(disks(served, other)))
        assert lab.server.away == {other: "its file system does not respond"}
        assert lab.shown == {1}
        threads = threading.active_count()
        await lab.server.look()
        assert threading.active_count() == threads, "one thread waits for one path"
        answers.set()
        lab.monitor.tell()
        await lab.until(lambda: lab.shown == {1, 2})
        answers.clear()
        await lab.server.look()
        assert lab.shown == {1, 2}
    answers.set()


@pytest.mark.feature("hotplug-disk")
async def test_another_in_its_place(tmp_path: Path) -> None:
    """The file was replaced between two checks: hosts see the old one removed and the new one
    added.
    """
    path = tmp_path / "disk"
    path.touch()
    async with running(disks(path)) as lab:
        (tmp_path / "other").touch()
        (tmp_path / "other").rename(path)
        lab.monitor.tell()
        await lab.until(lambda: lab.engine.stores[0].closed)
        await lab.until(lambda: lab.shown == {1})
        assert len(lab.engine.stores) == 2


async def test_one_that_cannot_be_opened_keeps_none_waiting(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    async with running(disks(*paths)) as lab:
        lab.engine.store_error_at = 1
        for path in paths:
            path.touch()
        lab.monitor.tell()
        await lab.until(lambda: lab.shown)
        # Without a further event: a failed attempt is repeated automatically.
        await lab.until(lambda: lab.shown == {1, 2})
        assert lab.server.away == {}


@pytest.mark.feature("hotplug-disk", "resize")
async def test_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block device that grows resizes its namespace, unless that has a size of its own."""
    sizes = [1 << 20]
    monkeypatch.setattr(presence.Mark, "of", lambda path: presence.Mark((1, 2, 3), sizes[0]))
    async with running(disks(tmp_path / "a")) as lab:
        store = lab.engine.stores[0]
        asked: list[int] = []

        def resize(size: int = 0) -> int:
            asked.append(size)
            return 2 << 20

        store.resize = resize
        sizes[0] = 2 << 20
        lab.monitor.tell("change")
        await lab.until(lambda: asked == [0])


async def test_who_removes_a_device_waits_for_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device's queue pairs are released even if other device changes cannot be applied yet."""
    sizes = [1 << 20]
    monkeypatch.setattr(presence.Mark, "of", lambda path: presence.Mark((1, 2, 3), sizes[0]))
    async with running(disks(tmp_path / "a"), "rxe0") as lab:
        await lab.server.look()
        lab.engine.resize_error = OSError(errno.EIO, "it does not say how large it is")
        sizes[0] = 2 << 20
        lab.plug()
        with pytest.raises(ServerError):
            await lab.server.look()
        assert lab.engine.gone == ["rxe0"]


@pytest.mark.feature("hotplug-disk")
async def test_changes_while_it_is_away(tmp_path: Path) -> None:
    """Changes are made to the configuration, and take effect when the file is available."""
    path = tmp_path / "disk"
    async with running(disks(path)) as lab:
        wanted = disks(path, more="hotplug = true\nana_group = 3")
        await lab.server.apply(loads(wanted))
        assert lab.server.config == loads(wanted)
        tree = get_tree(Administration(lab.server), Params())
        (subsystem,) = [one for one in tree["subsystems"] if one["nqn"] == NQN]
        assert subsystem["absent_namespaces"] == [
            {"nsid": 1, "store": "file", "path": str(path), "absent": "No such file or directory"}
        ]
        path.touch()
        lab.monitor.tell()
        await lab.until(lambda: lab.shown == {1})
        assert lab.server.core.subsystems[NQN].group_of(1) == 3
        # Without the key, an unavailable file is an error, and nothing changes.
        path.unlink()
        lab.monitor.tell("remove")
        await lab.until(lambda: not lab.shown)
        lab.engine.store_error = OSError(errno.ENOENT, "no such file")
        with pytest.raises(ServerError, match="no such file"):
            await lab.server.apply(loads(disks(path, more="")))
        assert lab.server.config == loads(wanted)


async def test_two_checks_of_one_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two checks of one path share its thread, and either may be the first to end."""
    looks: list[Path] = []

    def look(path: Path) -> str:
        looks.append(path)
        return "absent"

    monkeypatch.setattr(presence, "_mark", look)
    marks = presence.Marks()
    one, other = await asyncio.gather(marks.of([tmp_path]), marks.of([tmp_path]))
    assert one == other == {tmp_path: "absent"}
    assert looks == [tmp_path]
    assert await marks.of([tmp_path]) == {tmp_path: "absent"}
    assert looks == [tmp_path] * 2
