# SPDX-License-Identifier: BSD-3-Clause
"""The checker of linearizability: known histories, and all orders tried on small random ones."""

from __future__ import annotations

from itertools import permutations
from math import inf
from random import Random

import pytest

from nvmf.replication.history import Access, violation


def write(value: int, start: float, end: float = inf) -> Access:
    return Access(value, start, end, True)


def read(value: int | None, start: float, end: float) -> Access:
    return Access(value, start, end, False)


BAD = {
    "stale": [write(1, 0, 1), read(None, 2, 3)],
    "never written": [read(7, 0, 1)],
    "from the future": [read(1, 0, 1), write(1, 2, 3)],
    "new, then old": [write(1, 0, 1), write(2, 2, 9), read(2, 3, 4), read(1, 5, 6)],
    "lost": [write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)],
    "seen, then gone": [write(1, 0), read(1, 1, 2), read(None, 3, 4)],
    "back after a crash": [write(1, 0), read(None, 1, 2), read(1, 3, 4), read(None, 5, 6)],
    "two at once": [write(1, 0, 1), write(2, 0, 1), read(1, 2, 3), read(2, 4, 5), read(1, 6, 7)],
}
GOOD = {
    "empty": [],
    "in order": [write(1, 0, 1), read(1, 2, 3), write(2, 4, 5), read(2, 6, 7)],
    "during the write": [write(1, 0, 9), read(None, 1, 2), read(1, 3, 4), read(1, 5, 6)],
    "unknown, and there": [write(1, 0), read(None, 1, 2), read(1, 3, 4)],
    "unknown, and not there": [write(1, 0), read(None, 1, 2), write(2, 3, 4), read(2, 5, 6)],
    "two at once": [write(1, 0, 1), write(2, 0, 1), read(1, 2, 3)],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_histories_are_seen(name: str) -> None:
    assert violation(BAD[name])


@pytest.mark.parametrize("name", GOOD)
def test_good_ones_pass(name: str) -> None:
    assert violation(GOOD[name]) is None


def possible(history: list[Access]) -> bool:
    """Try every order that keeps what ended before something else began."""
    optional = [a for a in history if a.write and a.end == inf]
    for mask in range(1 << len(optional)):
        dropped = {id(a) for i, a in enumerate(optional) if mask >> i & 1}
        for order in permutations([a for a in history if id(a) not in dropped]):
            if any(b.end < a.start for i, a in enumerate(order) for b in order[i + 1 :]):
                continue
            value: object = None
            for access in order:
                if access.write:
                    value = access.value
                elif access.value != value:
                    break
            else:
                return True
    return False


def test_it_agrees_with_every_order() -> None:
    random = Random(1)
    seen = {True: 0, False: 0}
    for _ in range(1500):
        history = []
        times = [random.random() for _ in range(12)]
        values: list[int | None] = [None]
        for i in range(random.randrange(2, 6)):
            start, end = sorted(times[2 * i : 2 * i + 2])
            if random.random() < 0.5:
                history.append(write(i, start, inf if random.random() < 0.2 else end))
                values.append(i)
            else:
                history.append(read(random.choice(values), start, end))
        truth = possible(history)
        seen[truth] += 1
        assert (violation(history) is None) == truth, history
    assert min(seen.values()) > 100


def test_a_value_is_written_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        violation([write(1, 0, 1), write(1, 2, 3)])
