# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof top`: rates, tables, and a target that is watched until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nvmf.cli.main import main
from nvmf.cli.output import shortened
from nvmf.cli.top import view
from nvmf.cli.top.rates import Rate, Rates, ranked, rates
from nvmf.initiator import connect
from support.clientlab import NQN, OPTIONS, RAM, config, url
from support.served import Served

HANG = 60.0
HOST = "nqn.2026-11.io.example:watched"
PEER = {"traddr": "fe80::1", "trsvcid": "5"}


def queue(qid: int, commands: int, **counters: int) -> dict[str, Any]:
    return {
        "hostnqn": HOST, "subnqn": NQN, "cntlid": 1, "qid": qid, "reactor": 0,
        "peer_address": PEER, "commands": commands, "outstanding": 2, **counters,
    }  # fmt: skip


def reading(seconds: float, queues: list[dict[str, Any]], **namespace: int) -> Any:
    return {
        "seconds": seconds,
        "reactors": [{"reactor": 0, "commands": sum(q["commands"] for q in queues)}],
        "namespaces": [{"nqn": NQN, "nsid": 1, **namespace}],
        "queues": queues,
        "events": {},
    }


# ---- rates ----


def test_rates_are_differences_by_time() -> None:
    before = reading(10.0, [queue(0, 5), queue(1, 100, read_bytes=1000)], reads=100, errors=1)
    after = reading(12.0, [queue(1, 300, read_bytes=9000), queue(2, 8)], reads=300, errors=2)
    found = rates(before, after)
    assert found.seconds == 2
    (namespace,) = found.namespaces
    assert (namespace.read_iops, namespace.write_iops, namespace.iops) == (100, 0, 100)
    assert namespace.errors == 0.5
    one, two = found.queues
    assert (one.iops, one.read_bytes, one.names["peer"]) == (100, 4000, "[fe80::1]:5")
    assert two.iops == 4  # it has started since
    (host,) = found.hosts
    assert (host.names, host.iops, host.outstanding) == ({"hostnqn": HOST, "queues": 2}, 104, 4)
    assert ranked(found.queues, "bytes") == [one, two]
    assert json.loads(json.dumps(found.record()))["queues"][1]["iops"] == 4


def test_latency_comes_from_histograms() -> None:
    empty = [0] * 24
    before = {"read": empty, "write": [5, *empty[1:]], "read_ns": 0, "write_ns": 5000}
    after = {"read": [0, 0, 0, 98, 1, 0, 1, *empty[7:]], "write": before["write"],
             "read_ns": 700_000, "write_ns": 5000}  # fmt: skip
    found = rates(
        reading(1, [], latency=before),  # type: ignore[arg-type]
        reading(2, [], latency=after),  # type: ignore[arg-type]
    )
    (namespace,) = found.namespaces
    assert (namespace.read_us, namespace.write_us, namespace.p99_us) == (7.0, None, 16.0)
    assert namespace.record()["read_us"] == 7.0


def test_counters_that_go_back_are_those_of_another() -> None:
    found = rates(reading(10, [queue(1, 100)], reads=7), reading(10, [queue(1, 50)], reads=1))
    assert (found.queues[0].iops, found.namespaces[0].iops) == (0, 0)


# ---- tables ----


def made(hosts: int) -> Rates:
    names = [f"nqn.2026-11.io.example:[red]{n}\x1b[2J" for n in range(hosts)]
    return Rates(
        1.0,
        reactors=[Rate({"reactor": 0}, iops=12345, outstanding=3)],
        namespaces=[Rate({"nqn": NQN, "nsid": n}, 1.5, 2e6, read_bytes=2e9) for n in range(3)],
        hosts=[Rate({"hostnqn": name, "queues": 2}, iops=n) for n, name in enumerate(names)],
    )


@pytest.mark.parametrize("height", [5, 24, 50])
@pytest.mark.parametrize("width", [40, 100])
def test_the_view_fits(height: int, width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=True, color_system=None)
    console.print(view.live(made(200), "iops", height, "header", width))
    text = out.getvalue()
    assert "\x1b[2J" not in text
    if height > 20:
        assert len(text.splitlines()) <= height
    if height > 20 and width == 100:
        assert "[red]199" in text
        assert re.search(r"and \d+ more", text)


