# SPDX-License-Identifier: BSD-3-Clause
"""nvmeof pmem demo: real targets that are killed; the files that it leaves; its exit status."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvmf.children import bound
from nvmf.cli.main import main
from nvmf.pmem.demo import Check, Outcome
from nvmf.pmem.platform import METHODS


def demo(*args: str) -> int:
    try:
        return main(["pmem", "demo", *args])
    except SystemExit as ending:
        return int(ending.code or 0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on tmpfs: other files are not memory."""
    made = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield made
    made.rmdir()  # nothing may be left in it


@pytest.mark.parametrize("ending", [signal.SIGHUP, signal.SIGKILL])
def test_no_target_survives(folder: Path, ending: signal.Signals) -> None:
    """A closed terminal ends the demonstration in order; its targets end if it is killed."""
    words = [sys.executable, "-m", "nvmf.cli.main", "pmem", "demo", "--dir", str(folder)]
    # nohup, which may have started the tests, would make it ignore SIGHUP
    words = ["env", "--default-signal=HUP", *words]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        pids = wait_for(lambda: children(running.pid))
        running.send_signal(ending)
        assert running.wait(60) in (-ending, 143)
    wait_for(lambda: [1] if not any(Path(f"/proc/{pid}/stat").exists() for pid in pids) else [])
    if ending is signal.SIGKILL:
        for path in folder.iterdir():
            shutil.rmtree(path)


def test_a_child_that_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not run if its parent was gone before the kernel was asked for the signal."""
    words = ["touch", str(tmp_path / "there")]
    with monkeypatch.context() as different:
        different.setattr(os, "getpid", lambda: 1)
        orphan = bound(words)
    subprocess.run(orphan, check=False)
    assert not any(tmp_path.iterdir())
    subprocess.run(bound(words), check=True)
    assert any(tmp_path.iterdir())


def children(pid: int) -> list[int]:
    """Return the targets of a demonstration, when all three are there."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    found = [int(each) for each in path.read_text().split()]
    return found if len(found) == 3 else []


def wait_for(found: Callable[[], list[int]]) -> list[int]:
    for _ in range(1200):
        if what := found():
            return what
        time.sleep(0.05)
    raise AssertionError("it did not happen within 60 s")


def test_demo(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--records", "300", "--runtime", "50ms", "--dir", str(folder), "-o", "json")
    report = tmp_path / "figures.md"
    assert demo(*args, "--report", str(report)) == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert found["good"]
    assert found["records"] >= 300
    assert len(set(found["killed"])) == 2
    assert found["records_without_a_target"] >= 100
    first, second = found["checks"]
    assert 200 <= first["acknowledged"] == first["found"]
    assert 300 <= second["acknowledged"] == second["found"]
    assert [row["method"] for row in found["results"]] == ["floor", *METHODS]
    # a stalled machine may complete no command within the time
    assert found["results"][0]["figures"]["ios"] > 0
    assert [row["system"] for row in found["mirror"]] == [
        *["wire of 1", "wire of 3", "replica", "mirror of 3, quorum 2"]
    ]
    assert not any(row["skipped"] for row in found["mirror"])
    assert [row["system"] for row in found["resync"]] == ["mirror of 3, quorum 2"]
    assert [row["method"] for row in found["log"]] == ["nvme-fua", "write-send"]
    assert [bool(row["assumptions_unmet"]) for row in found["log"]] == [False, True]
    page = report.read_text()
    assert f"--report {report}" in page
    assert "processor" in page
    assert "## A resynchronisation" in page
    for row in found["results"]:
        if row["method"].startswith("write-flush"):
            assert row["skipped"] == "the iwarp device has no FLUSH"
            continue
        assert f"| {row['figures']['percentiles_us']['50']:.1f} |" in page
    for sentence in ("was killed", "without it", "the writer is gone", "was resynchronised"):
        assert sentence in told.err


def test_demo_on_roce(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All methods work there."""
    args = ("--records", "60", "--runtime", "50ms", "--dir", str(folder), "-o", "json")
    report = tmp_path / "figures.md"
    assert demo(*args, "--device", "roce", "--report", str(report)) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["good"]
    assert not any(row["skipped"] for row in found["results"] + found["mirror"])
    assert [row["method"] for row in found["log"]] == [
        *("nvme-fua", "write-send", "write-flush", "write-flush-tail")
    ]
    page = report.read_text()
    assert "--device roce" in page
    assert "on the embedded RoCEv2 device" in page


@pytest.mark.parametrize("bad", ["absent/figures.md", "", "file/figures.md"])
def test_a_report_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    """It is noticed before the demonstration begins."""
    began = []
    monkeypatch.setattr("nvmf.cli.pmem.demo.run", lambda *_, **__: began.append(1))
    (tmp_path / "file").write_text("kept")
    assert demo("--report", str(tmp_path / bad)) == 1
    assert f"cannot write {tmp_path / bad}: " in capsys.readouterr().err
    assert not began


@pytest.mark.parametrize("name", ["new", "old", "pipe", "link"])
def test_a_report_is_not_written_if_the_demonstration_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("nvmf.cli.pmem.demo.run", fail)
    (tmp_path / "old").write_text("kept")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    assert demo("--report", str(tmp_path / name)) == 1
    assert "No space left" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "old", "pipe"]
    assert (tmp_path / "old").read_text() == "kept"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(folder: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "nvmf.cli.main", "pmem", "demo", "--dir", str(folder)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "a log is on all three" in line:
            break
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(listed) == 3
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said
    assert not any(Path("/proc", child).exists() for child in listed)


def test_a_lost_record_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(outcome: Outcome, **_: object) -> None:
        outcome.checks = [Check("first", 10, 10, 0.1), Check("second", 20, 19, 0.1)]

    monkeypatch.setattr("nvmf.cli.pmem.demo.run", run)
    assert demo() == 1
    assert "second: ONLY 19 of 20 acknowledged records" in capsys.readouterr().out


@pytest.mark.parametrize("args", [("--records", "1"), ("--runtime", "0"), ("--bs", "2MiB")])
def test_refused(args: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(*args) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_folder_that_is_not_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo("--dir", str(tmp_path / "missing")) == 1
    said = capsys.readouterr().err
    assert "cannot make three files of 16 MiB" in said
    assert "--dir" in said
    disk = Path("/var/tmp")
    if not _is_tmpfs(disk):
        assert demo("--dir", str(disk)) == 1
        said = capsys.readouterr().err
        assert "its file is not mapped memory" in said
        assert "with --dir" in said


def _is_tmpfs(folder: Path) -> bool:
    """Whether the mount that a folder is on is tmpfs."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    inside = [one for one in mounts if folder.is_relative_to(one[1])]
    return max(inside, key=lambda one: len(one[1]))[2] == "tmpfs"
