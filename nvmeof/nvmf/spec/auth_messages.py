# SPDX-License-Identifier: BSD-3-Clause
"""Messages of in-band authentication: AUTH_Negotiate, DH-HMAC-CHAP, AUTH_Failure (Base 2.0, 8.13).

A host's message has exactly the length that its fields give.  A controller's message is parsed from
a buffer that may be longer, because the host does not know how many bytes it received.  Reserved
bytes are written as zero and ignored when read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self, TypeVar

from nvmf.spec.auth import (
    NO_SECURE_CHANNEL,
    RCODE_FAILURE,
    AuthId,
    AuthType,
    DhGroup,
    Hash,
    MessageError,
    Reason,
)
from nvmf.spec.layout import Structure, raw, u8, u16, u32

S = TypeVar("S", bound=Structure)
_LIST = 30
"""Capacity of the list of hashes and of the list of groups."""


@dataclass(frozen=True, slots=True)
class _Negotiate(Structure):
    SIZE = 8
    auth_type: Annotated[int, u8(0)] = AuthType.COMMON
    auth_id: Annotated[int, u8(1)] = AuthId.NEGOTIATE
    t_id: Annotated[int, u16(4)] = 0
    sc_c: Annotated[int, u8(6)] = NO_SECURE_CHANNEL
    napd: Annotated[int, u8(7)] = 0
    """Number of protocol descriptors that follow."""


@dataclass(frozen=True, slots=True)
class _Descriptor(Structure):
    SIZE = 64
    authid: Annotated[int, u8(0)] = AuthType.DH_HMAC_CHAP
    halen: Annotated[int, u8(2)] = 0
    dhlen: Annotated[int, u8(3)] = 0
    hashes: Annotated[bytes, raw(4, _LIST)] = b""
    groups: Annotated[bytes, raw(34, _LIST)] = b""


@dataclass(frozen=True, slots=True)
class Negotiate:
    """AUTH_Negotiate: the hashes and groups that the host supports."""

    t_id: int
    hashes: Sequence[int]
    """HashIDs, in order of preference."""
    groups: Sequence[int]
    """DHgIDs, in order of preference."""
    sc_c: int = NO_SECURE_CHANNEL

    def encode(self) -> bytes:
        """Encode with one protocol descriptor, for DH-HMAC-CHAP."""
        fixed = _Negotiate(t_id=self.t_id, sc_c=self.sc_c, napd=1).encode()
        hashes, groups = bytes(self.hashes), bytes(self.groups)
        return fixed + _Descriptor(1, len(hashes), len(groups), hashes, groups).encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Decode; raise MessageError if the message is invalid or does not offer DH-HMAC-CHAP."""
        fixed = _fixed(_Negotiate, data)
        _exact(data, _Negotiate.SIZE + fixed.napd * _Descriptor.SIZE, "AUTH_Negotiate")
        for index in range(fixed.napd):
            start = _Negotiate.SIZE + index * _Descriptor.SIZE
            one = _Descriptor.decode(data[start:])
            if one.authid != AuthType.DH_HMAC_CHAP:
                continue
            if one.halen > _LIST or one.dhlen > _LIST:
                raise _payload(f"{one.halen} hashes, {one.dhlen} groups; the maximum is {_LIST}")
            hashes, groups = one.hashes[: one.halen], one.groups[: one.dhlen]
            return cls(fixed.t_id, tuple(hashes), tuple(groups), fixed.sc_c)
        raise MessageError(Reason.PROTOCOL_NOT_USABLE, "DH-HMAC-CHAP is not among the protocols")


@dataclass(frozen=True, slots=True)
class _Challenge(Structure):
    SIZE = 16
    auth_type: Annotated[int, u8(0)] = AuthType.DH_HMAC_CHAP
    auth_id: Annotated[int, u8(1)] = AuthId.CHALLENGE
    t_id: Annotated[int, u16(4)] = 0
    hl: Annotated[int, u8(6)] = 0
    hashid: Annotated[int, u8(8)] = 0
    dhgid: Annotated[int, u8(9)] = 0
    dhvlen: Annotated[int, u16(10)] = 0
    seqnum: Annotated[int, u32(12)] = 0


