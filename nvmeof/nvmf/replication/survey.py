# SPDX-License-Identifier: BSD-3-Clause
"""The legs that a configuration names: which of them belongs where in a mirror."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

from nvmf.config.mirror import LegConfig
from nvmf.initiator import ConnectOptions
from nvmf.replication.filereplica import FileReplica
from nvmf.replication.machine import Damaged, ReplicaError, ReplicationError
from nvmf.replication.mapped import MappedReplica, is_device_dax
from nvmf.replication.mirrorformat import BLANK, SLOT, START, Geometry, Header
from nvmf.replication.replica import NamespaceReplica, Replica

_PATIENCE = 5.0
"""Seconds for a leg to answer."""


class MemoryReplica:
    """Memory of this process: blank when it starts."""

    name = "ram"

    def __init__(self, size: int, unit: int) -> None:
        self.size = size // unit * unit
        self.unit = unit
        self._bytes = bytearray(self.size)

    async def fence(self) -> None:
        """Do nothing: there is no other writer."""

    async def read(self, offset: int, length: int) -> bytes:
        """Return bytes."""
        return bytes(self._bytes[offset : offset + length])

    async def write(self, offset: int, data: bytes) -> None:
        """Write bytes."""
        if offset + len(data) > self.size:
            raise ReplicaError(f"it ends before byte {offset + len(data)}")
        self._bytes[offset : offset + len(data)] = data

    async def flush(self) -> None:
        """There is nothing to do."""

    async def close(self) -> None:
        """Do nothing: the contents stay."""


_MISSING = (
    "the configuration does not have it: if it was added without target save, add it to the file"
)


class Absent:
    """In the place of a leg that the configuration no longer has, until the mirror has one less."""

    name = "a leg that is not in the configuration"
    size = unit = 0

    async def fence(self) -> None:
        """Fail."""
        raise ReplicaError(_MISSING)

    async def read(self, offset: int, length: int) -> bytes:
        """Fail."""
        raise ReplicaError(_MISSING)

    async def write(self, offset: int, data: bytes) -> None:
        """Fail."""
        raise ReplicaError(_MISSING)

    async def flush(self) -> None:
        """Fail."""
        raise ReplicaError(_MISSING)

    async def close(self) -> None:
        """There is nothing to do."""


def replica_for(leg: LegConfig, unit: int, *, reserve: bool) -> Replica:
    """Return the replica of a leg; unit: bytes of a block of files and memory."""
    if leg.ram is not None:
        return MemoryReplica(leg.ram, unit)
    if leg.path is not None:
        if leg.store == "pmem" or (leg.store is None and is_device_dax(leg.path)):
            return MappedReplica(leg.path, unit=unit)
        return FileReplica(leg.path, unit=unit)
    assert leg.url is not None
    options = ConnectOptions()
    if leg.hostnqn is not None:
        options = options.with_options({"hostnqn": leg.hostnqn})
    keys = (
        ("dhchap_secret_file", leg.dhchap_key_file),
        ("dhchap_ctrl_secret_file", leg.dhchap_ctrl_key_file),
    )
    for key, path in keys:
        if path is not None:
            options = options.with_options({key: os.fspath(path)})
    return NamespaceReplica(leg.url, leg.nsid, reserve=reserve, options=options)


@dataclass(frozen=True)
class Found:
    """The contents of a replica."""

    header: Header | None = None
    blank: bool = False
    """It has only zeroes where the header should be, and behind it: see mirrorformat.BLANK."""
    why: str = ""
    """Why it cannot be read, or is nothing of a mirror."""
    away: bool = False
    """It cannot be reached."""

    @property
    def here(self) -> bool:
        """Whether it could be read."""
        return self.header is not None or self.blank


async def look(replica: Replica) -> Found:
    """Fence a replica, and read its header."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await replica.fence()
            if replica.size < START:
                return Found(why=f"it has only {replica.size} bytes")
            slots = [await replica.read(at, SLOT) for at in (0, SLOT)]
            rest = min(replica.size, BLANK) - START
            if rest and not any(map(any, slots)):
                slots.append(await replica.read(START, rest))
    except TimeoutError:
        return Found(why=f"it has not answered for {_PATIENCE:g} s", away=True)
    except Exception as error:  # whatever a replica raises, it cannot be used
        return Found(why=str(error), away=True)
    try:
        header = Header.best(slots)
    except Damaged as error:
        return Found(why=str(error))
    if header is not None:
        return Found(header)
    if not any(slot.strip(b"\0") for slot in slots):
        return Found(blank=True)
    return Found(
        why="it has data that is not of a mirror: if it is not needed, write zeroes over its first "
        f"{BLANK} bytes"
    )