def test_names_are_shortened_in_the_middle() -> None:
    assert shortened("nqn.a", 5) == "nqn.a"
    name = "nqn.2014-08.org.nvmexpress:uuid:0000-0001"
    assert len(shortened(name, 21)) == 21
    assert shortened(name, 21).startswith("nqn.20…")
    assert shortened(name, 21).endswith(":0000-0001")


def test_80_columns_show_whole_numbers() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, height=60, force_terminal=True, color_system=None)
    console.print(view.live(made(3), "iops", 60, "header", 80))
    text = out.getvalue()
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    assert "reads/s" in text
    assert "write µs" in text
    assert "99 % <" not in text


def test_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    view.plain(made(3), "iops", "header")
    text = capsys.readouterr().out
    assert text.startswith("header\n\n")
    assert r"[red]2\x1b[2J" in text
    assert "no queues" in text
    assert [len(re.findall(rf"\[red\]{n}", text)) for n in range(3)] == [1, 1, 1]


# ---- a target ----


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, config(RAM)) as one:
        one.wait_ready()
        yield one
        one.check_log()


def run(served: Served, *args: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["top", "--rpc-socket", str(served.rpc_socket), *args])
    return status, out.getvalue(), err.getvalue()


async def test_what_a_host_does_is_seen(served: Served) -> None:
    async with connect(url(served.port), hostnqn=HOST, **OPTIONS) as controller:
        disk = controller.namespace(1)
        watching = asyncio.create_task(
            asyncio.to_thread(run, served, "-n", "3", "-d", "0.2", "-o", "json")
        )
        while not watching.done():
            await disk.write(0, bytes(4096))
            await disk.read(0, 8)
        status, out, err = await watching
        assert (status, err) == (0, "")
        samples = [json.loads(line) for line in out.splitlines()]
        assert len(samples) == 3
        assert all(one["hosts"][0]["hostnqn"] == HOST for one in samples)
        assert sum(one["namespaces"][0]["read_bytes_per_second"] for one in samples) > 0
        assert {one["qid"] for one in samples[0]["queues"]} == {0, 1}
        assert any(one["namespaces"][0].get("p99_us") for one in samples)
        status, out, _ = await asyncio.to_thread(run, served, "-n", "1", "-d", "0.1")
        assert status == 0
        assert HOST in out


def test_a_target_that_goes(served: Served) -> None:
    words = ("-m", "nvmf.cli.main", "top", "-d", "0.1", "-o", "json")
    with subprocess.Popen(
        [sys.executable, *words, "--rpc-socket", served.rpc_socket],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["hosts"] == []
        assert served.end() == 0
        _, err = watching.communicate(timeout=HANG)
        assert watching.returncode == 1
        # Queried after it ended, or disconnected during a query.
        assert b"nvmeof top: lost contact with the target: " in err


def test_no_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--rpc-socket", str(tmp_path / "none")]) == 1
    assert "cannot connect to a target" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["-d", "0"], ["-n", "0"]])
def test_called_wrongly(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", *words]) == 2
    assert "must be at least" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["q", "SIGTERM"])
def test_on_a_terminal(served: Served, end: str) -> None:
    """The program draws, sorts by a different column after s, and ends with q; the terminal is
    restored.
    """
    ours, theirs = pty.openpty()
    words = ("-m", "nvmf.cli.main", "top", "-d", "0.1")
    try:
        with subprocess.Popen(
            [sys.executable, *words, "--rpc-socket", served.rpc_socket],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        ) as watching:
            try:
                read_until(ours, "by iops")
                os.write(ours, b"xs")
                read_until(ours, "by bytes")
                if end == "q":
                    os.write(ours, b"q")
                else:
                    watching.terminate()
                read_until(ours, "\x1b[?1049l")
                assert watching.wait(HANG) == 0
            finally:
                watching.kill()
    finally:
        os.close(ours)
        os.close(theirs)


def read_until(terminal: int, sign: str) -> None:
    text, end = "", time.monotonic() + HANG
    while sign not in text:
        ready, _, _ = select.select([terminal], [], [], max(end - time.monotonic(), 0))
        assert ready, f"{sign!r} does not come: {text!r}"
        text += os.read(terminal, 65536).decode(errors="replace")
