# SPDX-License-Identifier: BSD-3-Clause
"""RoCEv2 over a path with delay and loss: ./dev bench --device roce --loss."""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.harness import MIB, HarnessError, Target, build_directory, configuration, machine

STORE_BYTES = 64 * MIB
BLOCK, DEPTH = 131072, 32
DELAY_US = 1000
LOSSES = (0, 1, 10)
"""Packets lost of 1000, in each direction."""
GOAL = 0.5
"""Share of the rate without loss that remains when one packet in 100 is lost."""

Rate = Callable[[Target, float], float]


@dataclass(frozen=True)
class Row:
    """A loss as --json writes it: medians of the runs."""

    loss_per_mille: int
    iops: float
    bytes_per_second: float
    share: float
    """Share of the rate without loss."""
    packets: int
    dropped: int


def own_address() -> str:
    """Return an address of the loopback network that is probably unused."""
    return f"127.{random.randint(1, 60)}.{random.randint(1, 254)}.{random.randint(1, 254)}"


@dataclass
class Way:
    """The path, as a process, and what it reports when it ends."""

    address: str
    report: dict[str, int]


@contextmanager
def path(target: Target, loss: int) -> Iterator[Way]:
    """Yield a path to a target whose every packet takes DELAY_US in each direction."""
    program = build_directory() / "tests" / "bench" / "lossy"
    if not program.exists():
        raise HarnessError(f"there is no {program}: run ./dev build first")
    near, far = own_address(), own_address()
    words = [str(program), target.address, near, far, str(DELAY_US), str(loss)]
    found = Way(near, {})
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if not process.stdout.readline():
            raise HarnessError("the path did not start")
        try:
            yield found
            process.stdin.close()
            found.report.update(json.loads(process.stdout.readline()))
        finally:
            process.kill()


def run(rate: Rate, folder: Path, seconds: float, repeat: int) -> list[Row]:
    """Measure reads over the path with each loss, in turns, and print the medians."""
    print(f"Machine: {machine()}")
    print(
        f"Reads of {BLOCK // 1024} KiB at depth {DEPTH} over a path with {DELAY_US / 1000:g} ms "
        f"delay in each direction.\n"
        f"Medians of {repeat} runs of {seconds:g} s; loss in both directions.\n"
    )
    print(f"{'loss':>6} {'IOPS':>8} {'MB/s':>8} {'share':>6} {'packets':>9} {'dropped':>8}")
    runs: dict[int, list[tuple[float, dict[str, int]]]] = {loss: [] for loss in LOSSES}
    with (
        tempfile.TemporaryDirectory(prefix="nvmeof-bench-", dir=folder) as name,
        Target(Path(name), configuration("ram", STORE_BYTES, None, "roce")) as target,
    ):
        for _ in range(repeat):
            for loss in LOSSES:
                with path(target, loss) as way:
                    direct, target.address = target.address, way.address
                    try:
                        iops = rate(target, seconds)
                    finally:
                        target.address = direct
                runs[loss].append((iops, way.report))
    rows: list[Row] = []
    for loss, found in runs.items():
        iops, report = sorted(found, key=lambda one: one[0])[len(found) // 2]
        share = round(iops / rows[0].iops, 3) if rows else 1.0
        row = Row(loss, iops, iops * BLOCK, share, report["passed"], report["dropped"])
        rows.append(row)
        print(
            f"{loss / 10:>4g} % {iops:>8.0f} {iops * BLOCK / 1e6:>8.1f} {share:>6.2f} "
            f"{row.packets:>9} {row.dropped:>8}"
        )
    print(f"The goal with {LOSSES[-1] / 10:g} % is a share of {GOAL:g} or more.")
    return rows
