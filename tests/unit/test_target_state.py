# SPDX-License-Identifier: BSD-3-Clause
"""Stored state: files that are replaced as a whole, and the generation of the discovery log."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from nvmf.config import loads
from nvmf.target.io.stores import ServerError
from nvmf.target.lasting.generation import FILE, RESERVE, Generation
from nvmf.target.lasting.state import (
    DamagedState,
    make_folder,
    remove,
    state_folder,
    unseal,
    write_atomically,
)
from nvmf.target.service.starting import serve


def early() -> int:
    """A clock that was set back."""
    return 1000


@pytest.mark.feature("generation")
def test_never_back_over_restarts(tmp_path: Path) -> None:
    seen = [0]
    for clock in (early, lambda: 10**12, early, early):
        generation = Generation(tmp_path, clock)
        assert generation.value > seen[-1]
        seen.append(generation.value)
        for _ in range(3):
            assert generation.advance() == seen[-1] + 1
            seen.append(generation.value)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.feature("generation")
def test_the_file_is_ahead_of_the_counter(tmp_path: Path) -> None:
    generation = Generation(tmp_path, early)
    for _ in range(RESERVE + 10):
        assert generation.advance() < int((tmp_path / FILE).read_text())


@pytest.mark.feature("generation")
def test_without_a_folder_the_clock_decides() -> None:
    assert Generation(clock=early).value == 1000
    assert Generation().value > 1_700_000_000_000_000


@pytest.mark.feature("generation")
def test_roll_over(tmp_path: Path) -> None:
    generation = Generation(None, lambda: (1 << 64) - 2)
    assert [generation.advance(), generation.advance()] == [(1 << 64) - 1, 1]


@pytest.mark.parametrize("content", [b"", b"rubbish", b"-1", b"\xff", b"1" * 40, b"\0" * 512])
def test_a_damaged_file_is_named(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert Generation(tmp_path, early).value == 1000
    assert f"{tmp_path / FILE} is damaged" in caplog.text
    assert int((tmp_path / FILE).read_text()) == 1000 + RESERVE


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def nested(path: Path) -> None:
    path.write_text("[" * 200_000)


@pytest.mark.parametrize("make", [pipe, device, folder, huge, nested])
def test_what_is_no_file_of_ours(
    tmp_path: Path, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """A file of a different type in its place does not block, and is named."""
    make(tmp_path / "name.json")
    with pytest.raises(DamagedState, match=r"name\.json (cannot be read|is damaged)"):
        unseal(tmp_path / "name.json", "name", bool, "what it said is not known")
    make(tmp_path / FILE)
    assert Generation(tmp_path, early).value == 1000
    assert f"{FILE} is damaged or unreadable" in caplog.text
    assert (tmp_path / f"{FILE}.damaged-1").exists()


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert Generation(tmp_path, early).advance() == 1001
    assert "cannot be written (No space left on device)" in caplog.text
    assert list(tmp_path.iterdir()) == [], "nothing half-written stays"


# Kills the program at the Nth system call of a write.
KILLED = """
import os, sys
from pathlib import Path
from nvmf.target.lasting.state import write_atomically

left = int(sys.argv[2])
def count(real):
    def call(*args, **options):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), 9)
        return real(*args, **options)
    return call

for name in ("fsync", "replace", "close", "open"):
    setattr(os, name, count(getattr(os, name)))
path = Path(sys.argv[1])
write_atomically(path, b"new" * 1000)
"""


def test_a_write_that_is_killed_leaves_old_or_new(tmp_path: Path) -> None:
    path = tmp_path / "state"
    found = set()
    for call in range(1, 12):
        path.write_bytes(b"old")
        argv = [sys.executable, "-c", KILLED, str(path), str(call)]
        status = subprocess.run(argv, timeout=120, check=False).returncode
        content = path.read_bytes()
        assert content in (b"old", b"new" * 1000)
        found.add((status, content == b"old"))
        if status == 0:
            break
    assert found == {(-9, True), (-9, False), (0, False)}


def test_write_failure_keeps_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    write_atomically(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="Input/output"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("before", [b"old", None])
def test_a_folder_that_is_not_synced_keeps_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None
) -> None:
    """A restarted target must not find a state of which a host was told that it was not stored."""
    path = tmp_path / "state"
    if before is not None:
        write_atomically(path, before)
    real = os.fsync

    def fsync(number: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{number}"):
            raise OSError(5, "Input/output error")
        real(number)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="Input/output"):
        write_atomically(path, b"new")
    assert (path.read_bytes() if path.exists() else None) == before
    assert len(list(tmp_path.iterdir())) == (before is not None)


def test_an_attempt_after_a_failed_sync_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or what a host was told is stored would not survive a power failure."""
    synced: list[Path] = []
    fails = True
    real = os.fsync

    def fsync(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if fails and path.is_dir():
            raise OSError(5, "the disk fails")
        real(fd)
        synced.append(path)

    monkeypatch.setattr(os, "fsync", fsync)
    folder = tmp_path / "reservations"
    path = folder / "one"
    for work in (partial(make_folder, folder), partial(remove, path)):
        fails = True
        with pytest.raises(OSError, match="the disk fails"):
            work()
        fails = False
        synced.clear()
        work()
        assert (folder if work.func is remove else tmp_path) in synced
        path.touch()


def test_which_folder(tmp_path: Path) -> None:
    named, configured = tmp_path / "systemd", tmp_path / "configured" / "deep"
    environment = {"STATE_DIRECTORY": f"{named}:{tmp_path / 'second'}"}
    assert state_folder(None, {}) is None
    assert state_folder(None, environment) == named
    assert state_folder(configured, environment) == configured
    assert configured.is_dir()
    assert named.stat().st_mode & 0o777 == 0o700


async def test_a_server_with_no_folder_to_be_had(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    text = f'[target]\nstate_dir = "{tmp_path}/file/state"\n[[port]]\ntrsvcid = 0\n'
    with pytest.raises(ServerError, match=r"cannot create the state folder .*/file"):
        await serve(loads(text))
