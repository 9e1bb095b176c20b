# SPDX-License-Identifier: BSD-3-Clause
"""Namespaces with store = "mirror": legs that are lost, come back and change, on real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import nvmf.target
from nvmf.config import ConfigError, loads
from nvmf.initiator import ConnectError, ConnectionLost, NvmeError, connect
from nvmf.initiator.base.identity import host_identity
from nvmf.target import ServerError
from support.mirrorlab import (
    clean,
    data_of,
    leg_of,
    leg_text,
    mirror_text,
    remotes,
    state_of,
    until,
)
from support.replicas import files


def page(number: int) -> bytes:
    return number.to_bytes(4, "little") * 1024


async def test_a_leg_that_is_lost_and_comes_back(tmp_path: Path) -> None:
    (local,) = files(tmp_path, 1, 4 << 20)
    async with remotes(tmp_path / "legs") as others:
        legs = [f'path = "{local}"', *(one.leg for one in others)]
        async with nvmf.target.serve(mirror_text(legs)) as target:
            await clean(target, 3)
            async with connect(target.url) as controller:
                disk = controller.namespace(1)
                for n in range(8):
                    await disk.write(n * 128, page(n + 1))
                await others[0].stop()
                for n in range(8, 16):
                    await disk.write(n * 128, page(n + 1))
                await until(lambda: leg_of(target, others[0].name)["state"] == "lost")
                lost = leg_of(target, others[0].name)
                assert lost["reason"]
                assert lost["percent"] < 100
                assert state_of(target)["state"] == "degraded"
                await others[0].start()
                await clean(target, 3)
                assert state_of(target)["losses"] == 1
                assert state_of(target)["resyncs"] >= 1
                for n in range(16):
                    assert await disk.read(n * 128, 8) == page(n + 1)
        for one in others:
            await one.stop()
        assert data_of(local) == data_of(others[0].path) == data_of(others[1].path)
        assert data_of(local)[: 8 * 65536 : 65536] == bytes(range(1, 9))


async def test_the_target_ends_in_the_middle_of_a_resynchronisation(tmp_path: Path) -> None:
    (local,) = files(tmp_path, 1, 8 << 20)
    async with remotes(tmp_path / "legs", size=8 << 20) as others:
        legs = [f'path = "{local}"', *(one.leg for one in others)]
        text = mirror_text(legs, "resync_rate = 65536")
        target = await nvmf.target.serve(text)
        try:
            await clean(target, 3)
            async with connect(target.url, ctrl_loss_tmo=0) as controller:
                disk = controller.namespace(1)
                await others[1].stop()
                for n in range(64):
                    await disk.write(n * 128, page(n + 1))
                await until(lambda: leg_of(target, others[1].name)["state"] == "lost")
                lagging = leg_of(target, others[1].name)["lagging_bytes"]
                assert lagging

                async def load() -> None:
                    while True:  # so that the rate is limited
                        await disk.write(0, page(1))

                loading = asyncio.create_task(load())
                await others[1].start()
                await until(
                    lambda: (
                        0 < leg_of(target, others[1].name)["lagging_bytes"] < lagging
                        and leg_of(target, others[1].name)["state"] == "resynchronising"
                    )
                )
                await target.stop()
                await asyncio.wait([loading], timeout=60)
                assert isinstance(loading.exception(), NvmeError | ConnectionLost | ConnectError)
        finally:
            await target.stop()
        assert data_of(others[1].path) != data_of(local)
        legs.reverse()  # headers say which leg is which
        async with (
            nvmf.target.serve(mirror_text(legs)) as target,
            connect(target.url) as controller,
        ):
            for n in range(64):
                assert await controller.namespace(1).read(n * 128, 8) == page(n + 1)
            await clean(target, 3)
        for one in others:
            await one.stop()
        assert data_of(local) == data_of(others[0].path) == data_of(others[1].path)


async def test_legs_are_replaced_added_and_removed(tmp_path: Path) -> None:
    async with remotes(tmp_path / "legs", 4) as them:
        one, two, three, four = (each.leg for each in them)
        async with (
            nvmf.target.serve(mirror_text([one, two], "quorum = 1")) as target,
            connect(target.url) as controller,
        ):
            await clean(target, 2)
            disk = controller.namespace(1)
            written = 0

            async def write() -> None:
                nonlocal written
                await disk.write(written % 16 * 128, page(written))
                written += 1

            async def load() -> None:
                while True:
                    await write()

            for _ in range(16):
                await write()
            loading = asyncio.create_task(load())
            await target.apply(mirror_text([one, three], "quorum = 1"))  # replaced
            await clean(target, 2)
            assert [leg["name"] for leg in state_of(target)["legs"]] == [them[0].name, them[2].name]
            await target.apply(mirror_text([one, three, four]))  # added
            assert state_of(target)["quorum"] == 2 or len(state_of(target)["legs"]) < 3
            await clean(target, 3)
            assert state_of(target)["quorum"] == 2
            await them[0].stop()
            await target.apply(mirror_text([two, three, four]))  # a lost one is replaced
            await clean(target, 3)
            await target.apply(mirror_text([three, four]))  # removed
            await clean(target, 2)
            before = written
            await until(lambda: written > before + 10 or loading.done())
            loading.cancel()
            await asyncio.wait([loading])
            assert loading.cancelled()  # no command has failed
            last = written
            for n in range(last - 15, last):
                assert await disk.read(n % 16 * 128, 8) == page(n)
        async with nvmf.target.serve(mirror_text([four, three])) as target:
            await clean(target, 2)
        await them[2].stop()
        await them[3].stop()
        assert data_of(them[2].path) == data_of(them[3].path)


async def test_legs_that_cannot_be_used(tmp_path: Path) -> None:
    """Each leg is refused with an error message, and the mirror is unchanged."""
    a, b, c = files(tmp_path, 3, 4 << 20)
    small, full, other = (tmp_path / name for name in ("small", "full", "other"))
    small.write_bytes(bytes(1 << 20))
    full.write_bytes(b"data" * (1 << 20))
    (tmp_path / "more").mkdir()
    more = files(tmp_path / "more", 2, 4 << 20)
    async with nvmf.target.serve(mirror_text([f'path = "{path}"' for path in more])) as target:
        await clean(target, 2)
    other.write_bytes(more[0].read_bytes())
    good = [f'path = "{path}"' for path in (a, b, c)]
    async with (
        nvmf.target.serve(mirror_text(good)) as target,
        connect(target.url) as controller,
    ):
        await clean(target, 3)
        disk = controller.namespace(1)
        for path, words in (
            (small, "it has 1048576 bytes, and the mirror needs"),
            (full, "it has data that is not of a mirror"),
            (other, "it belongs to a different mirror"),
            (tmp_path / "absent", "No such file or directory"),
        ):
            before = path.read_bytes() if path.exists() else b""
            for legs in ([*good, f'path = "{path}"'], [*good[:2], f'path = "{path}"']):
                await disk.write(0, page(len(words)))
                with pytest.raises(ServerError, match=words):
                    await target.apply(mirror_text(legs))
                assert len(target.config.subsystems[0].namespaces[0].legs) == 3
                await clean(target, 3)
                assert await disk.read(0, 8) == page(len(words))
            assert (path.read_bytes() if path.exists() else b"") == before
        with pytest.raises(ServerError, match="not all are blank"):
            await nvmf.target.serve(mirror_text([f'path = "{full}"', f'path = "{small}"']))


async def test_a_remote_leg_that_refuses_this_host(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says at once that the target waits, and why; the leg is not called written."""
    (local,) = files(tmp_path, 1, 4 << 20)
    (tmp_path / "legs").mkdir()
    (theirs,) = files(tmp_path / "legs", 1, 4 << 20)
    private = leg_text(theirs).replace("allow_any_host = true", "allow_any_host = false")
    async with nvmf.target.serve(private) as leg:
        legs = [f'path = "{local}"', f'url = "{leg.url}"']
        with pytest.raises(ServerError, match="legs of a new mirror cannot be opened") as caught:
            await nvmf.target.serve(mirror_text(legs))
    assert "blank" not in str(caught.value)
    (first, *_) = [one.getMessage() for one in caplog.records if "waiting" in one.getMessage()]
    assert "waiting for the legs: legs of a new mirror cannot be opened" in first
    assert f"{leg.url}#1: " in first
    assert not any(local.read_bytes())


