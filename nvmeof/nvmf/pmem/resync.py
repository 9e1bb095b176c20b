# SPDX-License-Identifier: BSD-3-Clause
"""Measures resynchronisation: its speed, and what it takes from the load beside it.

A pair of slices: the load writes for a while, then it writes while a replica, which has taken the
place of one, is copied as a whole. Alternating slices of one run are compared, because other work
of the machine changes from minute to minute.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from statistics import median

from nvmf.pmem.gathering import load_of
from nvmf.pmem.replicarows import ReplicaPlan, ResyncRow
from nvmf.replication import Mirror, NamespaceReplica, Replica
from nvmf.replication.machine import ReplicaError
from nvmf.replication.pacing import Paced

_SLICE = 0.25
"""Seconds of a slice, at most: less if the replica has been copied before."""
_LARGEST = 64 << 20
"""Bytes of a replica that are used."""
_IDLE = 3
"""Resynchronisations without a load, of which the median counts."""
_CHUNK = Paced.most_chunk
_CHUNKS = Paced.most_chunks
"""As a mirror copies."""
_LIMIT = 32e6
"""The default of a mirror."""


class _Part(NamespaceReplica):
    """The first bytes of a namespace."""

    async def fence(self) -> None:
        await super().fence()
        self.size = min(self.size, _LARGEST)


async def measure_resync(
    plan: ReplicaPlan, rows: list[ResyncRow], say: Callable[[str], None]
) -> None:
    """Measure at each size and depth, and add the rows; nothing with fewer than two replicas.

    The content of the namespaces is lost.

    Raises:
        OSError: A replica cannot be reached.
        ReplicationError: The mirror cannot be used.
    """
    if len(plan.urls) < 2:
        return
    say("measuring copies without a mirror")
    copied = await _copy(plan)
    system = f"mirror of {len(plan.urls)}, quorum {plan.quorum}"
    async with Mirror(list(map(_Part, plan.urls)), plan.quorum, resync_rate=_LIMIT) as mirror:
        await mirror.create()
        await mirror.clean()
        for size in plan.sizes:
            for depth in plan.depths:
                if size % mirror.block_size or size > mirror.size:
                    continue
                say(f"measuring {system}, resynchronised, beside {size} bytes, depth {depth}")
                rows.append(await _Pairs(plan, mirror, size, depth).row(system, copied))


class _Pairs:
    """Pairs of slices at one size and depth."""

    def __init__(self, plan: ReplicaPlan, mirror: Mirror, size: int, depth: int) -> None:
        self._plan = plan
        self._mirror = mirror
        self._size = size
        self._depth = depth
        self._data = random.randbytes(size)

    async def row(self, system: str, copied: float) -> ResyncRow:
        mirror, count = self._mirror, max(round(self._plan.seconds / _SLICE), 1)
        without, during, speeds = [], [], []
        for _ in range(count):
            without.append(await self._load(time.monotonic() + _SLICE))
            before = await self._replace()
            began = time.monotonic()
            during.append(await self._load(began + _SLICE, until_clean=True))
            speeds.append((before - self._lagging()) / (time.monotonic() - began))
            await mirror.clean()
        idle = [await self._idle() for _ in range(_IDLE)]
        pairs = zip(without, during, strict=True)
        return {
            "system": system,
            "size": self._size,
            "depth": self._depth,
            "limit": mirror.resync_rate,
            "slices": count,
            "without_iops": median(without),
            "during_iops": median(during),
            "loss": median(1 - b / a if a else 0.0 for a, b in pairs),
            "during_bytes_per_second": median(speeds),
            "idle_bytes_per_second": median(idle),
            "copy_bytes_per_second": copied,
        }

    async def _idle(self) -> float:
        """Return the bytes per second that are copied without a load."""
        before = await self._replace()
        began = time.monotonic()
        await self._mirror.clean()
        return before / (time.monotonic() - began)

    async def _replace(self) -> int:
        """Put a blank replica in the place of the last one; return the bytes to copy."""
        last = len(self._plan.urls) - 1
        await self._mirror.replace(last, _Part(self._plan.urls[last]))
        return self._lagging()

    def _lagging(self) -> int:
        """Bytes in which replicas lag; whole regions."""
        form = self._mirror.form
        return sum(one.lagging for one in self._mirror.replicas) * form.region

    async def _load(self, until: float, *, until_clean: bool = False) -> float:
        """Write until a time, or until nothing lags; return writes per second."""
        mirror, size = self._mirror, self._size
        places = range(mirror.size // size)
        done, over = 0, False
        began = time.monotonic()

        async def write() -> None:
            nonlocal done, over
            while not over:
                await mirror.write(random.choice(places) * size, self._data)
                done += 1
                over |= time.monotonic() >= until
                over |= until_clean and not done % 32 and not self._lagging()

        await load_of(write() for _ in range(self._depth))
        return done / (time.monotonic() - began)


async def _copy(plan: ReplicaPlan) -> float:
    """Copy from the first namespace to the second one for a while; return bytes per second."""
    source, target = (_Part(url) for url in plan.urls[:2])
    try:
        await source.fence()
        await target.fence()
        size = min(source.size, target.size)
        if size < _CHUNK:
            raise ReplicaError(f"the namespaces have less than {_CHUNK} bytes")
        return await _copy_for(source, target, size // _CHUNK, max(plan.seconds / 2, _SLICE))
    finally:
        await source.close()
        await target.close()


async def _copy_for(source: Replica, target: Replica, chunks: int, seconds: float) -> float:
    began = time.monotonic()
    copied = 0

    async def work(number: int) -> None:
        nonlocal copied
        while time.monotonic() < began + seconds:
            at = number % chunks * _CHUNK
            await target.write(at, await source.read(at, _CHUNK))
            copied += _CHUNK
            number += _CHUNKS

    await load_of(map(work, range(_CHUNKS)))
    return copied / (time.monotonic() - began)
