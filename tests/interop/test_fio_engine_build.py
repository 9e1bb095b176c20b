# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof fio-engine`: the engine is built from fio's source, and fio loads it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from nvmf.cli.main import main
from nvmf.paths import fio_engine_path


@pytest.fixture
def source() -> Path:
    """The source of the installed fio, with which the tree was built."""
    build = os.environ.get("NVMF_BUILD_DIR", "")
    cache = Path(build) / "CMakeCache.txt"
    found = cache.exists() and re.search(r"^FIO_SOURCE_DIR:PATH=(.+)$", cache.read_text(), re.M)
    if not found:
        pytest.skip("the tree was built without fio's source")
    return Path(found[1])


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fio: Path) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("NVMF_FIO", str(fio))
    return tmp_path / "data"


def test_build(
    data: Path,
    source: Path,
    fio: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CFLAGS", "-O0 -g0")  # optimising takes most of the time
    assert main(["fio-engine", "path"]) == 1
    assert "run nvmeof fio-engine build" in capfd.readouterr().err
    assert main(["fio-engine", "build", "--fio-source", str(source)]) == 0
    engine = Path(capfd.readouterr().out.strip())
    assert engine.parent == data / "nvmeof"
    assert [one.name for one in engine.parent.iterdir()] == [engine.name]
    assert main(["fio-engine", "path", "-o", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["engine"], engine) == (str(engine), fio_engine_path(found["fio"]))
    help_text = subprocess.run(
        [fio, f"--enghelp={engine}"], capture_output=True, text=True, check=True,
        env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},
    ).stdout  # fmt: skip
    assert "ctrl_loss_tmo" in help_text


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (None, "is not the source of fio: No such file"),
        ("DEF_VER=fio-1.58\n", "is the source of fio-1.58, but the installed fio is fio-"),
        ("", "is the source of an unknown version"),
    ],
)
def test_a_wrong_source(
    data: Path, tmp_path: Path, version: str | None, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    if version is not None:
        (tmp_path / "FIO-VERSION-GEN").write_text(version)
    assert main(["fio-engine", "build", "--fio-source", str(tmp_path)]) == 1
    assert said in capfd.readouterr().err


def test_flags_of_the_environment(
    data: Path, source: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFLAGS", "--no-such-option")
    assert main(["fio-engine", "build", "--fio-source", str(source)]) == 1
    assert "--no-such-option" in capfd.readouterr().err
    assert not list(data.rglob("*.so"))


def test_no_fio(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["fio-engine", "path", "--fio", "/nowhere/fio"]) == 1
    assert "cannot run /nowhere/fio" in capfd.readouterr().err
    assert main(["fio-engine", "path", "--fio", "/bin/echo"]) == 1
    assert "is not fio" in capfd.readouterr().err