async def test_a_remote_leg_that_lists_this_host(tmp_path: Path) -> None:
    """A leg without hostnqn is connected to with the NQN of this machine, each time."""
    local, theirs = files(tmp_path, 2, 4 << 20)
    listed = f'hosts = ["{host_identity().nqn}"]'
    async with nvmf.target.serve(leg_text(theirs).replace("allow_any_host = true", listed)) as leg:
        legs = [f'path = "{local}"', f'url = "{leg.url}"']
        for _ in range(2):
            async with nvmf.target.serve(mirror_text(legs)) as target:
                await clean(target, 2)


async def test_a_leg_that_was_removed_or_set_back(tmp_path: Path) -> None:
    a, b, c = files(tmp_path, 3, 4 << 20)
    legs = [f'path = "{path}"' for path in (a, b, c)]
    async with (
        nvmf.target.serve(mirror_text(legs)) as target,
        connect(target.url) as controller,
    ):
        await clean(target, 3)
        disk = controller.namespace(1)
        await disk.write(0, page(1))
        await target.apply(mirror_text(legs[1:], "quorum = 1"))
        await clean(target, 2)
        await disk.write(0, page(2))
    old = c.read_bytes()
    async with (
        nvmf.target.serve(mirror_text(legs[1:], "quorum = 1")) as target,
        connect(target.url) as controller,
    ):
        await clean(target, 2)
        await controller.namespace(1).write(128, page(3))
    # a was removed: it is no copy of what was written since, and is not taken for one.
    with pytest.raises(ServerError, match="was removed from this one"):
        await nvmf.target.serve(mirror_text([legs[0], legs[1]], "quorum = 1"))
    c.write_bytes(old)
    async with (
        nvmf.target.serve(mirror_text(legs[1:], "quorum = 1")) as target,
        connect(target.url) as controller,
    ):
        await clean(target, 2)
        disk = controller.namespace(1)
        for _ in range(4):
            assert await disk.read(0, 8) == page(2)
            assert await disk.read(128, 8) == page(3)
        await target.apply(mirror_text(legs))
        await clean(target, 3)
    assert data_of(a) == data_of(b) == data_of(c)