async def examine(
    leg: LegConfig, shape: Geometry, unit: int, same: Replica, before: Replica | None
) -> Found:
    """Look at a new leg of a mirror that is open; raise ReplicationError if it cannot be used.

    It is not taken from anyone who uses it: it may be one of this mirror's by a different address,
    or one of a different mirror.  But if its identity is that of the leg before, whose place it
    takes, it is this mirror's.

    Args:
        leg: The leg.
        shape: The form of the mirror.
        unit: See replica_for().
        same: Its new replica, which is fenced only if it is blank memory or this mirror's.
        before: The replica before, which is closed.
    """
    replica = same if leg.ram is not None else replica_for(leg, unit, reserve=False)
    try:
        found = await look(replica)
    finally:
        await replica.close()
    if (
        not found.here
        and isinstance(replica, NamespaceReplica)
        and isinstance(before, NamespaceReplica)
        and replica.identity
        and replica.identity == before.identity
    ):
        found = await look(same)
    why = found.why
    needed = shape.start + shape.size
    if found.here and found.header is not None and found.header.geometry.uuid != shape.uuid:
        why = (
            "it belongs to a different mirror; if that is not needed, write zeroes over its first "
            f"{BLANK} bytes"
        )
    elif found.here and replica.size < needed:
        why = f"it has {replica.size} bytes, and the mirror needs {needed}"
    if why:
        raise ReplicationError(f"cannot use {leg.name} as a leg: {why}")
    return found


async def release(replica: Replica) -> None:
    """Give up a replica, so that others may use it: best effort."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_PATIENCE):
            if isinstance(replica, NamespaceReplica):
                await replica.fence()
                await replica.give_up()
    with contextlib.suppress(Exception):
        await replica.close()


def unused(found: Sequence[Found]) -> list[Found]:
    """Return what was found, with blank legs in place of those of a mirror that was never opened.

    Its creation did not end: some legs have a header and others do not.  The first writer, before
    which there is nothing to lose, has claimed the mirror with epoch 1.
    """
    begun = any(one.blank for one in found) and all(
        one.blank or (one.header is not None and not one.header.epoch) for one in found
    )
    return [Found(blank=True) for _ in found] if begun else [*found]


def form_of(found: Sequence[Found]) -> Geometry | None:
    """Return the present form of the mirror that most legs belong to."""
    shapes = [one.header.geometry for one in found if one.header and not one.header.fresh]
    of = [shape.uuid for shape in shapes]
    return max(
        shapes, key=lambda one: (of.count(one.uuid), one.term, shapes.count(one)), default=None
    )


def arrange(found: Sequence[Found], shape: Geometry) -> list[int | None]:
    """Return the leg (its place in found) for each index of a mirror.

    Headers say it.  For the other indices: legs of an earlier form, those that cannot be reached,
    and blank ones, in this order.  None: there is no leg for the index.
    """
    places: list[int | None] = [None] * shape.legs
    rest = []
    for leg, one in enumerate(found):
        header = one.header
        mine = header is not None and header.geometry == shape
        if header is not None and mine and places[header.index] is None:
            places[header.index] = leg
        else:
            rest.append(leg)

    def rank(leg: int) -> int:
        header = found[leg].header
        if header is not None:
            return 0 if header.geometry.uuid == shape.uuid else 3
        return 2 if found[leg].blank else 1

    rest.sort(key=rank)
    for index, place in enumerate(places):
        if place is None and rest:
            places[index] = rest.pop(0)
    return places
