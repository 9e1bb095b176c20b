# SPDX-License-Identifier: BSD-3-Clause
"""How large a namespace is, and what ranges of blocks there can be."""

from __future__ import annotations

from nvmf.spec.identify import IdentifyNamespace, NamespaceIds

_EXTENDED_LBA = 0x10
"""FLBAS bit 4: metadata goes at the end of each block."""


class Geometry:
    """What a namespace is, as far as Identify tells."""

    def __init__(self, nsid: int, info: IdentifyNamespace, ids: NamespaceIds) -> None:
        self.nsid = nsid
        self.info = info
        """Identify Namespace, as it was last read."""
        self.ids = ids
        """EUI64, NGUID, UUID and command set, as far as the controller gives them."""

    def __repr__(self) -> str:
        return f"<Namespace {self.nsid} of {self.blocks} blocks of {self.block_size} bytes>"

    @property
    def block_size(self) -> int:
        """Bytes of a logical block; ValueError for a format that this client does not move."""
        info = self.info
        if not info.block_size or (info.flbas & _EXTENDED_LBA and info.metadata_size):
            raise ValueError(
                f"namespace {self.nsid} has a format that this client does not move: FLBAS "
                f"{info.flbas:#x}, {info.metadata_size} bytes of metadata a block"
            )
        return info.block_size

    @property
    def blocks(self) -> int:
        """Logical blocks (NSZE)."""
        return self.info.nsze

    @property
    def size(self) -> int:
        """Bytes."""
        return self.blocks * self.block_size

    def _length(self, lba: int, blocks: int) -> int:
        """Bytes of blocks; ValueError for a range that cannot be."""
        if lba < 0 or blocks < 0 or lba + blocks > 1 << 64:
            raise ValueError(f"there is no range of {blocks} blocks at LBA {lba}")
        return blocks * self.block_size

    def _blocks(self, lba: int, length: int) -> int:
        """Blocks of a buffer; ValueError where it is not whole blocks."""
        blocks, rest = divmod(length, self.block_size)
        if rest:
            raise ValueError(
                f"{length} bytes are not whole blocks of {self.block_size} bytes of namespace "
                f"{self.nsid}"
            )
        self._length(lba, blocks)
        return blocks
