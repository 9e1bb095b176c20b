# SPDX-License-Identifier: BSD-3-Clause
"""What connections.py measures: the targets of trees, and one host program with all its queues."""

from __future__ import annotations

import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.harness import (
    MIB,
    NQN,
    HarnessError,
    Target,
    build_directory,
    configuration,
    cpus,
)

QUEUES_A_CONTROLLER = 128
STORE_BYTES = 64 * MIB
SETTLE_SECONDS = 1.0


@dataclass(frozen=True)
class Run:
    """One run of a load, as the host and the target saw it."""

    iops: float
    p50_us: float
    p99_us: float
    queue_min_iops: float
    queue_max_iops: float
    target_cpu_us: float
    """Processor time of the target for one command."""
    host_cpu_us: float


def pss_kib(pid: int) -> int:
    """Memory of a process, with its share of what it has in common with others."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise HarnessError(f"/proc/{pid}/smaps_rollup says no Pss")


class Served(Target):
    """The target of a tree."""

    def __init__(self, folder: Path, tree: Path | None) -> None:
        text = configuration("ram", STORE_BYTES, None)
        text = text.replace("[target]\n", "[target]\nmax_queues = 65535\n")
        text = text.replace("in_capsule", f"max_io_queues = {QUEUES_A_CONTROLLER}\nin_capsule")
        python = sys.executable if tree is None else str(tree / ".venv" / "bin" / "python")
        super().__init__(folder, text, python=python)


class Many:
    """The host program, with its queues connected."""

    def __init__(self, target: Target, queues: int, depth: int) -> None:
        program = build_directory() / "tests" / "bench" / "many"
        if not program.exists():
            raise HarnessError(f"there is no {program}: run ./dev build first")
        pair = cpus()
        words = [target.address, target.port, NQN, queues, depth, *(pair[:1] if pair else [])]
        self._process = subprocess.Popen(
            [str(program), *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.connect_seconds = float(self._answer()["seconds"])
        self.pid = self._process.pid

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return dict(json.loads(line))
        assert self._process.stderr is not None
        raise HarnessError(self._process.stderr.read().strip() or "the host program has ended")

    def run(self, queues: int, depth: int, size: int, rw: str, seconds: float) -> dict[str, Any]:
        """A load on the first of the queues."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{queues} {depth} {size} {rw} {seconds}\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Disconnect."""
        process = self._process
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


@contextmanager
def connected(target: Target, queues: int, depth: int) -> Iterator[Many]:
    """Queues of the host program."""
    many = Many(target, queues, depth)
    try:
        yield many
    finally:
        many.end()


def measured(target: Target, many: Many, queues: int, depth: int, seconds: float) -> Run:
    """4 KiB random reads for so long."""
    before = target.cpu_seconds()
    got = many.run(queues, depth, 4096, "randread", seconds)
    used = target.cpu_seconds() - before
    ios = max(int(got["ios"]), 1)
    return Run(
        got["ios"] / got["seconds"],
        got["p50_us"],
        got["p99_us"],
        got["queue_min_iops"],
        got["queue_max_iops"],
        used * 1e6 / ios,
        got["host_cpu_seconds"] * 1e6 / ios,
    )


def median(runs: Sequence[Run]) -> Run:
    """Of each figure."""
    fields = [asdict(run) for run in runs]
    return Run(**{key: statistics.median(one[key] for one in fields) for key in fields[0]})


def system_calls(target: Target, many: Many, depth: int, seconds: float) -> float | None:
    """Of the target, for one command of a run of its own; None if perf cannot count them."""
    perf = shutil.which("perf")
    if perf is None:
        return None
    command = [perf, "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", str(target.pid)]
    with tempfile.NamedTemporaryFile("r") as out:
        counting = subprocess.Popen([*command, "-o", out.name], stderr=subprocess.DEVNULL)
        time.sleep(0.3)  # until it counts; the target idles before and after the run
        ios = int(many.run(1, depth, 4096, "randread", seconds)["ios"])
        counting.send_signal(signal.SIGINT)
        counting.wait()
        for line in out.read().splitlines():
            words = line.split(",")
            if "sys_enter" in line and words[0].isdigit():
                return int(words[0]) / max(ios, 1)
    return None


def idle_percent(target: Target) -> float:
    """Of a processor."""
    time.sleep(SETTLE_SECONDS)
    before, began = target.cpu_seconds(), time.monotonic()
    time.sleep(2 * SETTLE_SECONDS)
    return (target.cpu_seconds() - before) / (time.monotonic() - began) * 100


class Tree:
    """A tree whose target is measured."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.name = "this" if path is None else path.name

    @contextmanager
    def serving(self, folder: Path) -> Iterator[Served]:
        """Its target, whose namespace has been written once."""
        place = folder / self.name
        place.mkdir()
        with Served(place, self.path) as target:
            with connected(target, 1, 8) as many:
                written = 0
                while written < 2 * STORE_BYTES:
                    written += int(many.run(1, 8, 131072, "write", 0.1)["ios"]) * 131072
            yield target
