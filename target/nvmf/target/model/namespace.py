# SPDX-License-Identifier: BSD-3-Clause
"""A namespace, and its Identify data derived from the properties of its store."""

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
from nvmf.spec.memory import Access
from nvmf.spec.opcodes import Csi
from nvmf.target.command.engine import EngineNamespace, StoreFacts

ATOMIC_BLOCKS = 1 - 1
"""Atomic write unit, 0's based: one block on every store, also on power failure."""
_DLFEAT_WRITE_ZEROES = 1 << 3
"""Write Zeroes may deallocate."""
_COPY_BYTES = 1 << 20
"""Maximum bytes of one Copy: TARGET_COPY_BYTES of c/target/target.h."""
_COPY_RANGES = 128
"""Maximum source ranges of one Copy: TARGET_COPY_RANGES."""
_GRANULARITY_MOST = 1 << 16
"""Maximum of NPWG and the fields beside it, in logical blocks."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identifiers of a namespace, the same on all paths."""

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
        """Derive identifiers from subsystem, NSID and store; given ones take precedence.

        what: the store's path, or its kind.  Derived OUIs have the locally administered bit set.
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
    """The engine's namespace, which transfers data."""
    ana_group: int = 1
    """The initial ANA group."""
    limits: dict[str, int] = field(default_factory=dict, compare=False)
    """Limits, by the names in the configuration; empty: no limit."""

    memory: dict[str, Access] = field(default_factory=dict, compare=False)
    """The access that hosts have to it as memory, by NQN."""

    @property
    def blocks(self) -> int:
        """Number of logical blocks."""
        return self.store.size // self.store.block_size

    def stats(self) -> dict[str, int]:
        """Return the engine's counters, by name: nvmf.engine.Namespace.stats."""
        return dict(self.engine.stats)

    def identify(
        self,
        rescap: int = 0,
        ana_group: int = 1,
        *,
        protected: bool = False,
        lost: bool = False,
    ) -> bytes:
        """Return Identify Namespace (CNS 00h) with these Reservation Capabilities and ANA group.

        protected: whether the namespace is write protected by a host.  lost: whether its ANA state
        is inaccessible or persistent loss, in which NUSE is 0.
        """
        store = self.store
        data = _identify_data(
            self.identity,
            store.size,
            store.block_size,
            min(max(store.physical_block_size // store.block_size, 1), _GRANULARITY_MOST) - 1,
            store.deallocate,
            protected or store.read_only,
            rescap,
            ana_group,
            lost,
        )
        return data.ljust(IdentifyNamespace.SIZE, b"\0")

    def identify_nvm(self) -> bytes:
        """Return Identify Namespace, NVM command set (CNS 05h): no protection information."""
        return IdentifyNvmNamespace().encode()

    def identify_independent(
        self, rescap: int = 0, ana_group: int = 1, *, protected: bool = False
    ) -> bytes:
        """Return I/O command set independent Identify Namespace (CNS 08h); see identify()."""
        return IdentifyIndependentNamespace(
            nmic=NMIC_SHARED,
            rescap=rescap,
            anagrpid=ana_group,
            nsattr=NSATTR_WRITE_PROTECTED if protected or self.store.read_only else 0,
            nstat=1,
        ).encode()

    def ids(self) -> NamespaceIds:
        """Return the identifiers for its identification descriptors (CNS 03h)."""
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
    lost: bool,
) -> bytes:
    """Return Identify Namespace (CNS 00h) without trailing zeroes.

    Cached, because every host reads it for every namespace when it connects, after a restart all
    hosts at once.
    """
    info = IdentifyNamespace(
        nsze=size // block_size,
        ncap=size // block_size,
        nuse=0 if lost else size // block_size,
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
        mssrl=_COPY_BYTES // block_size,
        mcl=_COPY_BYTES // block_size,
        msrc=_COPY_RANGES - 1,
        nsattr=NSATTR_WRITE_PROTECTED if read_only else 0,
        nguid=identity.nguid,
        eui64=identity.eui64,
        lbafs=lba_format(block_size),
    )
    return info.encode().rstrip(b"\0")
