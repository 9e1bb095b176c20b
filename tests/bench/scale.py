#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure a target with many namespaces and many connected hosts: ./dev bench --scale.

The target is one process; the hosts, each with an NQN of its own, an admin and an I/O queue, and
every namespace identified, are clients in a few others.  What is printed stands beside what was
aimed for; nothing fails where it is not reached.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.harness import machine
from bench.scale_ask import PATIENCE, ask, command, scrape
from support.served import Served

NQN = "nqn.2026-11.io.example:scale"
PROCESSES = 4
TIMES = 5
"""Measurements of each figure; the median and the longest are printed."""
IDLE_SECONDS = 10.0


@dataclass(frozen=True)
class Figure:
    """A row of the table."""

    what: str
    value: float
    unit: str
    goal: float | None = None
    worst: float | None = None
    processor: float | None = None
    """Processor seconds of the target per measurement: a busy machine does not affect them."""

    def line(self) -> str:
        """Return the row in Markdown."""
        worst = "" if self.worst is None else f" ({self.worst:,.3g})"
        goal = "" if self.goal is None else f"{self.goal:,.3g} {self.unit}"
        own = "" if self.processor is None else f"{self.processor:,.3g} s"
        return f"| {self.what} | {self.value:,.3g}{worst} {self.unit} | {own} | {goal} |"


def config(namespaces: int, *, odd: int = 0) -> str:
    """Return the configuration of a target that allows any host.

    odd: the NSID of a namespace that is twice as large as the others.
    """
    text = '[metrics]\nenabled = true\nport = 0\n[[port]]\ntrsvcid = 0\ntraddr = "127.0.0.1"\n'
    text += f'device = "iwarp"\n[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n'
    text += "max_namespaces = 2000\n"
    for nsid in range(1, namespaces + 1):
        size = "2MiB" if nsid == odd else "1MiB"
        text += f'[[subsystem.namespace]]\nnsid = {nsid}\nstore = "null"\nsize = "{size}"\n'
    return text


class Hosts:
    """Connected hosts in another process (scale_hosts.py)."""

    def __init__(self, port: int, first: int, count: int) -> None:
        program = Path(__file__).with_name("scale_hosts.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program), str(port), NQN, str(first), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self) -> dict[str, Any]:
        """Return its next line of JSON; raise SystemExit if it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process of hosts has ended; what it met is above")
        return dict(json.loads(line))

    def tell(self) -> dict[str, Any]:
        """Return the states of its hosts."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.say()

    def end(self) -> None:
        """Disconnect all hosts."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@contextmanager
def connected(port: int, count: int) -> Iterator[list[Hosts]]:
    """Start hosts, and wait until all are connected."""
    share, more = divmod(count, PROCESSES)
    made: list[Hosts] = []
    first = 0
    try:
        for index in range(PROCESSES):
            some = share + (index < more)
            if some:
                made.append(Hosts(port, first, some))
            first += some
        for hosts in made:
            hosts.say()
        yield made
    finally:
        for hosts in made:
            hosts.end()


def processor(served: Served) -> float:
    """Return the processor time of the target in seconds, finer than the ticks of stat."""
    tasks = Path(f"/proc/{served.process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def measured(served: Served, what: str, goal: float | None, work: Callable[[], float]) -> Figure:
    """The median of some runs of work, which says what seconds it took."""
    before = processor(served)
    took = [work() for _ in range(TIMES)]
    own = (processor(served) - before) / TIMES
    return Figure(what, statistics.median(took), "s", goal, max(took), own)


def reloading(served: Served, namespaces: int) -> Callable[[], float]:
    """Seconds from SIGHUP until the target has served another file, with one namespace changed."""
    path = served.folder / "target.toml"
    log = served.folder / "stderr.txt"
    times = 0

    def reload() -> float:
        nonlocal times
        times += 1
        path.write_text(config(namespaces, odd=times % 2))
        seen = log.stat().st_size
        began = time.monotonic()
        served.process.send_signal(signal.SIGHUP)
        while time.monotonic() < began + PATIENCE:
            with log.open("rb") as file:
                file.seek(seen)
                text = file.read()
            if b"reloaded " in text:
                return time.monotonic() - began
            time.sleep(0.001)
        raise SystemExit(f"the target does not say that it has read {path} again")

    return reload


def idle(served: Served) -> float:
    """Return the percent of a processor that the target uses without any request."""
    time.sleep(IDLE_SECONDS)  # until what was before has ended
    before = processor(served)
    time.sleep(IDLE_SECONDS)
    return (processor(served) - before) / IDLE_SECONDS * 100


def measure(folder: Path, namespaces: int, count: int) -> Iterator[Figure]:
    """Run all measurements."""
    began = time.monotonic()
    with Served(folder, config(namespaces)) as served:
        served.wait_ready(PATIENCE)
        yield Figure(f"start, with {namespaces:,} namespaces", time.monotonic() - began, "s", 5)
        yield Figure("processor while idle, no host", idle(served), "%", 0)
        alone = served.resident_all
        yield Figure("memory, no host", alone / 2**20, "MiB")
        cpu, began = processor(served), time.monotonic()
        with connected(served.port, count) as hosts:
            yield Figure(f"until {count} hosts are connected", time.monotonic() - began, "s")
            yield Figure(
                "processor of the target for that, a host",
                (processor(served) - cpu) / count * 1000,
                "ms",
            )
            more = (served.resident_all - alone) / count / 1024
            yield Figure("memory of the target, a host", more, "KiB")
            reload = reloading(served, namespaces)
            yield measured(served, "reload by SIGHUP", 1, reload)
            time.sleep(IDLE_SECONDS)  # hosts read what the reload has changed
            yield measured(served, "RPC `ls`", 0.2, lambda: ask(served, "target_get_tree"))
            yield measured(served, "`nvmeof target ls` as a whole", None, lambda: command(served))
            yield measured(served, "scrape", 0.1, lambda: scrape(served))
            yield Figure(f"processor while idle, {count} hosts", idle(served), "%")
            told = [one.tell() for one in hosts]
            yield Figure("hosts connected at the end", sum(t["live"] for t in told), "", count)
            yield Figure("reconnects", sum(t["reconnects"] for t in told), "", 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench --scale", description=__doc__)
    parser.add_argument("--namespaces", type=int, default=1000)
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--json", metavar="FILE", type=Path, help="the figures for programs")
    args = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}.\n", flush=True)
    print("| what | median (worst) | processor | goal |\n| --- | --- | --- | --- |", flush=True)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for figure in measure(Path(folder), args.namespaces, args.hosts):
            figures.append(figure)
            print(figure.line(), flush=True)
    if args.json is not None:
        found = {"machine": machine(), "figures": [asdict(figure) for figure in figures]}
        args.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