@dataclass(frozen=True, slots=True)
class Challenge:
    """DH-HMAC-CHAP_Challenge: the selected hash and group, S1, C1 and g^x."""

    t_id: int
    hash: Hash
    group: DhGroup
    s1: int
    c1: bytes
    dh_value: bytes = b""

    def encode(self) -> bytes:
        """Encode the whole message."""
        fixed = _Challenge(
            t_id=self.t_id,
            hl=self.hash.size,
            hashid=self.hash,
            dhgid=self.group,
            dhvlen=len(self.dh_value),
            seqnum=self.s1,
        )
        return fixed.encode() + self.c1 + self.dh_value

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse a buffer; raise MessageError if invalid, or if the hash or group is unknown."""
        fixed = _fixed(_Challenge, data)
        try:
            hashed = Hash(fixed.hashid)
        except ValueError:
            raise MessageError(Reason.HASH_NOT_USABLE, f"HashID {fixed.hashid:02x}h") from None
        try:
            group = DhGroup(fixed.dhgid)
        except ValueError:
            raise MessageError(Reason.DHGROUP_NOT_USABLE, f"DHgID {fixed.dhgid:02x}h") from None
        if fixed.hl != hashed.size:
            raise _payload(f"a hash length of {fixed.hl} with {hashed.title}")
        _check_dh_length(group, fixed.dhvlen)
        if not fixed.seqnum:
            raise _payload("a sequence number of 0")
        c1, dh_value = _tail(data, _Challenge.SIZE, fixed.hl, fixed.dhvlen)
        return cls(fixed.t_id, hashed, group, fixed.seqnum, c1, dh_value)


@dataclass(frozen=True, slots=True)
class _Reply(Structure):
    SIZE = 16
    auth_type: Annotated[int, u8(0)] = AuthType.DH_HMAC_CHAP
    auth_id: Annotated[int, u8(1)] = AuthId.REPLY
    t_id: Annotated[int, u16(4)] = 0
    hl: Annotated[int, u8(6)] = 0
    cvalid: Annotated[int, u8(8)] = 0
    dhvlen: Annotated[int, u16(10)] = 0
    seqnum: Annotated[int, u32(12)] = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """DH-HMAC-CHAP_Reply: R1 and g^y; C2 and S2 if the controller must authenticate itself too."""

    t_id: int
    r1: bytes
    c2: bytes | None = None
    s2: int = 0
    dh_value: bytes = b""

    def encode(self) -> bytes:
        """Encode the whole message; without C2 its field is zero."""
        size = len(self.r1)
        fixed = _Reply(
            t_id=self.t_id,
            hl=size,
            cvalid=int(self.c2 is not None),
            dhvlen=len(self.dh_value),
            seqnum=self.s2,
        )
        return fixed.encode() + self.r1 + (self.c2 or bytes(size)) + self.dh_value

    @classmethod
    def parse(cls, data: bytes, hashed: Hash, group: DhGroup) -> Self:
        """Decode the reply to a challenge with this hash and group; MessageError if invalid."""
        fixed = _fixed(_Reply, data)
        if fixed.hl != hashed.size:
            raise _payload(f"a hash length of {fixed.hl} with {hashed.title}")
        _check_dh_length(group, fixed.dhvlen)
        _exact(data, _Reply.SIZE + 2 * fixed.hl + fixed.dhvlen, "DH-HMAC-CHAP_Reply")
        if fixed.cvalid > 1 or (fixed.cvalid and not fixed.seqnum):
            raise _payload(f"CVALID {fixed.cvalid} and sequence number {fixed.seqnum}")
        r1, c2, dh_value = _tail(data, _Reply.SIZE, fixed.hl, fixed.hl, fixed.dhvlen)
        return cls(fixed.t_id, r1, c2 if fixed.cvalid else None, fixed.seqnum, dh_value)


@dataclass(frozen=True, slots=True)
class _Success1(Structure):
    SIZE = 16
    auth_type: Annotated[int, u8(0)] = AuthType.DH_HMAC_CHAP
    auth_id: Annotated[int, u8(1)] = AuthId.SUCCESS1
    t_id: Annotated[int, u16(4)] = 0
    hl: Annotated[int, u8(6)] = 0
    rvalid: Annotated[int, u8(8)] = 0


@dataclass(frozen=True, slots=True)
class Success1:
    """DH-HMAC-CHAP_Success1: the host is authenticated; R2 if the host sent a challenge."""

    t_id: int
    hash: Hash
    r2: bytes | None = None

    def encode(self) -> bytes:
        """Encode; HL is always set, because Linux requires it."""
        valid = int(self.r2 is not None)
        fixed = _Success1(t_id=self.t_id, hl=self.hash.size, rvalid=valid)
        return fixed.encode() + (self.r2 or b"")

    @classmethod
    def parse(cls, data: bytes, hashed: Hash) -> Self:
        """Parse a buffer; raise MessageError if the message is invalid."""
        fixed = _fixed(_Success1, data)
        if not fixed.rvalid:
            return cls(fixed.t_id, hashed)
        if fixed.rvalid != 1 or fixed.hl != hashed.size:
            raise _payload(f"RVALID {fixed.rvalid}, hash length {fixed.hl} with {hashed.title}")
        return cls(fixed.t_id, hashed, *_tail(data, _Success1.SIZE, fixed.hl))


@dataclass(frozen=True, slots=True)
class Success2(Structure):
    """DH-HMAC-CHAP_Success2: the controller is authenticated."""

    SIZE = 16
    auth_type: Annotated[int, u8(0)] = AuthType.DH_HMAC_CHAP
    auth_id: Annotated[int, u8(1)] = AuthId.SUCCESS2
    t_id: Annotated[int, u16(4)] = 0

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Decode; raise MessageError if the length is wrong."""
        _exact(data, cls.SIZE, "DH-HMAC-CHAP_Success2")
        return cls.decode(data)


