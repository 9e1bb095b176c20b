# SPDX-License-Identifier: BSD-3-Clause
"""A second implementation of DH-HMAC-CHAP, sequential and independent of the product.

Base 2.0, 8.13.5.  The groups are computed from their definition (RFC 7919, appendix A), the
powers by Python.
"""

import base64
import binascii
import hashlib
import hmac
import struct
from functools import cache

HASHES = {1: "sha256", 2: "sha384", 3: "sha512"}
_GROUPS = {
    1: (2048, 560316),
    2: (3072, 2625351),
    3: (4096, 5736041),
    4: (6144, 15705020),
    5: (8192, 10965728),
}


@cache
def _e(bits: int) -> int:
    """floor(2 ** bits * e)."""
    guard = bits + 64
    total = term = 1 << guard
    n = 1
    while term:
        term //= n
        total += term
        n += 1
    return total >> 64


@cache
def prime(group: int) -> int:
    """p of FFDHE: 2^b - 2^(b-64) + (floor(2^(b-130) e) + X) 2^64 - 1."""
    bits, x = _GROUPS[group]
    return (1 << bits) - (1 << bits - 64) + (_e(bits - 130) + x << 64) - 1


def size(group: int) -> int:
    """Bytes of a DH value."""
    return _GROUPS[group][0] // 8 if group else 0


def public(group: int, x: int) -> bytes:
    """g^x mod p, padded."""
    return pow(2, x, prime(group)).to_bytes(size(group), "big") if group else b""


def session_key(group: int, x: int, theirs: bytes, hash_id: int) -> bytes | None:
    """KS."""
    if not group:
        return None
    secret = pow(int.from_bytes(theirs, "big"), x, prime(group)).to_bytes(size(group), "big")
    return hashlib.new(HASHES[hash_id], secret).digest()


def key_text(secret: bytes, hash_id: int = 0) -> str:
    """A secret in its representation."""
    data = secret + struct.pack("<I", binascii.crc32(secret))
    return f"DHHC-1:{hash_id:02x}:{base64.b64encode(data).decode()}:"


def transformed(text: str, nqn: str) -> bytes:
    """Return the key of a representation, transformed for this NQN."""
    _, number, encoded, _ = text.split(":")
    secret = base64.b64decode(encoded)[:-4]
    if number == "00":
        return secret
    return hmac.new(secret, nqn.encode() + b"NVMe-over-Fabrics", HASHES[int(number)]).digest()


def response(
    text: str, hash_id: int, session: bytes | None, challenge: bytes, seqnum: int, t_id: int,
    *, role: str, mine: str, theirs: str,
) -> bytes:  # fmt: skip
    """Return R1 (role HostHost) or R2 (role Controller); mine is the NQN of the responder."""
    digest = HASHES[hash_id]
    if session is not None:
        challenge = hmac.new(session, challenge, digest).digest()
    message = challenge + struct.pack("<IHB", seqnum, t_id, 0) + role.encode()
    message += mine.encode() + b"\0" + theirs.encode()
    return hmac.new(transformed(text, mine), message, digest).digest()


def negotiate(
    t_id: int,
    hashes: bytes = b"\1\2\3",
    groups: bytes = bytes(6),
    *,
    sc_c: int = 0,
    authid: int = 1,
    napd: int = 1,
) -> bytes:
    """AUTH_Negotiate."""
    descriptor = struct.pack("<BxBB", authid, len(hashes), len(groups))
    descriptor += hashes.ljust(30, b"\0") + groups.ljust(30, b"\0")
    return struct.pack("<BB2xHBB", 0, 0, t_id, sc_c, napd) + descriptor * napd


def reply(t_id: int, r1: bytes, c2: bytes | None = None, s2: int = 0, dh: bytes = b"") -> bytes:
    """DH-HMAC-CHAP_Reply."""
    head = struct.pack("<BB2xHBxBxHI", 1, 2, t_id, len(r1), c2 is not None, len(dh), s2)
    return head + r1 + (c2 or bytes(len(r1))) + dh


def success2(t_id: int) -> bytes:
    """DH-HMAC-CHAP_Success2."""
    return struct.pack("<BB2xH10x", 1, 4, t_id)


def failure2(t_id: int, reason: int = 1) -> bytes:
    """AUTH_Failure2."""
    return struct.pack("<BB2xHBB", 0, 0xF0, t_id, 1, reason)


class Challenge:
    """DH-HMAC-CHAP_Challenge, decoded."""

    def __init__(self, data: bytes) -> None:
        kind, name, self.t_id, hl, self.hash_id, self.group, dhvlen, self.s1 = struct.unpack_from(
            "<BB2xHBxBBHI", data
        )
        if (kind, name) != (1, 1):
            raise AssertionError(f"no challenge: {data[:16].hex()}")
        self.c1 = data[16 : 16 + hl]
        self.dh = data[16 + hl : 16 + hl + dhvlen]


def failure1(data: bytes) -> int | None:
    """Return the reason of an AUTH_Failure1; None for a different message."""
    kind, name, _, code, reason = struct.unpack_from("<BB2xHBB", data)
    return int(reason) if (kind, name, code) == (0, 0xF1, 1) else None
