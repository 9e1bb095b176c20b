# SPDX-License-Identifier: BSD-3-Clause
"""The client's own multipath: the choice of a path for a command."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

import pytest

from nvmf.initiator import NvmeError
from nvmf.initiator.multipath import Policy, connect_multipath
from nvmf.initiator.multipath.policy import chooser, usable
from nvmf.spec.ana import AnaState
from support.multipathrig import STEADY, counts, knows, two_ports


@dataclass
class Fake:
    """A path, as a policy sees it."""

    number: int
    outstanding: int = 0


def test_policies() -> None:
    """Optimized before non-optimized, and no other states; then by the policy."""
    a, b, c = Fake(0, 3), Fake(1, 2), Fake(2, 2)
    good, fair = AnaState.OPTIMIZED, AnaState.NON_OPTIMIZED
    assert usable([(a, fair), (b, good), (c, good)]) == [b, c]
    assert usable([(a, fair), (b, AnaState.CHANGE), (c, fair)]) == [a, c]
    assert usable([(a, AnaState.INACCESSIBLE), (b, AnaState.PERSISTENT_LOSS), (c, None)]) == []
    assert [chooser("numa")([a, b, c], last) for last in (-1, 0, 2)] == [a, a, a]
    assert [chooser("round-robin")([a, b, c], last) for last in (-1, 0, 1, 2)] == [a, b, c, a]
    assert chooser("round-robin")([a, c], 1) is c
    assert chooser("round-robin")([b], 1) is b
    assert chooser("queue-depth")([a, b, c], 1) is b
    with pytest.raises(ValueError, match="numa, round-robin, queue-depth"):
        chooser("fastest")


@pytest.mark.parametrize(
    ("policy", "expected"), [("numa", [16, 0]), ("round-robin", [8, 8]), ("queue-depth", [8, 8])]
)
async def test_shares(policy: Policy, expected: list[int]) -> None:
    """How the policies distribute sixteen concurrent commands over the paths."""
    async with (
        two_ports() as lab,
        connect_multipath(lab.urls, policy=policy, **STEADY) as subsystem,
    ):
        namespace = subsystem.namespace(1)
        await asyncio.gather(*(namespace.read(lba, 1) for lba in range(16)))
        assert counts(subsystem) == expected
        for path, share in zip(subsystem.paths, expected, strict=True):
            assert path.controller is not None
            assert path.controller.session.queues[0].completed == share + 1  # and Connect
        subsystem.policy = "numa"
        await namespace.flush()
        assert counts(subsystem) == [expected[0] + 1, expected[1]]


async def test_long_transfers_are_spread() -> None:
    """The pieces of one transfer use both paths."""
    async with (
        two_ports() as lab,
        connect_multipath(lab.urls, policy="round-robin", **STEADY) as subsystem,
    ):
        namespace = subsystem.namespace(1)
        data = secrets.token_bytes(2 << 20)
        await namespace.write(3, data)
        assert counts(subsystem) == [4, 4]
        into = bytearray(len(data))
        assert await namespace.readinto(3, into) == len(data)
        assert into == data
        with pytest.raises(NvmeError, match="LBA Out of Range"):
            await namespace.write(namespace.blocks - 256, data)
        assert await namespace.read(namespace.blocks - 256, 256) == bytes(1 << 20)
        with subsystem.alloc(8192) as memory:
            memoryview(memory)[:] = data[:8192]
            await namespace.write(0, memory)
        await namespace.compare(0, data[:8192])
        with pytest.raises(NvmeError, match="Compare Failure"):
            await namespace.compare(0, bytes(8192))
        await namespace.write_zeroes(0, 2)
        await namespace.verify(0, 2)
        await namespace.deallocate([(0, 1), (1, 1)])
        assert await namespace.read(0, 2) == bytes(8192)
        controller = subsystem.paths[0].controller
        assert controller is not None
        with controller.alloc(4096) as registered, pytest.raises(ValueError, match="one path"):
            await namespace.write(0, registered)


async def test_by_ana_state() -> None:
    """A state that a target reports while hosts are connected applies to the next command."""
    async with two_ports() as lab, connect_multipath(lab.urls, **STEADY) as subsystem:
        namespace = subsystem.namespace(1)
        before = [0, 0]
        for states, chosen in (
            (("optimized", "optimized"), 0),
            (("non-optimized", "optimized"), 1),
            (("non-optimized", "non-optimized"), 0),
            (("inaccessible", "non-optimized"), 1),
            (("optimized", "persistent-loss"), 0),
            (("change", "optimized"), 1),
        ):
            for index, state in enumerate(states):
                await lab.ana(index, state)
                await knows(subsystem, index, AnaState.of(state))
            await namespace.flush()
            before[chosen] += 1
            assert counts(subsystem) == before
        assert [path.failovers for path in subsystem.paths] == [0, 0]


async def test_waits_for_a_state() -> None:
    """While paths exist but none may be used, commands wait."""
    async with two_ports() as lab, connect_multipath(lab.urls, **STEADY) as subsystem:
        for index in range(2):
            await lab.ana(index, "inaccessible")
            await knows(subsystem, index, AnaState.INACCESSIBLE)
        waiting = asyncio.create_task(subsystem.namespace(1).read(0, 1))
        await subsystem.refresh()
        assert not waiting.done()
        await lab.ana(1, "non-optimized")
        assert await waiting == bytes(4096)
        assert counts(subsystem) == [0, 1]
