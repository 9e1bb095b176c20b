# SPDX-License-Identifier: BSD-3-Clause
"""Progress of a run, on stderr: a live line on a terminal, plain lines otherwise."""

from __future__ import annotations

import statistics
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


def clock(seconds: float) -> str:
    """Format a duration: 0:42, 12:05, 1:02:03."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


class Live:
    """Shows the present measurement, its figures so far, and the remaining time; a context
    manager.
    """

    def __init__(self, total: int, *, show: bool = True) -> None:
        self._show = show
        self._console = Console(stderr=True)
        self._terminal = show and sys.stderr.isatty()
        self._progress = Progress(
            TextColumn("{task.percentage:>3.0f} %"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            transient=True,
        )
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._measured = 0
        self._task: TaskID | None = None
        self._rates: dict[tuple[str, str], list[float]] = {}
        self._latencies: dict[tuple[str, str], list[float]] = {}
        """In µs."""

    def __enter__(self) -> Live:
        if self._terminal:
            self._task = self._progress.add_task("", total=self._total)
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            self._progress.stop()

    def say(self, text: str) -> None:
        """Print a line."""
        if self._terminal:
            self._console.print(text, markup=False, highlight=False)
        elif self._show:
            print(text, file=sys.stderr, flush=True)

    def skip(self) -> None:
        """Count a measurement that an earlier run has made."""
        self._done += 1
        if self._task is not None:
            self._progress.update(self._task, completed=self._done)

    def more(self, count: int) -> None:
        """Expect further measurements."""
        self._total += count
        if self._task is not None:
            self._progress.update(self._task, total=self._total)

    def begin(self, system: str, title: str, number: int) -> None:
        """Show the present measurement, and the medians of its earlier rounds."""
        so_far = self.so_far(system, title)
        if self._task is not None:
            left = f", {clock(self._left())} left" if self._measured else ""
            self._progress.update(
                self._task, description=f"round {number}: {system}: {title}{so_far}{left}"
            )

    def so_far(self, system: str, title: str) -> str:
        """Return the medians of the rounds that have been measured, or ""."""
        rates = self._rates.get((system, title))
        if not rates:
            return ""
        latencies = self._latencies.get((system, title))
        latency = f", {statistics.median(latencies):,.1f} µs" if latencies else ""
        return f", {statistics.median(rates):,.0f} IOPS{latency} so far"

    def end(self, system: str, title: str, number: int, iops: float, mean_ns: float | None) -> None:
        """Show a result."""
        self._measured += 1
        self._rates.setdefault((system, title), []).append(iops)
        self.skip()
        latency = ""
        if mean_ns is not None:
            self._latencies.setdefault((system, title), []).append(mean_ns / 1000)
            latency = f", {mean_ns / 1000:,.1f} µs"
        left = (
            "" if self._terminal else f" ({self._done}/{self._total}, {clock(self._left())} left)"
        )
        self.say(f"round {number}: {system}: {title}: {iops:,.0f} IOPS{latency}{left}")

    def failed(self, system: str, title: str, number: int, why: str) -> None:
        """Show a failure."""
        self.skip()
        self.say(f"round {number}: {system}: {title}: failed: {why}")

    def _left(self) -> float:
        each = (time.monotonic() - self._began) / max(self._measured, 1)
        return each * (self._total - self._done)
