# SPDX-License-Identifier: BSD-3-Clause
"""The size and identity of a namespace, and the check of ranges."""

from __future__ import annotations

from abc import ABC, abstractmethod

from nvmf.initiator.base.arguments import whole
from nvmf.initiator.base.errors import NvmeError
from nvmf.initiator.base.limits import LARGEST
from nvmf.spec.identify import IdentifyNamespace, NamespaceIds
from nvmf.spec.status import DNR, Status

_OUTSIDE = Status.LBA_OUT_OF_RANGE | DNR
_EXTENDED_LBA = 0x10
"""FLBAS bit 4: metadata goes at the end of each block."""


def identifiers(info: IdentifyNamespace, ids: NamespaceIds) -> dict[str, str]:
    """Return the identifiers of a namespace in hexadecimal digits; "" for one of zeroes."""
    return {
        "nguid": _hex(ids.nguid or info.nguid),
        "eui64": _hex(ids.eui64 or info.eui64),
        "uuid": str(ids.uuid) if ids.uuid is not None and ids.uuid.int else "",
    }


def _hex(identifier: bytes) -> str:
    return identifier.hex() if any(identifier) else ""


class Geometry(ABC):
    """The properties of a namespace that Identify reports."""

    def __init__(self, nsid: int, info: IdentifyNamespace, ids: NamespaceIds) -> None:
        self.nsid = nsid
        self.info = info
        self.ids = ids
        """EUI64, NGUID, UUID and command set, if the controller reports them."""
        self.replaced = ""
        """Why its NSID belongs, or may belong, to a different namespace; otherwise empty."""

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
        # Cached, because every command needs them.
        self._nsze = info.nsze
        self._block_size = 0 if extended or info.block_size > LARGEST else info.block_size

    @property
    def block_size(self) -> int:
        """Bytes of a logical block; ValueError for a format that this client does not support."""
        if not self._block_size:
            info = self._info
            raise ValueError(
                f"namespace {self.nsid} has a format that this client does not support: FLBAS "
                f"{info.flbas:#x}, blocks of 2^{info.lbads} bytes, and {info.metadata_size} of "
                "metadata each"
            )
        return self._block_size

    @property
    def blocks(self) -> int:
        """Logical blocks (NSZE)."""
        return self._nsze

    @property
    def size(self) -> int:
        """Bytes."""
        return self.blocks * self.block_size

    @property
    def identified(self) -> bool:
        """Whether it has an NGUID, EUI64 or UUID."""
        return any(identifiers(self.info, self.ids).values())

    def difference(self, info: IdentifyNamespace, ids: NamespaceIds) -> str:
        """Return why this data describes a different namespace; "" if it may be this one.

        Data of one must not be written to the other. As in Linux, a different block size also makes
        a different namespace.
        """
        old = {**identifiers(self.info, self.ids), "block size": str(self.info.block_size)}
        new = {**identifiers(info, ids), "block size": str(info.block_size)}
        for name in old:
            if old[name] != new[name]:
                title = name if " " in name else name.upper()
                return f"its {title} is {new[name] or 'missing'}, and was {old[name] or 'missing'}"
        return ""

    def require(self, name: str, lba: int | None = None, blocks: int | None = None) -> None:
        """Raise NvmeError (Invalid Namespace or Format) for a command if it is replaced."""
        if self.replaced:
            status = Status.INVALID_NAMESPACE_OR_FORMAT | DNR
            error = NvmeError.of(name, status, io=True, nsid=self.nsid, lba=lba, blocks=blocks)
            error.detail = f"{name} was not sent: {self.replaced}"
            raise error

    @abstractmethod
    async def _look_again(self) -> None:
        """Read the size of the namespace again: it may have grown."""

    def _inside(self, lba: int, blocks: int) -> bool:
        """Return whether a range needs no further check: a fast test of the usual case."""
        return type(lba) is int and type(blocks) is int and 0 <= lba <= self._nsze - blocks

    async def _range(self, name: str, lba: int, blocks: int) -> tuple[int, int]:
        """Check the range of a command by name, before anything is sent; return lba and blocks.

        The results are Python's integers, even if the caller passed NumPy's. Raises TypeError or
        ValueError for an invalid range, and NvmeError (LBA Out of Range) for one that extends past
        the end of the namespace, even after its size was read again.
        """
        if self._inside(lba, blocks) and blocks >= 0:
            return lba, blocks
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
        """Check a range of bytes, as _range() does; the error has the range in bytes."""
        offset, length = whole("offset", offset), whole("length", length)
        if offset < 0 or length < 0:
            raise ValueError(f"invalid range: {length} bytes at offset {offset}")
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
            raise ValueError(f"invalid range: {blocks} blocks at LBA {lba}")
        return lba, blocks

    def _blocks(self, lba: int, length: int) -> int:
        """Return the number of blocks of a buffer; raise ValueError if it is not whole blocks."""
        blocks, rest = divmod(length, self.block_size)
        if rest:
            raise ValueError(
                f"{length} bytes are not whole blocks of {self.block_size} bytes of namespace "
                f"{self.nsid}"
            )
        self._checked(lba, blocks)
        return blocks
