#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure the Python client and the engine's own load generator: ./dev bench --python.

In turns, on one queue of a target in another process: single reads, each awaited, at depth 1 and
32; read_many() and write_many(); and the same load by the engine in C (`nvmeof bench`), without
Python. Each figure is the median of the runs. The processor time of the event loop's thread per
command is that of Python and the engine together. The time in Python is measured for single reads
at depth 1: from the call to the result, without the calls of the engine and of the selector.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.harness import MIB, NQN, HarnessError, Target, configuration, cpus, machine
from nvmf import engine
from nvmf.initiator import Controller, Namespace, connect

SIZE = 256 * MIB
BYTES = 4096
BLOCKS = 8
READS = 5000
"""Reads whose time in Python is measured."""
HOST, SELECTOR = "_host", "_selector"
"""Private attributes of a queue of the client, and of asyncio's event loop on Linux."""
BATCH = 100_000
"""Commands of one read_many() or write_many()."""
Load = Callable[[Controller, Namespace, float], Coroutine[Any, Any, int]]


def places(disk: Namespace, count: int) -> array[int]:
    """Return random LBAs of aligned ranges of 4 KiB."""
    return array("Q", (random.randrange(disk.blocks // BLOCKS) * BLOCKS for _ in range(count)))


async def singles(disk: Namespace, seconds: float, depth: int) -> int:
    """Await single reads in depth concurrent tasks, and return their number."""
    lbas = places(disk, 4096)
    end = time.perf_counter() + seconds
    counts = [0] * depth

    async def task(number: int) -> None:
        while time.perf_counter() < end:
            await disk.read(lbas[counts[number] % len(lbas)], BLOCKS)
            counts[number] += 1

    await asyncio.gather(*(task(number) for number in range(depth)))
    return sum(counts)


class Timed:
    """An engine queue, or a selector, whose calls are timed."""

    def __init__(self, inner: object, names: tuple[str, ...]) -> None:
        self.inner = inner
        self.spent = 0
        """Nanoseconds in the calls so far."""
        for name in names:
            setattr(self, name, self._timed(getattr(inner, name)))

    def _timed(self, call: Callable[..., object]) -> Callable[..., object]:
        def timed(*args: object) -> object:
            start = time.perf_counter_ns()
            try:
                return call(*args)
            finally:
                self.spent += time.perf_counter_ns() - start

        return timed

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


async def time_in_python(controller: Controller, disk: Namespace) -> float:
    """Return the median time in Python of READS reads at depth 1, in µs."""
    loop, (queue,) = asyncio.get_running_loop(), controller.session.queues
    engine_calls = Timed(getattr(queue, HOST), ("submit", "poll", "arm", "drain"))
    waits = Timed(getattr(loop, SELECTOR), ("select",))
    setattr(queue, HOST, engine_calls)
    setattr(loop, SELECTOR, waits)
    found = []
    try:
        for lba in places(disk, READS):
            elsewhere, start = engine_calls.spent + waits.spent, time.perf_counter_ns()
            await disk.read(lba, BLOCKS)
            taken = time.perf_counter_ns() - start
            found.append(taken - (engine_calls.spent + waits.spent - elsewhere))
    finally:
        setattr(queue, HOST, engine_calls.inner)
        setattr(loop, SELECTOR, waits.inner)
    return statistics.median(found) / 1e3


async def many(controller: Controller, disk: Namespace, seconds: float, write: bool) -> int:
    """Run batches of BATCH commands in registered memory; return the number of commands."""
    lbas = places(disk, BATCH)
    done = 0
    with controller.alloc(BATCH * BYTES) as memory:
        with memoryview(memory) as view:
            view[::4096] = bytes(len(view) // 4096)  # allocate its pages
        run = disk.write_many if write else disk.read_many
        await run(lbas, memory, blocks=BLOCKS)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            done += await run(lbas, memory, blocks=BLOCKS)
    return done // BYTES


SINGLE = "awaited reads, depth 1"
LOADS: dict[str, tuple[Load, int, int]] = {
    SINGLE: (lambda c, d, s: singles(d, s, 1), 1, 100),
    "awaited reads, depth 32": (lambda c, d, s: singles(d, s, 32), 32, 100),
    "read_many": (lambda c, d, s: many(c, d, s, False), 128, 100),
    "write_many": (lambda c, d, s: many(c, d, s, True), 128, 0),
}
"""By name: the load; queue depth and percent of reads of the engine's load for comparison."""


async def measure(
    target: Target, load: Load, seconds: float, *, single: bool
) -> tuple[float, float, float | None]:
    """Return commands a second, processor µs of this thread for each, and µs of them in Python.

    The last one is None unless the load consists of single commands.
    """
    url = f"nvme+rdma://{target.address}:{target.port}/{NQN}"
    async with connect(url, device="iwarp", queues=1) as controller:
        disk = controller.namespace(1)
        await load(controller, disk, 0.2)
        start, used = time.perf_counter(), time.thread_time()
        count = await load(controller, disk, seconds)
        taken = time.perf_counter() - start
        cost = (time.thread_time() - used) / count * 1e6
        return count / taken, cost, await time_in_python(controller, disk) if single else None


def native(target: Target, depth: int, reads: int, seconds: float) -> float:
    """Return the commands a second of the engine's own load."""
    found = engine.bench(
        traddr=target.address,
        trsvcid=str(target.port),
        subnqn=NQN,
        nsid=1,
        queues=1,
        queue_depth=depth,
        block_size=BYTES,
        rw="randread" if reads else "randwrite",
        seconds=seconds,
    )
    return float(found["iops"])


def rows(seconds: float, runs: int) -> list[dict[str, Any]]:
    """Run all loads, in turns, and return the rows of the table."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in LOADS}
    in_python: dict[str, list[float]] = {name: [] for name in LOADS}
    with (
        tempfile.TemporaryDirectory() as folder,
        Target(Path(folder), configuration("ram", SIZE, None)) as target,
    ):
        for run in range(runs):
            for name, (load, depth, reads) in LOADS.items():
                print(f"run {run + 1} of {runs}: {name}", file=sys.stderr, flush=True)
                rate, cost, python = asyncio.run(
                    measure(target, load, seconds, single=name == SINGLE)
                )
                if python is not None:
                    in_python[name].append(python)
                found[name].append((rate, cost, native(target, depth, reads, seconds)))
    out = []
    for name, results in found.items():
        rate, cost, beside = (statistics.median(column) for column in zip(*results, strict=True))
        out.append(
            {
                "load": name,
                "iops": round(rate),
                "cpu_us": round(cost, 2),
                "python_us": round(statistics.median(in_python[name]), 1)
                if in_python[name]
                else None,
                "native_depth": LOADS[name][1],
                "native_iops": round(beside),
                "ratio": round(rate / beside, 3),
            }
        )
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="./dev bench --python")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run")
    parser.add_argument("--runs", type=int, default=5, help="of each load; the median counts")
    parser.add_argument("-o", "--output-format", choices=("normal", "json"), default="normal")
    args = parser.parse_args()
    where = machine()
    if pair := cpus():
        os.sched_setaffinity(0, {pair[0]})
    try:
        found = rows(args.seconds, args.runs)
    except HarnessError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if args.output_format == "json":
        print(json.dumps({"machine": where, "rows": found}, indent=2))
        return 0
    print(f"{where}; 4 KiB, random, one queue; medians of {args.runs} runs")
    print(
        f"{'load':<26}{'IOPS':>10}{'CPU µs each':>14}{'in Python':>12}{'engine alone':>16}"
        f"{'ratio':>8}"
    )
    for row in found:
        engine_alone = f"{row['native_iops']} (qd {row['native_depth']})"
        print(
            f"{row['load']:<26}{row['iops']:>10}{row['cpu_us']:>14}{row['python_us'] or '':>12}"
            f"{engine_alone:>16}"
            f"{row['ratio']:>8}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
