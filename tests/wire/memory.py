# SPDX-License-Identifier: BSD-3-Clause
"""Registered memory of the independent peer: STags, bounds and access rights."""

import secrets
from dataclasses import dataclass, field

from wire.errors import WireViolation


@dataclass
class Region:
    """A tagged buffer: size bytes at the tagged offset base, under stag."""

    stag: int
    base: int
    data: bytearray
    readable: bool = True
    """Whether the peer may RDMA READ it."""
    writable: bool = True
    """Whether the peer may RDMA WRITE it."""
    valid: bool = True
    written: int = 0
    """Bytes received by RDMA WRITE."""
    read: int = 0
    """Bytes requested by RDMA READ."""


@dataclass
class Memory:
    """The regions of this side; every access by the peer is checked."""

    regions: dict[int, Region] = field(default_factory=dict)

    def register(
        self,
        data: bytes | bytearray | int,
        *,
        stag: int | None = None,
        base: int | None = None,
        readable: bool = True,
        writable: bool = True,
    ) -> Region:
        """Return a region, with random STag and base unless given; an int is a size of zeroes."""
        if stag is None:
            stag = secrets.randbits(32) | 1
        if base is None:
            base = secrets.randbits(46) << 2
        region = Region(stag, base, bytearray(data), readable, writable)
        self.regions[stag] = region
        return region

    def unregister(self, region: Region) -> None:
        """Make the STag unknown."""
        self.regions.pop(region.stag, None)

    def _find(self, stag: int, to: int, size: int, what: str) -> tuple[Region, int]:
        region = self.regions.get(stag)
        if region is None or not region.valid:
            raise WireViolation(f"{what} with unknown STag {stag:#x}")
        offset = to - region.base
        if offset < 0 or offset + size > len(region.data):
            raise WireViolation(
                f"{what} of {size} bytes at {to:#x} outside {region.base:#x}+{len(region.data)}"
            )
        return region, offset

    def write(self, stag: int, to: int, payload: bytes) -> None:
        """Execute the peer's RDMA WRITE."""
        region, offset = self._find(stag, to, len(payload), "RDMA WRITE")
        if not region.writable:
            raise WireViolation(f"RDMA WRITE to STag {stag:#x}, which is for reading")
        region.data[offset : offset + len(payload)] = payload
        region.written += len(payload)

    def read(self, stag: int, to: int, size: int) -> bytes:
        """Execute the peer's RDMA READ."""
        region, offset = self._find(stag, to, size, "RDMA READ")
        if not region.readable:
            raise WireViolation(f"RDMA READ of STag {stag:#x}, which is for writing")
        region.read += size
        return bytes(region.data[offset : offset + size])

    def invalidate(self, stag: int) -> None:
        """Execute the peer's Send with Invalidate."""
        region = self.regions.get(stag)
        if region is None or not region.valid:
            raise WireViolation(f"invalidation of unknown STag {stag:#x}")
        region.valid = False
