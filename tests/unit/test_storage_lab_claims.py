# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons of the lab against known differences.  Opt-in, because it takes ten minutes.

NVMF_LAB_CLAIMS=1 ./dev test tests/unit/test_storage_lab_claims.py -q -s

The figure is the median latency, because stalls of a shared machine change IOPS by more than 10 %.
The system is a target in memory whose commands the fault layer delays by 20 ms, so that the time of
a command depends little on other programs of the machine.

Rounds are many and short rather than few and long: they are the sample of the intervals.  Systems
of one run are measured in turns; those of different runs cannot be, so that a drift of the machine
between runs is a difference between them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.storagelab import lab

pytestmark = pytest.mark.skipif(
    not os.environ.get("NVMF_LAB_CLAIMS"), reason="takes minutes: set NVMF_LAB_CLAIMS=1"
)
DESCRIPTION = """
[[system]]
name = "disk"
kind = "target"
size = "64MiB"

[[system.fault]]
kind = "delay"
delay_us = {delay}

[[workload]]
name = "reads"
rw = "randread"
bs = ["4k", "16k"]
iodepth = [1, 2, 4, 8, 16]

[[workload]]
name = "writes"
rw = "randwrite"
bs = ["4k", "16k"]
iodepth = [1, 2, 4, 8, 16]

[method]
runtime = 0.6
rounds = 6
"""


def run(folder: Path, delay: int) -> Path:
    description = folder.with_suffix(".toml")
    description.write_text(DESCRIPTION.format(delay=delay))
    done = lab("run", description, "-d", folder, "--quiet")
    assert done.returncode == 0, done.stderr
    return folder


def system(name: str, delay: int) -> str:
    head = DESCRIPTION[: DESCRIPTION.index("[[workload]]")]
    return head.replace('"disk"', f'"{name}"').format(delay=delay)


def test_systems_of_one_run(tmp_path: Path) -> None:
    """In turns, so that changes of the machine affect all of them."""
    description = tmp_path / "lab.toml"
    loads = DESCRIPTION[DESCRIPTION.index("[[workload]]") :]
    systems = [system("first", 20000), system("second", 20000), system("slower", 22000)]
    description.write_text("".join([*systems, loads]))
    done = lab("run", description, "-d", tmp_path / "out", "--quiet")
    assert done.returncode == 0, done.stderr
    found = compared(tmp_path / "out")
    assert len(found["second"]) == len(found["slower"]) == 20
    assert found["second"].count("no difference shown") >= 19
    assert found["slower"].count("worse") >= 19


def compared(*folders: Path) -> dict[str, list[str]]:
    done = lab("compare", *folders, "--metric", "p50_ns", "-o", "json")
    found = {}
    for name, rows in json.loads(done.stdout)["runs"].items():
        for row in rows:
            print(f"{row['title']}: {row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f})")
        found[name] = [row["verdict"] for row in rows]
        print(name, {verdict: found[name].count(verdict) for verdict in found[name]})
    return found


def test_two_runs_of_the_same_system_and_a_slower_one(tmp_path: Path) -> None:
    first, second = run(tmp_path / "first", 20000), run(tmp_path / "second", 20000)
    slower = run(tmp_path / "slower", 22000)
    (same,) = compared(first, second).values()
    assert len(same) == 20
    assert same.count("no difference shown") >= 19
    (worse,) = compared(first, slower).values()
    assert worse.count("worse") >= 19
