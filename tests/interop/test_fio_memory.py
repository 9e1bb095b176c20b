# SPDX-License-Identifier: BSD-3-Clause
"""The fio engine with the methods of persistence: by NVMe commands and by remote memory."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nvmf.config import loads
from nvmf.pmem.remote import RemoteMemory
from nvmf.target.sync import Target
from nvmf.target.sync import serve as serve_sync
from support.memorylab import CONFIG, HOST, NQN, OTHER, READER, over_roce
from support.roce import own_address

JOBS = Path(__file__).resolve().parents[2] / "initiator" / "fio" / "pmem"
METHODS = ("nvme-fua", "nvme-write-flush", "write-read", "write-send", "floor")
MEMORY = METHODS[2:]
HANG = 120


def run(
    fio: Path, engine: Path, target: Target, *words: str, host: str = HOST
) -> tuple[int, dict[str, Any], str]:
    port = target.ports[0][1]
    place = (f"--traddr=127.0.0.1 --trsvcid={port} --subnqn={NQN} --hostnqn={host}").split()
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    done = subprocess.run(
        [
            *(str(fio), "--name=job", f"--ioengine=external:{engine}", "--output-format=json"),
            *(*place, *words),
        ],
        capture_output=True,
        text=True,
        env=environment,
        timeout=HANG,
    )
    found = done.stdout[done.stdout.find("{") :]
    return done.returncode, json.loads(found) if found.startswith("{") else {}, done.stderr


def namespace_stats(target: Target) -> dict[str, int]:
    def read() -> dict[str, int]:
        return dict(target._target._server.core.subsystems[NQN].namespaces[1].stats())

    return target._loop.get(read)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("depth", [1, 8])
def test_what_is_written_is_read(fio: Path, fio_engine: Path, method: str, depth: int) -> None:
    with serve_sync(loads(CONFIG)) as target:
        words = ["--rw=randwrite", "--bs=4k", "--size=1m", "--verify=crc32c", "--verify_fatal=1"]
        words += [f"--iodepth={depth}", f"--method={method}", "--ignore_assumptions=1"]
        status, found, said = run(fio, fio_engine, target, *words)
        assert status == 0, said
        job = found["jobs"][0]
        assert job["error"] == 0
        assert job["write"]["total_ios"] == 256
        assert job["read"]["total_ios"] == 256
        stats = namespace_stats(target)
        assert stats["flushes"] == (256 if method == "nvme-write-flush" else 0)
        assert stats["writes"] == (0 if method in MEMORY else 256)


@pytest.mark.parametrize("method", MEMORY)
def test_small_records_and_sleeping(fio: Path, fio_engine: Path, method: str) -> None:
    """Memory has no blocks; with hipri=0 the job sleeps between completions."""
    with serve_sync(loads(CONFIG)) as target:
        words = ["--rw=randrw", "--bs=72", "--size=72k", "--hipri=0", "--iodepth=4"]
        words += [f"--method={method}", "--ignore_assumptions=1"]
        status, found, said = run(fio, fio_engine, target, *words)
        assert status == 0, said
        job = found["jobs"][0]
        assert job["read"]["total_ios"] + job["write"]["total_ios"] == 1024


def test_write_flush_on_roce(fio: Path, fio_engine: Path) -> None:
    address = own_address()
    with serve_sync(loads(over_roce(address))) as target:
        words = ["--rw=randwrite", "--bs=4k", "--size=1m", "--verify=crc32c", "--verify_fatal=1"]
        words += ["--iodepth=32", "--method=write-flush", "--device=roce", f"--traddr={address}"]
        status, found, said = run(fio, fio_engine, target, *words, "--ignore_assumptions=1")
        assert status == 0, said
        assert found["jobs"][0]["write"]["total_ios"] == 256
        status, _, said = run(fio, fio_engine, target, *words)
        assert status != 0
        assert "does not confirm that the range is on media" in said
    with serve_sync(loads(CONFIG)) as target:
        words = ["--rw=write", "--bs=4k", "--size=64k", "--method=write-flush"]
        status, _, said = run(fio, fio_engine, target, *words, "--ignore_assumptions=1")
        assert status != 0
        assert "method=write-flush needs RDMA FLUSH" in said


async def last_word(url: str) -> int:
    memory = await RemoteMemory.connect(
        url, force=True, hostnqn=HOST, device="roce", host_traddr=own_address()
    )
    try:
        return int.from_bytes(await memory.read(memory.size - 8, 8), "little")
    finally:
        await memory.close()


def test_write_flush_tail_on_roce(fio: Path, fio_engine: Path) -> None:
    """The tail word counts the writes, and the file ends before it."""
    address = own_address()
    with serve_sync(loads(over_roce(address, CONFIG.replace("4MiB", "1MiB")))) as target:
        words = ["--rw=write", "--bs=4088", "--verify=crc32c", "--verify_fatal=1", "--iodepth=16"]
        words += ["--method=write-flush-tail", "--device=roce", f"--traddr={address}"]
        status, found, said = run(fio, fio_engine, target, *words, "--ignore_assumptions=1")
        assert status == 0, said
        job = found["jobs"][0]
        count = ((1 << 20) - 8) // 4088
        assert job["write"]["total_ios"] == job["read"]["total_ios"] == count
        assert asyncio.run(last_word(target.url)) == count
        status, _, said = run(fio, fio_engine, target, *words)
        assert status != 0
        assert "does not confirm that the range is on media" in said
    with serve_sync(loads(CONFIG)) as target:
        words = ["--rw=write", "--bs=4k", "--size=64k", "--method=write-flush-tail"]
        status, _, said = run(fio, fio_engine, target, *words, "--ignore_assumptions=1")
        assert status != 0
        assert "method=write-flush-tail needs RDMA FLUSH" in said


def test_refusals_are_sentences(fio: Path, fio_engine: Path) -> None:
    with serve_sync(loads(CONFIG)) as target:
        words = ["--rw=write", "--bs=4k", "--size=64k", "--method=write-send"]
        status, _, said = run(fio, fio_engine, target, *words)
        assert status != 0
        assert "does not confirm that the range is on media" in said
        assert "ignore_assumptions=1" in said
        words += ["--ignore_assumptions=1"]
        status, _, said = run(fio, fio_engine, target, *words, host=OTHER)
        assert status != 0
        assert "is not exported as memory to" in said
        status, _, said = run(fio, fio_engine, target, *words, host=READER)
        assert status != 0
        assert "may only read namespace 1" in said
        reads = ["--rw=read", *words[1:]]
        assert run(fio, fio_engine, target, *reads, host=READER)[0] == 0


@pytest.mark.parametrize("name", ["read", "write", "mix"])
@pytest.mark.parametrize("method", ["nvme-write-flush", "write-send"])
def test_job_files(fio: Path, fio_engine: Path, name: str, method: str) -> None:
    with serve_sync(loads(CONFIG.replace('memory = ["', f'memory = ["{HOST}2", "'))) as target:
        subnqn = NQN.replace(":", r"\:")
        port = target.ports[0][1]
        place = f"traddr=127.0.0.1 trsvcid={port} subnqn={subnqn} hostnqn={HOST} nsid=1"
        place = place.replace(f"hostnqn={HOST}", "hostnqn=" + HOST.replace(":", r"\:"))
        text = (JOBS / f"{name}.fio").read_text()
        text = text.replace("ramp_time=2\n", "").replace("runtime=30", "runtime=1")
        text = text.replace("[latency]", "ignore_assumptions=1\n[latency]")
        environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        done = subprocess.run(
            [str(fio), "--output-format=json", "-"],
            input=text,
            capture_output=True,
            text=True,
            env={
                **environment,
                "ENGINE": str(fio_engine),
                "METHOD": method,
                "TARGET": place,
            },
            timeout=HANG,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        jobs = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
        assert [job["jobname"] for job in jobs] == ["latency", "bandwidth"]
        for job in jobs:
            for way in ("read", "write"):
                wanted = name in (way, "mix")
                assert (job[way]["total_ios"] > 0) is wanted
