# SPDX-License-Identifier: BSD-3-Clause
"""The subjects of connections.py: targets of several trees, and a host program with all queues."""

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
    """The result of one run of a load, at the host and at the target."""

    iops: float
    p50_us: float
    p99_us: float
    queue_min_iops: float
    queue_max_iops: float
    target_cpu_us: float
    """Processor time of the target for one command."""
    host_cpu_us: float


def pss_kib(pid: int) -> int:
    """Return the memory of a process (PSS: shared pages count proportionally)."""
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
        """Run a load on the first queues."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{queues} {depth} {size} {rw} {seconds}\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Disconnect all queues."""
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
    """Run random reads of 4 KiB for some seconds."""
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
    """Return the median of each figure."""
    fields = [asdict(run) for run in runs]
    return Run(**{key: statistics.median(one[key] for one in fields) for key in fields[0]})


def system_calls(target: Target, many: Many, depth: int, seconds: float) -> float | None:
    """Return the target's system calls per command, in a separate run; None without perf."""
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
    """Return the percent of a processor that the target uses while idle."""
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
        """Serve a namespace with the target of the tree, and write it once."""
        place = folder / self.name
        place.mkdir()
        with Served(place, self.path) as target:
            with connected(target, 1, 8) as many:
                written = 0
                while written < 2 * STORE_BYTES:
                    written += int(many.run(1, 8, 131072, "write", 0.1)["ios"]) * 131072
            yield target
