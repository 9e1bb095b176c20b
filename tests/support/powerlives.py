# SPDX-License-Identifier: BSD-3-Clause
"""Memory that is repeatedly written, crashed and checked: see powerrecords, powerload."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from support.powerload import Plan, Way
from support.powerrecords import History, check

PATIENCE = 60.0
"""Seconds after which a wait counts as a hang; an emulated machine needs more."""
_SCRIPT = Path(__file__).with_name("powerload.py")
_TESTS = _SCRIPT.parents[1]


class Lives:
    """A range of memory, and what was written to it between two crashes of its target."""

    def __init__(
        self,
        folder: Path,
        ways: Sequence[Way],
        seed: int,
        *,
        wrapper: Sequence[str] = (),
        host_traddr: str | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """wrapper: Words before the command line of the program that writes."""
        self._folder = folder
        self._ways = tuple(ways)
        self._wrapper = tuple(wrapper)
        self._host_traddr = host_traddr
        self._patience = patience
        self._random = random.Random(seed)
        self._seed = seed
        self._life = 0
        self._base = b""
        self._history = History()
        self._process: subprocess.Popen[bytes] | None = None
        self.kills: Counter[str] = Counter()
        """The number of crashes, by method and device, after which all data was found."""
        self.fates: Counter[str] = Counter()
        """The fates of writes that were outstanding at a crash."""
        self.acknowledged = 0

    def prepare(self, *, load: bool = True) -> None:
        """Start the program that writes, which waits for begin(): while the target starts."""
        self._life += 1
        plan = Plan(
            self._life,
            self._seed,
            self._ways,
            str(self._path("image")),
            str(self._path("journal")),
            self._host_traddr,
            load,
        )
        with self._path("log").open("wb") as output:
            self._process = subprocess.Popen(
                [*self._wrapper, "env", f"PYTHONPATH={_TESTS}", sys.executable, str(_SCRIPT),
                 plan.encode()],
                stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def begin(self, *, load: bool = True) -> None:
        """Check the memory of a target that has come back, and start to write again.

        load: Write; otherwise only check. It has no meaning after prepare().
        """
        if self._process is None:
            self.prepare(load=load)
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # below, its output is shown
            self._process.stdin.write(b"go\n")
            self._process.stdin.close()
        image, log = self._path("image"), self._path("log")
        self._until(lambda: log.read_bytes().startswith(b"read\n"), "the memory was read")
        found = image.read_bytes()
        image.unlink()
        if self._base:
            self.fates += check(self._base, self._history, found)
            self.acknowledged += self._history.acknowledged.total()
            self.kills.update(str(way) for way in self._ways)
        self._base = found

    def write_for_a_while(self, least: int = 5, most: int = 300) -> None:
        """Wait until some writes of every worker are acknowledged, and then a random number of
        writes.
        """
        workers = sum(way.workers for way in self._ways)

        def all_at_work() -> bool:
            counts = self._now().acknowledged
            return len(counts) == workers and min(counts.values()) >= least

        self._until(all_at_work, f"every worker has {least} writes acknowledged")
        wanted = self._now().acknowledged.total() + self._random.randrange(most)
        self._until(lambda: self._now().acknowledged.total() >= wanted, "more were acknowledged")
        assert self._process is not None
        assert self._process.poll() is None, self._log

    def end(self) -> None:
        """The target has crashed: end the program that writes, and keep its journal.

        Call this before the target returns, since hosts repeat unanswered commands.
        """
        self.close()
        self._history = self._now()
        self._path("journal").unlink(missing_ok=True)

    def close(self) -> None:
        """End the program that writes, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def __str__(self) -> str:
        kills = ", ".join(f"{way}: {count}" for way, count in sorted(self.kills.items()))
        fates = ", ".join(f"{count} {fate}" for fate, count in sorted(self.fates.items()))
        return (
            f"kills survived: {kills or 'none'}; {self.acknowledged} acknowledged writes found; "
            f"of the writes under way {fates or 'there were none'}"
        )

    def _now(self) -> History:
        return History.of(self._path("journal"))

    @property
    def _log(self) -> str:
        return self._path("log").read_text(errors="replace")[-4000:]

    def _path(self, what: str) -> Path:
        return self._folder / f"{what}{self._life}"

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        assert self._process is not None
        end = time.monotonic() + self._patience
        while not reached():
            running = self._process.poll() is None
            if (not running and not reached()) or time.monotonic() > end:
                why = f"within {self._patience:g} s" if running else "before the program ended"
                raise AssertionError(f"not {why}: {what}\n{self._log}")
            time.sleep(0.005)
