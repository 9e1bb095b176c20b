# SPDX-License-Identifier: BSD-3-Clause
"""Bad input of the storage lab: an error message; completed measurements are kept, and the run
continues.

Elsewhere: a system that dies (run), a disk that fills (faults), damaged results (run).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from nvmf.lab.describe import load
from nvmf.lab.errors import LabError
from support.storagelab import NULL, READS, SHORT, lab, rounds


def write(folder: Path, *parts: str) -> Path:
    path = folder / "lab.toml"
    path.write_text("".join(parts))
    return path


@pytest.mark.usefixtures("fio", "fio_engine")
@pytest.mark.parametrize(
    ("system", "workload", "sentence"),
    [
        ("", '[[workload]]\nname = "w"\njob_file = "absent.fio"\n', "there is no job file"),
        ('kind = "target"\nconfig = "absent.toml"\n', READS, "there is no configuration"),
        ('kind = "file"\npath = "absent.img"\n', READS, "and no size to make it with"),
        ('kind = "file"\npath = "absent/x"\nsize = "1MiB"\n', READS, "cannot make"),
        ('kind = "target"\ndevice = "tape"\n', READS, "device"),
        (
            'kind = "remote"\nurl = "nvme+rdma://127.0.0.1:1/nqn.2026-11.a:b?device=iwarp"\n',
            READS,
            "cannot use",
        ),
    ],
)
def test_what_does_not_exist(tmp_path: Path, system: str, workload: str, sentence: str) -> None:
    head = f'[[system]]\nname = "a"\n{system}' if system else NULL
    done = lab("run", write(tmp_path, head, workload, SHORT), "-d", tmp_path / "out")
    assert done.returncode == 1
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_file_or_profile_that_does_not_exist(tmp_path: Path) -> None:
    assert "No such file" in lab("run", tmp_path / "absent.toml").stderr
    assert "there is no profile" in lab("run", "--profile", "absent").stderr
    some = write(tmp_path, NULL, "", "")
    done = lab("check", some, "--profile", "absent")
    assert done.returncode == 2
    assert "check: there is no profile 'absent': quick, " in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(LabError, match="there is no profile 'absent'"):
        load(some, "absent")
    assert "is not a results directory" in lab("run", "--resume", tmp_path).stderr


@pytest.mark.usefixtures("fio_engine")
def test_fio_is_killed_once_and_the_run_goes_on(tmp_path: Path, fio: Path) -> None:
    """The failure is kept with its sentence; --resume measures only that again."""
    killed = tmp_path / "fio"
    killed.write_text(
        f'#!/bin/sh\ncase "$*" in *r001*iodepth=4*) kill -9 $$ ;; esac\nexec {fio} "$@"\n'
    )
    killed.chmod(0o755)
    out = tmp_path / "out"
    path = write(tmp_path, NULL, READS, SHORT)
    done = lab("run", path, "-d", out, env={"NVMF_FIO": str(killed)})
    assert done.returncode == 1
    assert "fio was killed by SIGKILL" in done.stderr
    before = rounds(out)
    assert len(before) == 4
    assert [bool(row["error"]) for row in before].count(True) == 1
    done = lab("run", "--resume", out)
    assert done.returncode == 0, done.stderr
    after = {row["fio"]: row for row in rounds(out)}
    assert [row["error"] for row in after.values()] == [None] * 4
    for row in before:
        if row["error"] is None:
            assert after[row["fio"]] == row


@pytest.mark.usefixtures("fio", "fio_engine")
def test_results_of_a_different_version_go_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert lab("run", write(tmp_path, NULL, READS, SHORT), "-d", out).returncode == 0
    before = {row["fio"]: row["iops"] for row in rounds(out)}
    with sqlite3.connect(out / "results.sqlite") as database:
        database.execute("PRAGMA user_version = 1")
        database.execute("DROP TABLE latency")
    database.close()
    said = lab("report", out).stderr
    assert "has format 1" in said
    assert "--resume" in said
    done = lab("run", "--resume", out, "--quiet")
    assert done.returncode == 0, done.stderr
    assert (out / "results.sqlite.damaged-1").is_file()
    assert {row["fio"]: row["iops"] for row in rounds(out)} == before


@pytest.mark.usefixtures("fio", "fio_engine")
def test_fio_is_gone_when_a_run_is_continued(tmp_path: Path) -> None:
    out = tmp_path / "out"
    path = write(tmp_path, NULL, READS, SHORT)
    assert lab("run", path, "-d", out, "--rounds", "1").returncode == 0
    before = rounds(out)
    done = lab("run", "--resume", out, env={"NVMF_FIO": str(tmp_path / "absent")})
    assert done.returncode == 1
    assert "cannot run" in done.stderr
    assert rounds(out) == before


@pytest.mark.usefixtures("fio", "fio_engine")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (None, "cannot run"),
        ("echo fio-2.1", "the lab needs 3.28 or later"),
        ("echo hello", "is not fio"),
        ('[ "$1" = --version ] && echo fio-3.33 || kill -9 $$', "fio was killed by SIGKILL"),
        ('[ "$1" = --version ] && echo fio-3.33 || { echo boom; exit 7; }', "status 7: boom"),
        ('[ "$1" = --version ] && echo fio-3.33 || true', "fio wrote no valid JSON"),
    ],
)
def test_bad_fio(tmp_path: Path, script: str | None, words: str) -> None:
    program = tmp_path / "fio"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    path = write(tmp_path, NULL, READS, SHORT)
    done = lab("run", path, "-d", tmp_path / "out", env={"NVMF_FIO": str(program)})
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
