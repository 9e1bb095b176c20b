# SPDX-License-Identifier: BSD-3-Clause
"""nvmeof bench: fio's terms, results by direction, repeats, and the data that it overwrites."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from functools import partial
from typing import Any

import pytest

from nvmf.initiator.sync import connect
from support.calling import Run
from support.clientlab import OPTIONS, url
from support.served import Served

SHORT = ("--runtime", "200ms", "--iodepth", "4")


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "bench")


@pytest.fixture
def where(target: Served) -> str:
    """The URL of the subsystem, whose namespace 1 has no data."""
    place = url(target.port)
    with connect(place, **OPTIONS) as controller:
        disk = controller.namespace(1)
        disk.write_zeroes(0, disk.blocks)
    return place


def measured(run: Run, *args: object) -> dict[str, Any]:
    """Return the document of a load; repeat it if the machine stalled during the whole run."""
    for _ in range(20):
        status, out, err = run(*args, "-o", "json")
        assert status == 0, err
        found: dict[str, Any] = json.loads(out)
        if all(one["ios"] for one in found["runs"]):
            break
    return found


def first_block(where: str) -> bytes:
    with connect(where, **OPTIONS) as controller:
        return controller.namespace(1).read(0, 1)


def test_a_load_that_reads(run: Run, where: str) -> None:
    found = measured(run, where, *SHORT, "--rw", "randread", "--bs", "8k")
    one = found["runs"][0]
    assert one["write"]["ios"] == 0
    assert one["ios"] == one["read"]["ios"] > 0
    assert one["bytes"] == one["ios"] * 8192
    assert first_block(where) == bytes(512)
    assert (found["load"]["rw"], found["load"]["bs"], found["load"]["iodepth"]) == (
        "randread", 8192, 4,
    )  # fmt: skip
    assert found["target"]["nsid"] == 1
    assert found["host"]["cpus"] == len(os.sched_getaffinity(0))
    assert found["host"]["hostnqn"].startswith("nqn.")
    assert found["version"]
    assert "T" in found["time"]


def test_the_figures_fit_together(run: Run, where: str) -> None:
    args = ("--rw", "randrw", "--rwmixread", "70", "--percentile_list", "99:1:50")
    one = measured(run, where, *SHORT, *args)["runs"][0]
    for name in ("read", "write"):
        part = one[name]
        assert 0 < part["min_us"] <= part["mean_us"] <= part["max_us"]
        assert part["stddev_us"] >= 0
        assert list(part["percentiles_us"]) == ["1", "50", "99"]
        values = list(part["percentiles_us"].values())
        assert part["min_us"] <= values[0] <= values[1] <= values[2] <= part["max_us"]
    assert one["read"]["ios"] + one["write"]["ios"] == one["ios"]
    assert one["read"]["ios"] > one["write"]["ios"]


def test_a_mix_of_reads_only_writes_nothing(run: Run, where: str) -> None:
    one = measured(run, where, *SHORT, "--rw", "randrw", "--rwmixread", "100")["runs"][0]
    assert (one["write"]["ios"], first_block(where)) == (0, bytes(512))


@pytest.mark.parametrize("rw", ["write", "randwrite", "randrw", "rw"])
def test_data_is_not_overwritten(run: Run, where: str, rw: str) -> None:
    """One byte of data at the end of the namespace is enough."""
    with connect(where, **OPTIONS) as controller:
        disk = controller.namespace(1)
        disk.write(disk.blocks - 1, b"x" * 512)
        status, out, err = run(where, *SHORT, "--rw", rw)
        assert (status, out) == (1, "")
        assert f"{rw} overwrites namespace 1" in err
        assert f"block {disk.blocks - 1} is not zero; use --force" in err
        assert disk.read(0, 1) == bytes(512)
        assert run(where, *SHORT, "--rw", rw, "--force")[0] == 0


def test_a_failure_is_json_too(run: Run, where: str) -> None:
    status, out, err = run(where, "--namespace-id", "9", "-o", "json")
    assert status == 1
    found = json.loads(out)
    assert found["status"] == 1
    assert found["error"] in err
    assert json.loads(run("-o", "json")[1])["status"] == 2


def test_repeats_and_intervals(run: Run, where: str) -> None:
    args = ("--runtime", "1s", "--loops", "2", "--interval", "200ms", "--iodepth", "1")
    found = measured(run, where, *args)
    assert len(found["runs"]) == 2
    rates = [one["iops"] for one in found["runs"]]
    summary = found["summary"]["iops"]
    assert (summary["min"], summary["max"]) == (min(rates), max(rates))
    for one in found["runs"]:
        times = [row["seconds"] for row in one["series"]]
        assert times == sorted(times)
        assert all(row["write_iops"] == 0 for row in one["series"])
    out = run(where, *SHORT, "--loops", "2")[1]
    assert "run 2 of 2:" in out
    assert "2 runs: IOPS mean" in out


def test_a_command_line_of_fio(run: Run, where: str) -> None:
    """The URL is a file name; options that fio needs and this does not are accepted."""
    name = where.replace(":", "\\:")
    words = ["--name=x", "--ioengine=external:nvmeof-fio.so", "--direct=1", "--thread"]
    words += ["--group_reporting=1", "--time_based", "--readwrite=randread", "--blocksize=8k"]
    assert measured(run, *SHORT, f"--filename={name}", *words)["load"]["bs"] == 8192
    status, _, err = run(where, "--filename", where)
    assert (status, "not both" in err) == (2, True)
    assert run(where, "--group_reporting=2")[0] == 2


def test_many_queues(run: Run, where: str) -> None:
    """The target grants 64 queues per controller: the load creates a second controller."""
    args = (where, "--runtime", "100ms", "-Q", "1", "--numjobs", "70", "--threads", "2")
    found = measured(run, *args)
    assert (found["load"]["numjobs"], found["load"]["threads"]) == (70, 2)
    one = found["runs"][0]
    assert one["queue_max_iops"] >= one["queue_min_iops"] >= 0
    assert "each queue" in run(*args)[1]


def test_progress_and_an_interrupt(where: str) -> None:
    """On a terminal the rates are shown during the run; Ctrl-C shows the results so far."""
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "nvmf.cli.main", "bench", where, "--runtime", "1h", "-Q", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=slave, text=True) as running:
        os.close(slave)
        said = ""
        while "of 3600 s: read" not in said:
            said += os.read(master, 4096).decode()
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=120)
        assert running.returncode == 130
    os.close(master)
    assert "commands" in out
    assert "percentiles : p50 " in out


@pytest.mark.parametrize("rw", ["read", "randread"])
def test_a_size_ends_a_load(run: Run, where: str, rw: str) -> None:
    """Each queue transfers the given size; I/O during the ramp is not counted."""
    args = ("--rw", rw, "--bs", "4k", "--size", "64k", "--numjobs", "2", "--ramp_time", "20ms")
    status, out, err = run(where, *args, "-o", "json")
    assert status == 0, err
    found = json.loads(out)
    assert found["runs"][0]["ios"] == 2 * 16
    load = found["load"]
    assert (load["size"], load["runtime"], load["ramp_time"]) == (65536, None, 0.02)
    assert run(where, *args, "--runtime", "1h")[0] == 0
    assert measured(run, where, *SHORT, *args, "--time_based")["load"]["runtime"] == 0.2


def test_a_range(run: Run, where: str) -> None:
    """Only the range is written, and only data within it prevents the run."""
    with connect(where, **OPTIONS) as controller:
        disk = controller.namespace(1)
        disk.write(0, b"x" * 512)
        args = ("--rw", "write", "--bs", "4k", "--iodepth", "1", "--size", "8k")
        assert run(where, *args, "--offset", "50%")[0] == 0
        half = disk.blocks // 2
        assert disk.read(half - 1, 1) == bytes(512)
        assert all(disk.read(lba, 1) != bytes(512) for lba in range(half, half + 16))
        assert disk.read(half + 16, 1) == bytes(512)
        status, _, err = run(where, *args, "--offset", "0%")
        assert (status, "block 0 is not zero" in err) == (1, True)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--offset", "100"), "--offset must be a multiple of the block size of 512, not 100"),
        (("--offset", "8m"), "--offset 8388608: namespace 1 has 8388608 bytes"),
        (("--offset", "1m", "--size", "8m"), "extends past the end of namespace 1"),
        (("--size", "512"), "--size 512 is less than one command of 4096 bytes (--bs)"),
        (("--size", "101%"), "'101%' is not a percentage"),
        (("--size", "0"), "--size must be more than 0"),
        (("--ramp_time", "1e10"), "--ramp_time must be at most"),
    ],
)
def test_wrong_ranges(run: Run, where: str, words: tuple[str, ...], answer: str) -> None:
    status, _, err = run(where, *words)
    assert (status, answer in err) == (2, True), err
