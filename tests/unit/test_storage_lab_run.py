# SPDX-License-Identifier: BSD-3-Clause
"""The storage lab with a real fio: runs, interruptions, failures."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from nvmf.lab.errors import LabError
from nvmf.lab.store import Results
from support.storagelab import (
    NULL,
    RAM,
    READS,
    SHORT,
    WRITES,
    lab,
    rounds,
    started,
    wait_for_rounds,
    write,
)

pytestmark = pytest.mark.usefixtures("fio", "fio_engine")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_continues(tmp_path: Path, number: signal.Signals, status: int) -> None:
    path, out = write(tmp_path, RAM, READS, SHORT), tmp_path / "out"
    process = started("run", path, "-d", out)
    wait_for_rounds(out, 1, process)
    with pytest.raises(LabError, match="is using"):
        Results.open(out, write=True)
    process.send_signal(number)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == status, said
    assert f"nvmeof lab run --resume {out}" in said
    before = rounds(out)
    assert 1 <= len(before) < 4
    done = lab("run", "--resume", out)
    assert done.returncode == 0, done.stderr
    after = rounds(out)
    assert after[: len(before)] == before
    assert len(after) == 4


def test_a_killed_lab_keeps_its_measurements(tmp_path: Path) -> None:
    path, out = write(tmp_path, NULL, READS, SHORT), tmp_path / "out"
    process = started("run", path, "-d", out)
    wait_for_rounds(out, 1, process)
    process.kill()
    process.communicate()
    assert lab("run", "--resume", out).returncode == 0
    assert len(rounds(out)) == 4


def test_a_system_that_dies_does_not_stop_the_others(tmp_path: Path) -> None:
    path, out = write(tmp_path, RAM, NULL, READS, SHORT), tmp_path / "out"
    process = started("run", path, "-d", out, "--rounds", "6")
    wait_for_rounds(out, 2, process)
    target = next(
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and str(out).encode() in _command(entry)
        and b"serve" in _command(entry)
    )  # fmt: skip
    os.kill(target, signal.SIGKILL)
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 1
    assert "the target of system ram was killed by SIGKILL" in said
    rows = rounds(out)
    assert len([row for row in rows if row["system"] == "alone"]) == 12
    assert any(row["error"] for row in rows if row["system"] == "ram")


def test_nothing_outlives_a_killed_lab_and_its_file_is_its_own(tmp_path: Path) -> None:
    """The target and fio end, and the run continues on the file that it made."""
    disk, out = tmp_path / "new", tmp_path / "out"
    system = f'[[system]]\nname = "d"\nkind = "target"\nstore = "file"\npath = "{disk}"\n'
    path = write(tmp_path, system, 'size = "4MiB"\n', WRITES, SHORT)
    process = started("run", path, "-d", out, "--rounds", "4")
    wait_for_rounds(out, 1, process)
    process.kill()
    process.communicate()
    late = time.monotonic() + 60
    while left := _others(out):
        assert time.monotonic() < late, left
        time.sleep(0.05)
    assert disk.read_bytes()[:4096] != bytes(4096)
    try:
        os.setxattr(disk, "user.test", b"1")
    except OSError:
        pytest.skip("the file system of the test has no attributes")
    done = lab("run", "--resume", out)
    assert done.returncode == 0, done.stderr
    assert len(rounds(out)) == 4
    assert not disk.exists()


def _others(out: Path) -> list[bytes]:
    """Processes that belong to a run."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (
                str(out).encode() in _command(entry) or (entry / "cwd").readlink() == out / "fio"
            ):
                found.append(_command(entry))
    return found


def _command(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def test_data_are_not_overwritten_unless_named(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"precious" + bytes((1 << 20) - 8))
    system = f'[[system]]\nname = "d"\nkind = "file"\npath = "{disk}"\nengine = "psync"\n'
    path = write(tmp_path, system, "direct = false\n", WRITES, SHORT)
    done = lab("run", path, "-d", tmp_path / "one")
    assert done.returncode == 1
    assert f"{disk} is not written to, because it has data" in done.stderr
    assert "--overwrite" in done.stderr
    assert disk.read_bytes()[:8] == b"precious"
    reads = write(tmp_path, system, "direct = false\n", READS, SHORT)
    assert lab("run", reads, "-d", tmp_path / "two").returncode == 0
    assert disk.read_bytes()[:8] == b"precious"
    path = write(tmp_path, system, "direct = false\n", WRITES, SHORT)
    done = lab("run", path, "-d", tmp_path / "three", "--overwrite", disk)
    assert done.returncode == 0, done.stderr
    assert disk.read_bytes()[:8] != b"precious"


def test_files_of_the_run_are_removed(tmp_path: Path) -> None:
    disk = tmp_path / "new"
    system = f'[[system]]\nname = "d"\nkind = "target"\nstore = "file"\npath = "{disk}"\n'
    path = write(tmp_path, system, 'size = "4MiB"\n', WRITES, SHORT)
    done = lab("run", path, "-d", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert not disk.exists()


def test_set_up_and_tear_down(tmp_path: Path) -> None:
    log = tmp_path / "log"
    commands = f'setup = "echo up >> {log}"\nteardown = "echo down >> {log}"\n'
    path = write(tmp_path, NULL, commands, READS, SHORT)
    assert lab("run", path, "-d", tmp_path / "out").returncode == 0
    assert log.read_text() == "up\ndown\n"
    path = write(tmp_path, NULL, 'setup = "echo no disk; exit 4"\n', READS, SHORT)
    done = lab("run", path, "-d", tmp_path / "two")
    assert done.returncode == 1
    assert "set-up failed with status 4: no disk" in done.stderr


def test_methods_of_persistence_are_systems(tmp_path: Path) -> None:
    """Methods of remote memory work too: the target of the lab exports its namespace."""
    systems = [
        f'[[system]]\nname = "{method}"\nkind = "target"\nsize = "4MiB"\n'
        f'options = {{ method = "{method}", ignore_assumptions = 1 }}\n'
        for method in ("floor", "write-send", "nvme-write-flush")
    ]
    path = write(tmp_path, *systems, WRITES, SHORT)
    done = lab("run", path, "-d", tmp_path / "out", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    rows = rounds(tmp_path / "out")
    assert {row["system"] for row in rows} == {"floor", "write-send", "nvme-write-flush"}
    for row in rows:
        assert row["error"] is None
        assert row["ios"] > 0