@dataclass(frozen=True, slots=True)
class Failure(Structure):
    """AUTH_Failure1 (from the controller) or AUTH_Failure2 (from the host)."""

    SIZE = 8
    auth_type: Annotated[int, u8(0)] = AuthType.COMMON
    auth_id: Annotated[int, u8(1)] = AuthId.FAILURE1
    t_id: Annotated[int, u16(4)] = 0
    rcode: Annotated[int, u8(6)] = RCODE_FAILURE
    rcode_explanation: Annotated[int, u8(7)] = Reason.FAILED

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse a buffer; raise MessageError if the message is invalid."""
        return _fixed(cls, data)


def _payload(detail: str) -> MessageError:
    return MessageError(Reason.INCORRECT_PAYLOAD, detail)


def _fixed(kind: type[S], data: bytes) -> S:
    if len(data) < kind.SIZE:
        name = kind.__name__.strip("_")
        raise _payload(f"{len(data)} bytes; {name} needs at least {kind.SIZE}")
    return kind.decode(data)


def _exact(data: bytes, size: int, name: str) -> None:
    if len(data) != size:
        raise _payload(f"{name} of {len(data)} bytes; its fields require {size}")


def _tail(data: bytes, start: int, *sizes: int) -> list[bytes]:
    """Return consecutive fields of these sizes."""
    if len(data) < start + sum(sizes):
        raise _payload(f"{len(data)} bytes; the fields require {start + sum(sizes)}")
    fields = []
    for size in sizes:
        fields.append(bytes(data[start : start + size]))
        start += size
    return fields


def _check_dh_length(group: DhGroup, length: int) -> None:
    # A peer may omit leading zeroes; Linux, SPDK and this implementation send them.
    if length > group.size or (group and not length):
        raise _payload(f"a DH value of {length} bytes; those of {group.title} have {group.size}")
