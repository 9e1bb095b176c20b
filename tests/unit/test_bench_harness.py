# SPDX-License-Identifier: BSD-3-Clause
"""The target that ./dev bench and ./dev demo make for themselves."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import connections
from bench.harness import MIB, NQN, HarnessError, Target, configuration
from nvmf.cli.main import main
from nvmf.engine import bench

CONFIGURATION = configuration("ram", MIB, None)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the usual socket for administration is, for this test alone."""
    # The path of a socket is short, and those of folders of tests are not.
    with tempfile.TemporaryDirectory(prefix="nvmeof-") as name:
        monkeypatch.setenv("RUNTIME_DIRECTORY", name)
        yield Path(name)


def test_commands_for_another_target(tmp_path: Path, runtime: Path) -> None:
    """`nvmeof target` without a socket is for the machine's own target: this one is left alone."""
    with Target(tmp_path, CONFIGURATION) as target:
        assert main(["target", "namespace", "remove", NQN, "1"]) == 1
        assert not list(runtime.iterdir())
        # which looks for the namespace before anything else
        bench(
            traddr=target.address,
            trsvcid=str(target.port),
            subnqn=NQN,
            rw="randread",
            block_size=4096,
            queue_depth=1,
            seconds=0.1,
        )


def test_failure_tells_the_log(tmp_path: Path, runtime: Path) -> None:
    """What the target has to say of it would be gone with its folder."""
    with pytest.raises(HarnessError) as caught, Target(tmp_path, CONFIGURATION):
        raise OSError("it was no use")
    said = str(caught.value)
    assert said.startswith("it was no use\nThe target's log:\n")
    assert f"namespace 1 of {NQN}" in said


def test_connections(tmp_path: Path) -> None:
    """./dev bench --connections, as short as it can be: what was connected, and all of its rows."""
    out = tmp_path / "rows.json"
    program = Path(connections.__file__)
    words = ["--counts", "1,130", "--repeat", "1", "--seconds", "0.1", "--json", str(out)]
    done = subprocess.run(
        [sys.executable, str(program), *words, "--only", "idle"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert [(row["queues"], row["depth"]) for row in rows] == [(1, 1), (1, 32), (130, 1), (130, 32)]
    assert all(row["connect_seconds"] > 0 and "p99_us" in row["run"] for row in rows)


def test_descriptors(capsys: pytest.CaptureFixture[str]) -> None:
    """Too many queues for a process are left out with a sentence, and not begun."""
    assert connections.fits(1000, 2000)
    assert not connections.fits(10_000, 10_500)
    assert "10,000 queues take 10," in capsys.readouterr().out
