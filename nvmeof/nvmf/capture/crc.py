# SPDX-License-Identifier: BSD-3-Clause
"""CRC32C (Castagnoli; RFC 3720, appendix B.4), a byte at a time."""

from __future__ import annotations

_POLYNOMIAL = 0x82F63B78


def _entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = [_entry(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    """Return the CRC32C of data."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
