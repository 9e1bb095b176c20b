# SPDX-License-Identifier: BSD-3-Clause
"""The targets that ./dev bench and ./dev demo start for their own use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import connections
from bench.harness import MIB, NQN, HarnessError, Target, configuration, floor_many
from bench.loads import Tree
from nvmf.cli.main import main
from nvmf.engine import bench

CONFIGURATION = configuration("ram", MIB, None)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Replace the folder of the default administration socket for this test."""
    # The path of a socket must be short, and those of test folders are not.
    with tempfile.TemporaryDirectory(prefix="nvmeof-") as name:
        monkeypatch.setenv("RUNTIME_DIRECTORY", name)
        yield Path(name)


def test_commands_for_another_target(tmp_path: Path, runtime: Path) -> None:
    """Without --rpc-socket, `nvmeof target` addresses the machine's own target, not this one."""
    with Target(tmp_path, CONFIGURATION) as target:
        assert main(["target", "namespace", "remove", NQN, "1"]) == 1
        assert not list(runtime.iterdir())
        # it looks for the namespace first
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
    """The failure contains the target's log, which is deleted with its folder."""
    with pytest.raises(HarnessError) as caught, Target(tmp_path, CONFIGURATION):
        raise OSError("it was no use")
    said = str(caught.value)
    assert said.startswith("it was no use\nThe target's log:\n")
    assert f"namespace 1 of {NQN}" in said


def test_connections(tmp_path: Path) -> None:
    """./dev bench --connections, as short as possible: the number of connections, and all its
    rows.
    """
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


def test_busy_queues(tmp_path: Path) -> None:
    """A row of queues that are all busy has its floor, whose connections all take part."""
    (row,) = connections.busy_rows([Tree(None)], 3, 2, 0.1, 1, tmp_path)
    assert (row.queues, row.depth) == (3, 2)
    assert row.run.queue_min_iops > 0
    floor = floor_many(3, 2, 0.1, MIB)
    assert row.floor_iops > 0
    assert 0 < floor["queue_min_iops"] <= floor["queue_max_iops"] < floor["iops"]
    with pytest.raises(HarnessError, match="a depth of 16"):
        floor_many(1, 17, 0.1, MIB)


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_line() -> None:
    """./dev bench --line: no more than the rate of the line passes, and nothing is left behind."""
    words = [sys.executable, "tests/bench/line.py", "--mbit", "400", "--load", "mirror"]
    words += ["--bs", "64k", "--iodepth", "1", "--runtime", "300ms", "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "not permitted" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    rows = {row["system"]: row["figures"] for row in json.loads(done.stdout)["mirror"]}
    assert all(figures["ios"] > 0 for figures in rows.values())
    for copies, system in ((1, "wire of 1"), (3, "wire of 3"), (2, "mirror of 3, quorum 2")):
        passed = rows[system]["ios"] * copies * (64 << 10)
        assert passed <= rows[system]["seconds"] * 50e6 + (256 << 10)  # its rate, and a burst
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert "nvmf-line" not in left.stdout


def test_descriptors(capsys: pytest.CaptureFixture[str]) -> None:
    """Queue counts beyond the process's limit are skipped with a sentence."""
    assert connections.fits(1000, 2000)
    assert not connections.fits(10_000, 10_500)
    assert "10,000 queues take 10," in capsys.readouterr().out
