# SPDX-License-Identifier: BSD-3-Clause
"""The fio engine: its target is killed and started again during a job; the host identity that it
uses.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from nvmf.initiator.base.identity import host_identity
from support.served import MEBIBYTE, SUBNQN, TIMEOUT, Served, config

HANG = 300
"""Seconds after which a command counts as hanging."""
SIZE = 32 * MEBIBYTE


def job(fio: Path, engine: Path, port: int, *words: str) -> list[str]:
    subnqn = SUBNQN.replace(":", r"\:")
    return [
        *(str(fio), "--name=job", f"--ioengine=external:{engine}", "--output-format=json"),
        f"--filename=nvme+rdma\\://127.0.0.1\\:{port}/{subnqn}?ns=1",
        *("--bs=4k", "--iodepth=16", f"--size={SIZE}", *words),
    ]


def start(words: list[str], folder: Path) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        env=environment,
    )  # fmt: skip


def report(said: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(said[said.index("{") :])["jobs"][0]
    return found


def wait_for_data(disk: Path, size: int) -> None:
    """Wait until the job has written about this much."""
    deadline = time.monotonic() + TIMEOUT
    while disk.stat().st_blocks * 512 < size:
        assert time.monotonic() < deadline, "the job writes nothing"
        time.sleep(0.01)


@pytest.mark.parametrize("load", ["write", "verify"])
def test_the_target_is_killed_and_started_again(
    tmp_path: Path, fio: Path, fio_engine: Path, load: str
) -> None:
    """The job ends without an error and reads back all data that it wrote, also if the connection
    is lost during the verification, whose reads are repeated.
    """
    disk = tmp_path / "disk.img"
    with disk.open("wb") as file:
        file.truncate(SIZE)
    store = f'store="file"\npath="{disk}"\nblock_size=512'
    target = Served(tmp_path, config([store])).wait_ready()
    port = target.port
    words = ["--rw=randwrite", "--verify=crc32c", "--verify_fatal=1", "--reconnect_delay=1"]
    if load == "write":
        words.append("--rate=8m")
    with start(job(fio, fio_engine, port, *words), tmp_path) as running:
        wait_for_data(disk, SIZE // 4 if load == "write" else SIZE)
        target.kill()
        assert running.poll() is None
        with Served(tmp_path, config([store], port=port)) as again:
            again.wait_ready()
            out, errors = running.communicate(timeout=HANG)
    assert running.returncode == 0, out + errors
    assert "the connection was lost: reconnecting, for at most 600 s" in errors
    assert re.search(r"connected again, after \d+ attempts?\n", errors), errors
    found = report(out)
    assert found["error"] == 0
    assert json.dumps(found).count(f'"io_bytes": {SIZE}') == 2  # written, and read


def test_no_reconnection(tmp_path: Path, fio: Path, fio_engine: Path) -> None:
    """ctrl_loss_tmo=0: I/O fails at once, with the reason."""
    disk = tmp_path / "disk.img"
    with disk.open("wb") as file:
        file.truncate(SIZE)
    target = Served(tmp_path, config([f'store="file"\npath="{disk}"'])).wait_ready()
    words = job(fio, fio_engine, target.port, "--rw=write", "--rate=8m", "--ctrl_loss_tmo=0")
    with start(words, tmp_path) as running:
        wait_for_data(disk, SIZE // 4)
        target.kill()
        out, errors = running.communicate(timeout=HANG)
    assert running.returncode == 1, out + errors
    assert "no attempt to reconnect: ctrl_loss_tmo=0" in errors


def test_a_loss_without_end(tmp_path: Path, fio: Path, fio_engine: Path) -> None:
    """After ctrl_loss_tmo the job fails, and reports why the attempts failed."""
    disk = tmp_path / "disk.img"
    with disk.open("wb") as file:
        file.truncate(SIZE)
    target = Served(tmp_path, config([f'store="file"\npath="{disk}"'])).wait_ready()
    limits = ("--ctrl_loss_tmo=2", "--reconnect_delay=1")
    words = job(fio, fio_engine, target.port, "--rw=write", "--rate=8m", *limits)
    with start(words, tmp_path) as running:
        wait_for_data(disk, SIZE // 4)
        target.kill()
        out, errors = running.communicate(timeout=HANG)
    assert running.returncode == 1, out + errors
    assert re.search(r"given up after \d attempts? to reconnect: .*connection refused", errors)


def test_jobs_are_one_host(tmp_path: Path, fio: Path, fio_engine: Path) -> None:
    """Every job uses the machine's host identity, like the command line, and its own controller."""
    with Served(tmp_path, config()) as target:
        port = target.wait_ready().port
        words = [
            *(str(fio), "--name=job", f"--ioengine=external:{fio_engine}", "--output-format=json"),
            *("--traddr=127.0.0.1", f"--trsvcid={port}", f"--subnqn={SUBNQN}", "--nsid=1"),
            *("--rw=read", "--size=1m", "--numjobs=3"),
        ]
        with start(words, tmp_path) as running:
            out, errors = running.communicate(timeout=HANG)
        assert running.returncode == 0, out + errors
        found = re.findall(r"controller (\d+) of \S+ for (\S+) queue 1: connected", target.log)
    assert {nqn for _, nqn in found} == {host_identity().nqn}
    assert len({controller for controller, _ in found}) == 3
