# SPDX-License-Identifier: BSD-3-Clause
"""nvmeof pmem."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from nvmf.cli.main import main
from nvmf.config import loads
from nvmf.pmem import bench as pmem_bench
from nvmf.pmem.platform import METHODS
from nvmf.pmem.remote import RemoteMemory
from nvmf.target.sync import serve as serve_sync
from support.memorylab import CONFIG, HOST, NQN, OTHER
from support.served import Served


def bench(*args: str) -> int:
    try:
        return main(["pmem", "bench", *args])
    except SystemExit as ending:
        return int(ending.code or 0)


def test_bench(capsys: pytest.CaptureFixture[str]) -> None:
    short = ("--force", "--runtime", "50ms", "-q", HOST)
    with serve_sync(loads(CONFIG)) as target:
        where = target.url
        assert bench(where, *short) != 0
        said = capsys.readouterr().err
        assert "the target does not confirm that the range is on media" in said
        assert "--ignore-assumptions" in said
        assert bench(where, "--runtime", "50ms", "-q", HOST) != 0
        assert "give --force" in capsys.readouterr().err
        load = ("--bs", "8,4k", "--iodepth", "1,4", "--ignore-assumptions")
        assert bench(where, *short, *load) == 0
        assert "* the target does not confirm" in capsys.readouterr().out
        assert bench(where, *short, *load, "-o", "json") == 0
        found = json.loads(capsys.readouterr().out)
        facts = ("media", "placed", "flushed", "atomic", "persists")
        assert found["platform"] == dict.fromkeys(facts, False)
        rows = found["results"]
        assert [row["method"] for row in rows] == ["floor", *METHODS] * 4
        for row in rows:
            if row["method"].startswith("write-flush"):
                assert row["skipped"] == "the iwarp device has no FLUSH"
                continue
            if row["size"] == 8 and row["method"].startswith("nvme"):
                assert (row["figures"], row["skipped"]) == (
                    None,
                    f"{row['method']} writes whole blocks",
                )
                continue
            figures = row["figures"]
            # a stalled machine may complete no command within the time
            assert figures["ios"] > 0 or row["method"].startswith("nvme")
            assert bool(row["assumptions_unmet"]) is (row["method"] != "floor")
            latency = figures["percentiles_us"]
            assert list(latency) == ["50", "90", "99", "99.9", "99.99", "99.999"]
            assert figures["min_us"] <= latency["99.999"] * 1.01
        assert bench(where, "--force", "-q", OTHER) != 0
        assert "is not exported as memory to" in capsys.readouterr().err


def test_bench_of_a_mix(capsys: pytest.CaptureFixture[str]) -> None:
    """Reads have figures of their own; the target's processor time is that of its process."""
    with serve_sync(loads(CONFIG)) as target:
        words = [target.url, "--force", "--runtime", "100ms", "-q", HOST, "--ignore-assumptions"]
        words += ["--rwmixread", "50", "--target-pid", str(os.getpid())]
        assert bench(*words, "-o", "json") == 0
        found = json.loads(capsys.readouterr().out)
        assert found["read_percent"] == 50
        for row in found["results"]:
            if row["method"].startswith("write-flush"):
                assert row["skipped"] == "the iwarp device has no FLUSH"
                continue
            writes, reads = row["figures"], row["reads"]
            if row["method"] in ("floor", "write-send"):
                assert 0.2 < reads["ios"] / (reads["ios"] + writes["ios"]) < 0.8
            assert row["target_cpu_seconds"] >= 0
        assert bench(*words) == 0
        said = capsys.readouterr().out
        assert "target us" in said
        assert " read " in said
        assert bench(*words[:-1], "999999999") == 2
        assert "there is no process 999999999" in capsys.readouterr().err


def test_bench_in_rounds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The median round counts, and the median ratio, where the machine is slow for a while."""
    latencies = {"floor": [40.0, 10.0, 10.0], "write-read": [45.0, 50.0, 12.0]}
    order: list[str] = []
    measured = pmem_bench._one

    async def one(*args: Any) -> pmem_bench.Row:
        row = await measured(*args)
        assert row["figures"] is not None
        order.append(row["method"])
        row["figures"]["percentiles_us"]["50"] = latencies[row["method"]].pop(0)
        return row

    monkeypatch.setattr(pmem_bench, "_one", one)
    with serve_sync(loads(CONFIG)) as target:
        words = [target.url, "--force", "--runtime", "20ms", "-q", HOST, "--ignore-assumptions"]
        words += ["--methods", "write-read", "--rounds", "3", "-o", "json"]
        assert bench(*words) == 0
    found = json.loads(capsys.readouterr().out)
    assert order == ["floor", "write-read"] * 3
    assert found["rounds"] == 3
    rows = [(r["figures"]["percentiles_us"]["50"], r["times_floor"]) for r in found["results"]]
    assert rows == [(10.0, 1.0), (45.0, 1.2)]


@pytest.mark.parametrize(
    "args",
    [("--rwmixread", "101"), ("--methods", "write-forget"), ("--bs", "2MiB"), ("--bs", "0"),
     ("--iodepth", "x"), ("--iodepth", "129"), ("--runtime", "0"), ("--rounds", "0")],
)  # fmt: skip
def test_bench_refuses(capsys: pytest.CaptureFixture[str], args: tuple[str, ...]) -> None:
    assert bench("nvme+rdma://127.0.0.1:1/nqn.2026-01.example:x", "--force", *args) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_ls_shows_who_uses_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served = Served(tmp_path, CONFIG).wait_ready()
    where = f"nvme+rdma://127.0.0.1:{served.port}/{NQN}"

    async def look() -> None:
        options: dict[str, Any] = {"force": True, "hostnqn": HOST}
        async with await RemoteMemory.connect(where, **options):
            ls = ["target", "ls", "--rpc-socket", str(served.rpc_socket)]
            assert await asyncio.to_thread(main, ls) == 0

    asyncio.run(look())
    assert f"memory of namespace 1: {HOST} from 127.0.0.1:" in capsys.readouterr().out
    assert served.end() == 0