async def test_memory_is_copied_again_when_the_target_starts(tmp_path: Path) -> None:
    (local, more) = files(tmp_path, 2, 4 << 20)
    legs = [f'path = "{local}"', 'ram = "4MiB"', f'path = "{more}"']
    for turn in range(2):
        async with (
            nvmf.target.serve(mirror_text(legs)) as target,
            connect(target.url) as controller,
        ):
            await clean(target, 3)
            disk = controller.namespace(1)
            if turn:
                for _ in range(3):
                    assert await disk.read(64, 8) == page(7)
            await disk.write(64, page(7))
    assert data_of(local) == data_of(more)


@pytest.mark.parametrize(
    ("legs", "more", "said"),
    [
        (['path = "/a"'], "", "needs at least two"),
        (['path = "/a"', 'path = "/a"'], "", "duplicate leg /a"),
        (['path = "/a"', 'path = "/b"'], "quorum = 3", "a quorum of 3 of 2 legs"),
        (['path = "/a"', 'path = "/b"'], 'path = "/c"', "has no path"),
        (['path = "/a"', 'path = "/b"\nram = 4096'], "", "exactly one of path, ram and url"),
        (['path = "/a"', "nsid = 2"], "", "exactly one of path, ram and url"),
        (['path = "/a"', 'path = "/b"\nnsid = 2'], "", "nsid requires url"),
        (['path = "/a"', 'url = "here"'], "", "expected a URL such as"),
    ],
)
def test_a_wrong_configuration(legs: list[str], more: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        loads(mirror_text(legs, more))


def test_legs_of_a_different_store() -> None:
    text = mirror_text(['path = "/a"']).replace('"mirror"', '"ram"\nsize = "1MiB"')
    with pytest.raises(ConfigError, match='leg requires store = "mirror"'):
        loads(text)
