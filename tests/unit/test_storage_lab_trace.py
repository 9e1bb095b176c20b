# SPDX-License-Identifier: BSD-3-Clause
"""Workloads of the storage lab that replay a trace, its report at the end, and a script of its
examples.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nvmf.lab.describe import load
from nvmf.lab.errors import LabError
from nvmf.lab.live import Live
from support.storagelab import NULL, RAM, SHORT, lab, rounds

EXAMPLES = Path(__file__).resolve().parents[2] / "config" / "examples" / "lab"
TRACE = "fio version 2 iolog\n/old/disk add\n/old/disk open\n" + "".join(
    f"/old/disk {'write' if n % 3 else 'read'} {n * 8192} 8192\n" for n in range(300)
)
WORKLOAD = '[[workload]]\nname = "recorded"\ntrace = "old.log"\niodepth = [1, 8]\n'


@pytest.mark.usefixtures("fio", "fio_engine")
def test_a_trace(tmp_path: Path) -> None:
    """It is replayed on each system, by our engine and by fio's own, and ends with its last I/O."""
    (tmp_path / "old.log").write_text(TRACE)
    disk = f'[[system]]\nname = "disk"\nkind = "file"\npath = "{tmp_path}/a:b"\nsize = "16MiB"\n'
    path = tmp_path / "lab.toml"
    path.write_text(RAM + disk + 'engine = "psync"\ndirect = false\n' + WORKLOAD + SHORT)
    done = lab("run", path, "-d", tmp_path / "out", "--rounds", "1", "--runtime", "60")
    assert done.returncode == 0, done.stderr
    found = rounds(tmp_path / "out")
    assert [(row["system"], row["iodepth"], row["bs"], row["rw"]) for row in found] == [
        (name, depth, None, None) for depth in (1, 8) for name in ("ram", "disk")
    ]
    assert [row["ios"] for row in found] == [300] * 4
    assert all(row["read_iops"] > 0 and row["write_iops"] > row["read_iops"] for row in found)
    assert not (tmp_path / "a:b").exists()


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ('rw = "read"\n', "a trace excludes rw"),
        ('bs = "4k"\n', "a trace excludes bs"),
        ("numjobs = 2\n", "a trace excludes numjobs"),
        ('job_file = "x.fio"\n', "a trace excludes job_file"),
    ],
)
def test_a_trace_has_its_own_pattern(tmp_path: Path, more: str, wanted: str) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(RAM + WORKLOAD.replace("iodepth = [1, 8]\n", more))
    with pytest.raises(LabError, match=wanted):
        load(path)


@pytest.mark.usefixtures("fio")
def test_a_missing_trace(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(RAM + WORKLOAD)
    done = lab("run", path, "-d", tmp_path / "out")
    assert done.returncode == 1
    assert f"there is no trace {tmp_path}/old.log" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("fio")
def test_a_run_makes_its_report(tmp_path: Path) -> None:
    """Without being asked; a report that cannot be made is said, and the run is complete."""
    pytest.importorskip("matplotlib")
    path, out = tmp_path / "lab.toml", tmp_path / "out"
    path.write_text(NULL + '[[workload]]\nname = "reads"\n' + SHORT)
    words = [sys.executable, "-m", "nvmf.cli.main", "lab", "run", str(path), "-d", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out}\n"
    assert f"report: {out}/report.html" in done.stderr
    assert "null engine, which does no I/O" in (out / "report.html").read_text()
    (out / "report.html").unlink()
    (out / "report.html").mkdir()
    words[5:] = ["--resume", str(out)]
    again = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert "there is no report: " in again.stderr


def test_the_live_view_has_figures_so_far() -> None:
    """Medians of the earlier rounds of the same load on the same system."""
    live = Live(9, show=False)
    for rate, latency in ((1000.0, 90_000.0), (3000.0, 70_000.0), (1200.0, 80_000.0)):
        live.end("ram", "reads", 1, rate, latency)
    live.end("ram", "writes", 1, 5.0, None)
    assert live.so_far("ram", "reads") == ", 1,200 IOPS, 80.0 µs so far"
    assert live.so_far("ram", "writes") == ", 5 IOPS so far"
    assert live.so_far("other", "reads") == ""


STANDS_IN = """\
#!{python}
import signal, socket, sys
with socket.socket(socket.AF_UNIX) as one:
    one.bind(sys.argv[sys.argv.index("-r") + 1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        signal.pause()
"""


def test_the_script_for_spdk(tmp_path: Path) -> None:
    """It starts the target, makes a namespace and a listener, and ends the target; with programs
    that stand in for SPDK's, and note what they are asked.
    """
    for name, text in (
        ("build/bin/nvmf_tgt", STANDS_IN.format(python=sys.executable)),
        ("scripts/rpc.py", f'#!/bin/sh\nshift 4\necho "$@" >> {tmp_path}/asked\n'),
    ):
        program = tmp_path / name
        program.parent.mkdir(parents=True)
        program.write_text(text)
        program.chmod(0o755)
    env = {**os.environ, "SPDK": str(tmp_path), "RUN": str(tmp_path)}

    def script(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", EXAMPLES / "spdk.sh", *words],
            capture_output=True, text=True, env=env, timeout=120,
        )  # fmt: skip

    done = script("start", "192.0.2.1", "4422", "nqn.x:spdk", "64")
    try:
        assert done.returncode == 0, done.stderr
        number = int((tmp_path / "nvmeof-lab-spdk.pid").read_text())
        assert Path(f"/proc/{number}/exe").exists()
        assert (tmp_path / "asked").read_text().splitlines() == [
            "nvmf_create_transport -t RDMA",
            "bdev_malloc_create -b Lab0 64 4096",
            "nvmf_create_subsystem nqn.x:spdk -a -s LAB",
            "nvmf_subsystem_add_ns nqn.x:spdk Lab0",
            "nvmf_subsystem_add_listener nqn.x:spdk -t rdma -f ipv4 -a 192.0.2.1 -s 4422",
        ]
    finally:
        assert script("stop").returncode == 0
    assert not Path(f"/proc/{number}/exe").exists()
    assert not (tmp_path / "nvmeof-lab-spdk.pid").exists()
    assert script("stop").returncode == 0
    (tmp_path / "build/bin/nvmf_tgt").write_text("#!/bin/sh\necho no huge pages >&2\nexit 1\n")
    failed = script("start", "192.0.2.1", "4422", "nqn.x:spdk", "64")
    assert failed.returncode == 1
    assert "no huge pages" in failed.stderr
