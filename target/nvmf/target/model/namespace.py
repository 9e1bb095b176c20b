# SPDX-License-Identifier: BSD-3-Clause
"""A namespace as hosts are told of it: its store's promises in Identify's words."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from uuid import UUID

from nvmf.spec.identify_ns import (
    DLFEAT_READS_ZERO,
    NMIC_SHARED,
    NSATTR_WRITE_PROTECTED,
    NSFEAT_ATOMIC,
    NSFEAT_OPTPERF,
    IdentifyIndependentNamespace,
    IdentifyNamespace,
    IdentifyNvmNamespace,
    NamespaceIds,
    lba_format,
)
from nvmf.spec.opcodes import Csi
from nvmf.target.command.engine import EngineNamespace, StoreFacts

ATOMIC_BLOCKS = 1 - 1
"""Blocks that are read and written whole, 0's based: one, on every store, power failures too."""
_DLFEAT_WRITE_ZEROES = 1 << 3
"""Write Zeroes may deallocate."""


@dataclass(frozen=True, slots=True)
class Identity:
    """How a namespace is recognised, whatever path it is reached by."""

    uuid: UUID
    nguid: bytes
    """16 bytes."""
    eui64: bytes
    """8 bytes."""

    @classmethod
    def derive(
        cls,
        nqn: str,
        nsid: int,
        what: str,
        *,
        uuid: UUID | None = None,
        nguid: bytes | None = None,
        eui64: bytes | None = None,
    ) -> Identity:
        """Identifiers that stay the same for the same subsystem, NSID and store.

        what: the store's path, or its kind.  The made-up OUIs have the bit that says that they
        are administered locally.
        """
        digest = bytearray(hashlib.sha256(f"{nqn}\0{nsid}\0{what}".encode()).digest())
        digest[16] = digest[16] & 0xFC | 2
        digest[8] = digest[8] & 0xFC | 2
        made = UUID(bytes=bytes(digest[:16]), version=5)
        return cls(
            uuid or made,
            nguid or bytes(digest[:16]),
            eui64 or bytes(digest[16:24]),
        )


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace of one subsystem."""

    nsid: int
    store: StoreFacts
    identity: Identity
    engine: EngineNamespace
    """What moves its data."""
    ana_group: int = 1
    """The ANA group that it comes in."""
    limits: dict[str, int] = field(default_factory=dict, compare=False)
    """How much of it may be used, in the words of the configuration; empty: there is no limit."""

    @property
    def blocks(self) -> int:
        """Logical blocks."""
        return self.store.size // self.store.block_size

    def stats(self) -> dict[str, int]:
        """Counters of the engine, by name: nvmf.engine.Namespace.stats."""
        return dict(self.engine.stats)

    def identify(self, rescap: int = 0, ana_group: int = 1, *, protected: bool = False) -> bytes:
        """Identify Namespace (CNS 00h), with these Reservation Capabilities, in this group.

        protected: whether a host has protected it from writes.
        """
        store = self.store
        data = _identify_data(
            self.identity,
            store.size,
            store.block_size,
            max(store.physical_block_size // store.block_size, 1) - 1,
            store.deallocate,
            protected or store.read_only,
            rescap,
            ana_group,
        )
        return data.ljust(IdentifyNamespace.SIZE, b"\0")

    def identify_nvm(self) -> bytes:
        """Identify Namespace, NVM command set (CNS 05h): no protection information."""
        return IdentifyNvmNamespace().encode()

    def identify_independent(
        self, rescap: int = 0, ana_group: int = 1, *, protected: bool = False
    ) -> bytes:
        """I/O command set independent Identify Namespace (CNS 08h), with the same."""
        return IdentifyIndependentNamespace(
            nmic=NMIC_SHARED,
            rescap=rescap,
            anagrpid=ana_group,
            nsattr=NSATTR_WRITE_PROTECTED if protected or self.store.read_only else 0,
            nstat=1,
        ).encode()

    def ids(self) -> NamespaceIds:
        """What its identification descriptors say (CNS 03h)."""
        identity = self.identity
        return NamespaceIds(identity.eui64, identity.nguid, identity.uuid, Csi.NVM)


@lru_cache(maxsize=8192)
def _identify_data(
    identity: Identity,
    size: int,
    block_size: int,
    granularity: int,
    deallocate: bool,
    read_only: bool,
    rescap: int,
    ana_group: int,
) -> bytes:
    """Identify Namespace (CNS 00h) without the zeroes at its end.

    Every host asks for that of every namespace when it connects, all at once after a restart.
    """
    info = IdentifyNamespace(
        nsze=size // block_size,
        ncap=size // block_size,
        nuse=size // block_size,
        nsfeat=NSFEAT_OPTPERF | NSFEAT_ATOMIC,
        nawun=ATOMIC_BLOCKS,
        nawupf=ATOMIC_BLOCKS,
        nacwu=ATOMIC_BLOCKS,
        nabsn=0,
        nabo=0,
        nabspf=0,
        nmic=NMIC_SHARED,
        rescap=rescap,
        anagrpid=ana_group,
        dlfeat=DLFEAT_READS_ZERO | _DLFEAT_WRITE_ZEROES if deallocate else 0,
        nvmcap=size,
        npwg=granularity,
        npwa=granularity,
        npdg=granularity,
        npda=granularity,
        nows=granularity,
        nsattr=NSATTR_WRITE_PROTECTED if read_only else 0,
        nguid=identity.nguid,
        eui64=identity.eui64,
        lbafs=lba_format(block_size),
    )
    return info.encode().rstrip(b"\0")
