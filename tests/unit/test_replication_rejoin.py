# SPDX-License-Identifier: BSD-3-Clause
"""Replicas of a mirror that come back: two at the same time, and one that a dead writer claimed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvmf.replication.machine import Fenced, LegState, Op, ReplicaError
from nvmf.replication.mirrorbase import MirrorState
from nvmf.replication.mirrorformat import SLOT
from support.mirrorhands import Hands

FOREIGN = b"somebody's disk ".ljust(SLOT, b"\5")


def test_a_header_is_written_only_to_a_replica_that_was_looked_at() -> None:
    hands = Hands()
    hands.resynchronise()
    core = hands.core
    for leg in (1, 2):
        core.lose(leg, ReplicaError("the cable is out"))
    hands.go_on()
    hands.disks[2][: 2 * SLOT] = FOREIGN * 2
    hands.hold = {(2, "fence")}
    second = core.run(Op(), core.rejoin(2))
    hands.go_on()
    first = core.run(Op(), core.rejoin(1))
    hands.go_on()
    assert first.done
    assert first.error is None
    assert core.legs[1].state is LegState.IN
    assert hands.disks[2][: 2 * SLOT] == FOREIGN * 2
    hands.release(2, "fence")
    assert second.done
    assert "it has no valid header of a mirror" in str(second.error)
    assert hands.disks[2][: 2 * SLOT] == FOREIGN * 2


def claimed_by_an_earlier_writer() -> Hands:
    """Return a mirror whose replica 1 comes back with the header of a writer that died."""
    hands = Hands()
    hands.resynchronise()
    hands.core.lose(1, ReplicaError("the cable is out"))
    hands.go_on()
    header = hands.header(1)
    joins = (header.joins[0], header.joins[1] + 1, header.joins[2])
    claim = replace(header, epoch=header.epoch + 3, seq=header.seq + 40, joins=joins).encode()
    hands.disks[1][: len(claim)] = claim
    return hands


def test_a_writer_that_died_when_it_had_claimed_one_replica() -> None:
    hands = claimed_by_an_earlier_writer()
    core = hands.core
    claim = hands.header(1)
    op = core.run(Op(), core.rejoin(1))
    hands.go_on()
    assert op.done
    assert op.error is None
    assert core.state is MirrorState.CLEAN
    assert [hands.header(leg).epoch for leg in range(3)] == [claim.epoch + 1] * 3
    assert hands.header(1).seq > claim.seq
    assert hands.write().done


@pytest.mark.parametrize("fenced", [False, True])
def test_a_writer_that_may_have_taken_over(fenced: bool) -> None:
    hands = claimed_by_an_earlier_writer()
    core = hands.core
    hands.refuses = {2: Fenced("a different writer") if fenced else ReplicaError("out of reach")}
    op = core.run(Op(), core.rejoin(1))
    hands.go_on()
    assert op.done
    assert core.state is MirrorState.DEPOSED
    assert "a different writer has taken over" in str(op.error)
