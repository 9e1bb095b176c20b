# SPDX-License-Identifier: BSD-3-Clause
"""The order of commands: no host waits for all commands of a different one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nvmf.target.io.turns import TURN, Turns


@dataclass(eq=False)
class Line:
    """A connection, as far as Turns uses it."""

    locked: bool = False
    waiting: deque[Any] = field(default_factory=deque)
    controller: Any = None

    @property
    def queue(self) -> Line:
        return self


class Loop:
    """A clock, and callbacks for the next turn."""

    def __init__(self) -> None:
        self.now = 100.0
        self.soon: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        ready, self.soon = self.soon, []
        for callback in ready:
            callback()


class Bench:
    """Turns whose commands take a given time."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.ran: list[Any] = []
        self.turns = Turns(cast(Any, self.loop), self._run)

    def _run(self, connection: Any, command: Any) -> None:
        self.ran.append(command)
        self.loop.now += command[1]

    def come(self, line: Line, name: str, count: int = 1, seconds: float = TURN / 4) -> None:
        for index in range(count):
            self.turns.command(cast(Any, line), cast(Any, (f"{name}{index}", seconds)))

    def took(self, turns: int) -> list[str]:
        """Return the commands that run in this many turns of the loop."""
        self.ran.clear()
        for _ in range(turns):
            self.loop.turn()
        return [name for name, _ in self.ran]


def test_at_once_and_in_order() -> None:
    bench = Bench()
    bench.come(Line(), "a", 2)
    bench.come(Line(), "b", 2)
    assert [name for name, _ in bench.ran] == ["a0", "a1", "b0", "b1"]
    assert bench.took(1) == []
    assert not bench.loop.soon, "an idle target sleeps"


def test_a_command_of_each_in_turn() -> None:
    """A host with a thousand commands, and two later ones with one and two."""
    bench = Bench()
    flood, other, late = Line(), Line(), Line()
    bench.come(flood, "f", 1000)
    bench.come(other, "o")
    bench.come(late, "l", 2)
    assert len(bench.ran) == 4
    assert bench.took(2) == ["f4", "o0", "l0", "f5", "l1", "f6", "f7", "f8"]
    while bench.loop.soon:
        bench.loop.turn()
    assert not flood.waiting


def test_strangers_behind_all_others() -> None:
    """Diffie-Hellman of a hundred connections: one per turn, and a Keep Alive before it."""
    bench = Bench()
    strangers = [Line(locked=True) for _ in range(100)]
    for line in strangers:
        bench.come(line, "dh", seconds=4 * TURN)
    assert len(bench.ran) == 1
    assert bench.took(2) == ["dh0", "dh0"]
    host = Line(controller=SimpleNamespace(last_seen=0.0))
    bench.come(host, "keep")
    assert host.controller.last_seen == bench.loop.now, "it was the target that was late"
    assert bench.took(2) == ["keep0", "dh0", "dh0"]


def test_what_is_dropped() -> None:
    """A closed connection no longer has a turn."""
    bench = Bench()
    gone, other = Line(), Line()
    bench.come(gone, "g", 10)
    bench.come(other, "o", 2)
    gone.waiting.clear()
    assert bench.took(3) == ["o0", "o1"]
    assert not bench.loop.soon


def test_nothing_stops_for_one_that_fails() -> None:
    bench = Bench()

    def run(connection: Any, command: Any) -> None:
        bench.ran.append(command)
        bench.loop.now += TURN
        if command[0] == "bad1":
            raise RuntimeError("inside the target")

    bench.turns = Turns(cast(Any, bench.loop), run)
    bad = Line()
    bench.come(bad, "bad", 3)
    with pytest.raises(RuntimeError):
        bench.loop.turn()
    assert bench.took(2) == ["bad2"]
