# SPDX-License-Identifier: BSD-3-Clause
"""Trains of the embedded RoCEv2 device: packets of one length, sent with one system call."""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import Any

import pytest

from nvmf.initiator import connect
from nvmf.spec.opcodes import IoOpcode
from nvmf.target import serve
from support.roce import READ_REQUEST, Relay, own_address

OPTIONS: dict[str, Any] = {"device": "roce", "queues": 1, "connect_timeout": 60.0}
SEND_ONLY, WRITE_ONLY, SEND_ONLY_WITH_INVALIDATE = 0x04, 0x0A, 0x17
BTH = 12
TRAIN = 15


class Together:
    """Lets a number of Reads reach the target together, and notes what it answers."""

    def __init__(self) -> None:
        self.wanted = 0
        self.held: dict[bytes, bytes] = {}
        self.answers: dict[bytes, str] = {}
        """By PSN: they may be repeated, too."""

    def __call__(self, packet: bytes) -> list[bytes]:
        """Return what the relay sends in place of a packet."""
        if not self.wanted:
            return [packet]
        if packet[0] == SEND_ONLY and packet[BTH] == IoOpcode.READ:
            self.held[packet[8:12]] = packet  # by PSN: it may be repeated
            if len(self.held) < self.wanted:
                return []
            held, self.held = self.held, {}
            return list(held.values())
        if packet[0] in (WRITE_ONLY, SEND_ONLY_WITH_INVALIDATE):
            self.answers[packet[8:12]] = "data" if packet[0] == WRITE_ONLY else "response"
        return [packet]


@pytest.mark.parametrize("reads", [4, TRAIN, TRAIN + 5])
async def test_data_of_small_reads_precedes_their_responses(reads: int) -> None:
    """As many as fill a train: all data is sent with one system call, then all responses."""
    together = Together()
    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        with Relay(target.ports[0][0], together, together=True) as relay:
            url = target.url.replace(target.ports[0][0], relay.address)
            async with connect(url, **OPTIONS) as controller:
                disk = controller.namespaces[0]
                for number in range(reads):
                    await disk.write(8 * number, bytes([number + 1]) * 4096)
                together.wanted = reads
                found = await asyncio.gather(*(disk.read(8 * n, 8) for n in range(reads)))
                together.wanted = 0
    assert found == [bytes([number + 1]) * 4096 for number in range(reads)]
    parts = [min(TRAIN, reads - first) for first in range(0, reads, TRAIN)]
    answers = [(what, len(list(group))) for what, group in groupby(together.answers.values())]
    assert answers == [(what, part) for part in parts for what in ("data", "response")]


@pytest.mark.parametrize(("writes", "size", "fetched"), [(4, 4096, 0), (9, 4096, 5), (9, 3584, 0)])
async def test_data_of_many_writes_is_fetched(writes: int, size: int, fetched: int) -> None:
    """Commands beyond four send no data of 4 KiB, which would need two packets each."""
    kinds: list[int] = []

    def note(packet: bytes) -> list[bytes]:
        kinds.append(packet[0])
        return [packet]

    data = [bytes([number + 1]) * size for number in range(writes)]
    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        with Relay(target.ports[0][0], note) as relay:
            url = target.url.replace(target.ports[0][0], relay.address)
            async with connect(url, **OPTIONS) as controller:
                disk = controller.namespaces[0]
                await disk.write(0, data[0])
                kinds.clear()
                await asyncio.gather(*(disk.write(8 * n, part) for n, part in enumerate(data)))
                assert kinds.count(READ_REQUEST) == fetched
                found = [await disk.read(8 * n, size // 512) for n in range(writes)]
    assert found == data
