# SPDX-License-Identifier: BSD-3-Clause
"""How large a namespace is, and what ranges of blocks there can be."""

from __future__ import annotations

from nvmf.initiator.base.arguments import whole
from nvmf.initiator.base.errors import NvmeError
from nvmf.initiator.base.limits import LARGEST
from nvmf.spec.identify import IdentifyNamespace, NamespaceIds
from nvmf.spec.status import DNR, Status

_OUTSIDE = Status.LBA_OUT_OF_RANGE | DNR
_EXTENDED_LBA = 0x10
"""FLBAS bit 4: metadata goes at the end of each block."""


def identifiers(info: IdentifyNamespace, ids: NamespaceIds) -> dict[str, str]:
    """Return the identifiers of a namespace in hexadecimal digits; "" for one of all zeroes."""
    return {
        "nguid": _hex(ids.nguid or info.nguid),
        "eui64": _hex(ids.eui64 or info.eui64),
        "uuid": str(ids.uuid) if ids.uuid is not None and ids.uuid.int else "",
    }


def _hex(identifier: bytes) -> str:
    return identifier.hex() if any(identifier) else ""


class Geometry:
    """What a namespace is, as far as Identify tells."""

    def __init__(self, nsid: int, info: IdentifyNamespace, ids: NamespaceIds) -> None:
        self.nsid = nsid
        self.info = info
        self.ids = ids
        """EUI64, NGUID, UUID and command set, as far as the controller gives them."""
        self.replaced = ""
        """Why what has its NSID now is another namespace; empty where it is this one."""

    def __repr__(self) -> str:
        return f"<Namespace {self.nsid} of {self.blocks} blocks of {self.info.block_size} bytes>"

    @property
    def info(self) -> IdentifyNamespace:
        """Identify Namespace, as it was last read."""
        return self._info

    @info.setter
    def info(self, info: IdentifyNamespace) -> None:
        self._info = info
        extended = info.flbas & _EXTENDED_LBA and info.metadata_size
        # Kept, since every command asks for it.
        self._block_size = 0 if extended or info.block_size > LARGEST else info.block_size

    @property
    def block_size(self) -> int:
        """Bytes of a logical block; ValueError for a format that this client does not move."""
        if not self._block_size:
            info = self._info
            raise ValueError(
                f"namespace {self.nsid} has a format that this client does not move: FLBAS "
                f"{info.flbas:#x}, blocks of 2^{info.lbads} bytes, and {info.metadata_size} of "
                "metadata each"
            )
        return self._block_size

    @property
    def blocks(self) -> int:
        """Logical blocks (NSZE)."""
        return self.info.nsze

    @property
    def size(self) -> int:
        """Bytes."""
        return self.blocks * self.block_size

    @property
    def identified(self) -> bool:
        """Whether it has an NGUID, EUI64 or UUID to know it by."""
        return any(identifiers(self.info, self.ids).values())

    def difference(self, info: IdentifyNamespace, ids: NamespaceIds) -> str:
        """Why what is told of its NSID now is another namespace; empty where it may be this one.

        What was written to the one must not go to the other, and a block of another size is
        another block: as in Linux, that is the end of it.
        """
        old = {**identifiers(self.info, self.ids), "block size": str(self.info.block_size)}
        new = {**identifiers(info, ids), "block size": str(info.block_size)}
        for name in old:
            if old[name] != new[name]:
                title = name if " " in name else name.upper()
                return f"its {title} is {new[name] or 'none'}, and was {old[name] or 'none'}"
        return ""

    def require(self, name: str, lba: int | None = None, blocks: int | None = None) -> None:
        """NvmeError (Invalid Namespace or Format), for a command by name, where it is replaced."""
        if self.replaced:
            status = Status.INVALID_NAMESPACE_OR_FORMAT | DNR
            error = NvmeError.of(name, status, io=True, nsid=self.nsid, lba=lba, blocks=blocks)
            error.detail = f"{name} was not sent: {self.replaced}"
            raise error

    async def _look_again(self) -> None:
        """Read the size of the namespace again: it may have grown."""
        raise NotImplementedError

    async def _range(self, name: str, lba: int, blocks: int) -> tuple[int, int]:
        """Check the range of a command by name, before anything is sent; return lba and blocks.

        They are Python's integers then, whatever the caller gave (a fixed-width one of NumPy).
        Raises TypeError or ValueError for what is no range, and NvmeError (LBA Out of Range) for
        one that extends past the end of the namespace, even after its size was read again.
        """
        lba, blocks = self._checked(lba, blocks)
        if lba + blocks > self.blocks:
            await self._look_again()
            if lba + blocks > self.blocks:
                said = f"it has {self.blocks} blocks"
                raise self._refused(NvmeError.of(
                    name, _OUTSIDE, io=True, nsid=self.nsid, lba=lba, blocks=blocks
                ), said)  # fmt: skip
        return lba, blocks

    async def _byte_range(self, name: str, offset: int, length: int) -> tuple[int, int]:
        """Check a range of bytes, as _range() does; the error names the bytes."""
        offset, length = whole("offset", offset), whole("length", length)
        if offset < 0 or length < 0:
            raise ValueError(f"there is no range of {length} bytes at offset {offset}")
        if offset + length > self.size:
            await self._look_again()
            if offset + length > self.size:
                error = NvmeError.of(name, _OUTSIDE, io=True)
                size = self.block_size
                error.detail = (
                    f"{name} of {length} byte{'' if length == 1 else 's'} at offset {offset} in "
                    f"namespace {self.nsid} failed"
                )
                error.nsid, error.lba = self.nsid, offset // size
                error.blocks = -(-(offset + length) // size) - error.lba
                raise self._refused(error, f"it has {self.size} bytes")
        return offset, length

    def _refused(self, error: NvmeError, why: str) -> NvmeError:
        error.detail = f"{error.detail.removesuffix(' failed')} was not sent: {why}"
        return error

    @staticmethod
    def _checked(lba: int, blocks: int) -> tuple[int, int]:
        lba, blocks = whole("lba", lba), whole("blocks", blocks)
        if lba < 0 or blocks < 0 or lba + blocks > 1 << 64:
            raise ValueError(f"there is no range of {blocks} blocks at LBA {lba}")
        return lba, blocks

    def _blocks(self, lba: int, length: int) -> int:
        """Blocks of a buffer; ValueError if it is not whole blocks."""
        blocks, rest = divmod(length, self.block_size)
        if rest:
            raise ValueError(
                f"{length} bytes are not whole blocks of {self.block_size} bytes of namespace "
                f"{self.nsid}"
            )
        self._checked(lba, blocks)
        return blocks
