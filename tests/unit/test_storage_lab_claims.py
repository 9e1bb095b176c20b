# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons of the lab against known differences.  Opt-in, because it takes seven minutes.

NVMF_LAB_CLAIMS=1 ./dev test tests/unit/test_storage_lab_claims.py -q -s

The figure is the median latency, because stalls of a shared machine change IOPS by more than 10 %.
The system is a target in memory whose commands the fault layer delays by 20 ms, so that the time of
a command depends little on other programs of the machine.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from storagelab import lab

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
runtime = 0.8
rounds = 4
"""


def run(folder: Path, delay: int) -> Path:
    description = folder.with_suffix(".toml")
    description.write_text(DESCRIPTION.format(delay=delay))
    done = lab("run", description, "-d", folder, "--quiet")
    assert done.returncode == 0, done.stderr
    return folder


def verdicts(first: Path, second: Path) -> list[str]:
    done = lab("compare", first, second, "--metric", "p50_ns", "-o", "json")
    (rows,) = json.loads(done.stdout)["runs"].values()
    for row in rows:
        print(f"{row['title']}: {row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f})")
    found = [row["verdict"] for row in rows]
    print({verdict: found.count(verdict) for verdict in found})
    return found


def test_two_runs_of_the_same_system_and_a_slower_one(tmp_path: Path) -> None:
    first, second = run(tmp_path / "first", 20000), run(tmp_path / "second", 20000)
    slower = run(tmp_path / "slower", 22000)
    same = verdicts(first, second)
    assert len(same) == 20
    assert same.count("no difference shown") >= 19
    assert verdicts(first, slower) == ["worse"] * 20
