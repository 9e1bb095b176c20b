# SPDX-License-Identifier: BSD-3-Clause
"""The shipped examples and profiles of the storage lab: each runs in its short form."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nvmf.lab.describe import load
from nvmf.lab.model import Lab, RemoteSystem, TargetSystem
from nvmf.lab.profiles import PROFILES
from nvmf.lab.serving import NQN, Target, configuration
from nvmf.lab.short import shortened
from nvmf.lab.store import Results
from support.storagelab import lab, rounds

pytestmark = pytest.mark.usefixtures("fio", "fio_engine")

EXAMPLES = Path(__file__).resolve().parents[2] / "config" / "examples" / "lab"
HERE = ("file", "path-loss", "persistence", "replication", "stores", "wire")
"""Examples for this machine, without an RDMA device of the system; regression is in the gate."""
FEWER = {
    "persistence": (
        ('bs = ["512", "4k", "64k"]', 'bs = "512"'),
        ("iodepth = [1, 8]", "iodepth = 8"),
    ),
    "replication": (
        ('bs = ["4k", "128k"]', 'bs = "4k"'),
        ("iodepth = [1, 8]", "iodepth = 8"),
        (
            '[[system]]\nname = "mirror-3-quorum-3"\nkind = "target"\nstore = "mirror"\n'
            'quorum = 3\nsize = "64MiB"\n',
            "",
        ),
        ('size = "64MiB"', 'size = "16MiB"'),
    ),
    "stores": (("iodepth = [1, 8, 32]", "iodepth = 8"),),
}
"""Parts of examples, so that their test is short."""
PICTURES = {
    "four-corners": {"latency", "time", "heat"},
    "snia-iops": {"size", "latency", "time", "heat"},
    "snia-throughput": {"size", "latency", "time", "heat"},
    "snia-latency": {"size", "latency", "time", "heat"},
    "mixed": {"depth", "size", "latency", "time", "heat"},
    "latency-under-load": {"depth", "latency", "time", "heat"},
    "scaling": {"depth", "jobs", "latency", "time", "heat"},
    "endurance": {"latency", "time", "heat"},
}


def complete(out: Path, description: Lab) -> None:
    """Each system and load was measured."""
    found = rounds(out)
    assert [row["error"] for row in found] == [None] * len(found)
    assert {row["system"] for row in found} == {one.name for one in description.systems}
    assert len({row["workload"] for row in found}) == len(description.workloads)
    assert all(row["ios"] > 0 for row in found)


@pytest.mark.parametrize("name", HERE)
def test_an_example(tmp_path: Path, name: str) -> None:
    text = (EXAMPLES / f"{name}.toml").read_text().replace("/var/tmp", str(tmp_path))
    for before, after in FEWER.get(name, ()):
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    done = lab("run", path, "--try", "-d", tmp_path / "out", "--quiet")
    assert done.returncode == 0, done.stderr
    complete(tmp_path / "out", load(path))
    if name in ("file", "stores"):
        assert not list(tmp_path.glob("*.img")), "files of the run are removed"


def test_two_remote_targets(tmp_path: Path) -> None:
    """remote.toml, with targets on this machine, and a profile."""
    text = (EXAMPLES / "remote.toml").read_text()
    served: list[Target] = []
    try:
        for number in (1, 2):
            config = tmp_path / f"{number}.toml"
            system = {"name": "x", "kind": "target", "size": "16MiB"}
            config.write_text(configuration(TargetSystem.model_validate(system), None))
            target = Target(str(number), config, tmp_path / "log")
            served.append(target)
            text = re.sub(
                rf"nvme\+rdma://192\.0\.2\.{number}:4420/[^\"]*",
                f"nvme+rdma://{target.traddr}:{target.trsvcid}/{NQN}?device=iwarp",
                text,
            )
        path = tmp_path / "remote.toml"
        path.write_text(text)
        description = load(path, "four-corners")
        assert all(isinstance(one, RemoteSystem) for one in description.systems)
        words = ("--profile", "four-corners", "--try", "-d", tmp_path / "out", "--quiet")
        done = lab("run", path, *words)
        assert done.returncode == 0, done.stderr
        complete(tmp_path / "out", description)
    finally:
        for target in served:
            target.close()


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_a_profile_and_its_pictures(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    from nvmf.lab.report import Report

    assert {*PICTURES, "quick"} == set(PROFILES)
    path = tmp_path / "lab.toml"
    path.write_text(
        f'[[system]]\nname = "disk"\nkind = "file"\npath = "{tmp_path}/disk"\nsize = "16MiB"\n'
        'engine = "psync"\ndirect = false\n'
    )
    out = tmp_path / "out"
    done = lab("run", path, "--profile", name, "--try", "-d", out, "--quiet")
    assert done.returncode == 0, done.stderr
    complete(out, load(path, name))
    with Results.open(out) as results:
        page = Report(results).html()
    found = re.findall(r'<figure id="([a-z]+)-?', page)
    assert set(found) == {*PICTURES[name], "processors"}
    for kind in ("latency", "time"):
        assert found.count(kind) == len({row["load"] for row in rounds(out)})


def test_the_nightly_gate(tmp_path: Path) -> None:
    """The gate's first run is the baseline; the second is compared with it."""
    pytest.importorskip("scipy")
    env = {**os.environ, "NVMEOF": f"{sys.executable} -m nvmf.cli.main"}
    said = []
    for _ in range(2):
        done = subprocess.run(
            ["sh", EXAMPLES / "nightly.sh", tmp_path / "nights", "--try"],
            capture_output=True,
            text=True,
            env=env,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert (tmp_path / "nights" / "baseline" / "report.html").is_file()
    assert "rand-read" not in said[0]
    assert "too few rounds" in said[1]


def test_the_short_form() -> None:
    """Faults keep their share of a measurement; lists keep their ends."""
    data = {
        "method": {"runtime": 8, "ramp": 2, "rounds": 7, "size": 1 << 30},
        "system": [
            {
                "name": "a",
                "kind": "target",
                "size": 1 << 30,
                "fault": [{"kind": "lost", "begin": 4, "seconds": 2}],
                "wire": [{"kind": "stall", "begin": 5}],
            }
        ],
        "workload": [{"name": "w", "iodepth": [1, 2, 4], "bs": 4096}],
    }
    short = shortened(data)
    (system,), (workload,) = short["system"], short["workload"]
    assert (system["fault"][0]["begin"], system["fault"][0]["seconds"]) == pytest.approx(
        (0.12, 0.06)
    )
    assert system["wire"][0]["begin"] == pytest.approx(0.15)
    assert system["size"] == short["method"]["size"] == 16 << 20
    assert (workload["iodepth"], workload["bs"]) == ([1, 4], 4096)
    assert data["workload"] == [{"name": "w", "iodepth": [1, 2, 4], "bs": 4096}]
