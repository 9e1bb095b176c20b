# SPDX-License-Identifier: BSD-3-Clause
"""The pace of copies to a replica that lags, with a clock of the test's."""

from __future__ import annotations

import pytest

from nvmf.replication.machine import Op
from nvmf.replication.pacing import Paced

CHUNK = 100_000


class Clocked:
    """A core with a limit of 1 MB/s, beside which operations are under way."""

    def __init__(self, operations: int, rate: float | None = 1e6) -> None:
        self.now = 100.0
        self.waits: list[float] = []
        self.core = Paced(2, 1)
        self.core.rate = rate
        self.core.clock = lambda: self.now
        self.core.wake = self.waits.append
        self.core.ops = {Op(): [] for _ in range(operations)}
        self.region = self.core.region(0)

    def copy(self, seconds: float) -> float:
        """Copy a chunk, which takes so long; return the time until the next one may begin."""
        began = self.now
        steps = self.core.pace(self.region, CHUNK)
        landing: float | None = began + seconds
        for waiting in steps:
            if not waiting:
                continue
            woken = self.now + self.waits[-1]
            if landing is not None and landing <= woken:
                self.now = landing
                landing = None
                self.core.landed(self.region, CHUNK)
            else:
                self.now = woken
        if landing is not None:
            self.now = max(self.now, landing)
            self.core.landed(self.region, CHUNK)
        return self.now - began


def test_fast_replicas_are_copied_to_at_the_limit() -> None:
    load = Clocked(1)
    for _ in range(10):
        load.copy(0.001)
    # 0.02 s may be caught up
    assert load.now == pytest.approx(101.0 - 0.02, abs=1e-6)


def test_slow_replicas_rest_for_twelve_times_what_they_took() -> None:
    load = Clocked(1)
    assert load.copy(0.04) == pytest.approx(0.04 + 12 * 0.02)
    busier = Clocked(7)
    assert busier.copy(0.04) == pytest.approx(0.04 + 12 * 0.005)


def test_there_is_a_least_pace() -> None:
    late = Clocked(1)
    assert late.copy(50.0) == 50.0  # its pause, at the limit, has ended before
    assert late.copy(0.001) == pytest.approx(16 * 0.1 + 0.1)


def test_nothing_waits_without_operations_or_without_a_limit() -> None:
    for load in (Clocked(0), Clocked(1, rate=None)):
        assert load.copy(0.0) == 0
        assert not load.waits


def test_copies_are_large_only_while_nobody_uses_the_mirror() -> None:
    quiet, used = Clocked(0), Clocked(1)
    assert quiet.core.stride(quiet.region) == 512 << 10
    core, region = used.core, used.region
    assert (core.stride(region), core.width(region), core.lanes()) == (128 << 10, 1, 1)
    quiet.core.used = quiet.now - 0.05
    assert quiet.core.stride(quiet.region) == 128 << 10


def test_a_region_for_which_a_write_waits_is_copied_without_a_limit() -> None:
    load = Clocked(1)
    load.core.wanted[load.region.index] = load.region
    assert load.copy(0.04) == pytest.approx(0.04)
    assert not load.waits
    assert load.core.width(load.region) == 8
    other = load.core.region(1)
    assert load.core.width(other) == 1
