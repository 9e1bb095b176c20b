# SPDX-License-Identifier: BSD-3-Clause
"""The replicas that a write of a mirror waits for, with a clock of the test's."""

from __future__ import annotations

from nvmf.replication.machine import Op
from support.mirrorhands import BLOCK, DATA, REGION, REGIONS, Hands, ended


def written_to_two_slow_replicas() -> tuple[Hands, Op]:
    """Return a mirror with a write that a quorum has after three times the patience."""
    hands = Hands()
    hands.resynchronise()
    assert not hands.core.lagging
    hands.hold = {(1, "data"), (2, "data")}
    hands.tick(10.0)
    op = hands.write()
    hands.tick(13.0)
    assert not ended(op)
    hands.release(1)
    return hands, op


def test_a_replica_that_is_not_much_slower_than_the_quorum_does_not_lag() -> None:
    hands, op = written_to_two_slow_replicas()
    hands.tick(13.9)
    assert not ended(op)
    assert not hands.core.lagging
    hands.release(2)
    assert ended(op)
    assert not hands.core.lagging


def test_a_replica_lags_when_it_is_slower_than_the_quorum_by_the_patience() -> None:
    hands, op = written_to_two_slow_replicas()
    hands.tick(14.0)
    assert ended(op)
    assert [region.lag for region in hands.core.lagging.values()] == [0b100]


def test_a_region_for_which_a_write_waits_is_copied_first() -> None:
    hands = Hands()  # only the first replica has anything
    hands.core.rate, hands.core.used = 1.0, 0.0  # a byte a second: nothing else is copied
    last = (REGIONS - 1) * REGION
    op = hands.write(last)
    assert not ended(op)
    hands.resynchronise()
    assert ended(op)
    lags = {index: region.lag for index, region in hands.core.lagging.items()}
    assert lags == dict.fromkeys(range(REGIONS - 1), 0b110) | {REGIONS - 1: 0b100}
    place = hands.core.shape.start + last
    assert hands.disks[1][place : place + BLOCK] == DATA
