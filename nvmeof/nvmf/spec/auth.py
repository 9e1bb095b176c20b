# SPDX-License-Identifier: BSD-3-Clause
"""Messages of in-band authentication: AUTH_Negotiate, DH-HMAC-CHAP, AUTH_Failure (Base 2.0, 8.13).

What a host sends has the length that its fields say; what a controller sends is read out of a
buffer that may be longer, because the host does not know how much came.  Reserved bytes are written
as zero and ignored when read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Self, TypeVar

from nvmf.spec.layout import Structure, raw, u8, u16, u32
from nvmf.spec.status import Named, Status, StatusError

S = TypeVar("S", bound=Structure)
SECP = 0xE9
"""Security Protocol: NVMe-oF in-band authentication."""
SPSP = 1
"""Both bytes of the SP Specific field."""
MAX_MESSAGE = 4096
"""Bytes that every message fits in: the longest, a reply of FFDHE 8192 and SHA-512, has 1168."""
NO_SECURE_CHANNEL = 0
"""SC_C: no secure channel is to follow."""
_LIST = 30
"""Entries of a list of hashes, and of one of groups."""


class AuthType(IntEnum):
    """AUTH_TYPE of a message."""

    COMMON = 0
    DH_HMAC_CHAP = 1


class AuthId(Named):
    """AUTH_ID of a message, whatever its type."""

    NEGOTIATE = 0x00, "AUTH_Negotiate"
    CHALLENGE = 0x01, "DH-HMAC-CHAP_Challenge"
    REPLY = 0x02, "DH-HMAC-CHAP_Reply"
    SUCCESS1 = 0x03, "DH-HMAC-CHAP_Success1"
    SUCCESS2 = 0x04, "DH-HMAC-CHAP_Success2"
    FAILURE2 = 0xF0, "AUTH_Failure2"
    FAILURE1 = 0xF1, "AUTH_Failure1"


COMMON_IDS = frozenset({AuthId.NEGOTIATE, AuthId.FAILURE1, AuthId.FAILURE2})


class Hash(Named):
    """HashID."""

    SHA_256 = 1, "SHA-256"
    SHA_384 = 2, "SHA-384"
    SHA_512 = 3, "SHA-512"

    @property
    def size(self) -> int:
        """Bytes of a digest."""
        return 16 * (self + 1)

    @property
    def digest(self) -> str:
        """As hashlib and configurations call it."""
        return f"sha{8 * self.size}"


class DhGroup(Named):
    """DHgID: the finite field groups of RFC 7919, or none."""

    NULL = 0, "null"
    FFDHE_2048 = 1, "ffdhe2048"
    FFDHE_3072 = 2, "ffdhe3072"
    FFDHE_4096 = 3, "ffdhe4096"
    FFDHE_6144 = 4, "ffdhe6144"
    FFDHE_8192 = 5, "ffdhe8192"

    @property
    def size(self) -> int:
        """Bytes of the prime, of a public value and of a shared secret; 0 for NULL."""
        return int(self.title[5:]) // 8 if self else 0


class Reason(Named):
    """Reason Code Explanation of AUTH_Failure1 and AUTH_Failure2; the Reason Code is always 1."""

    FAILED = 1, "Authentication failed"
    PROTOCOL_NOT_USABLE = 2, "Authentication protocol not usable"
    CONCATENATION_MISMATCH = 3, "Secure channel concatenation mismatch"
    HASH_NOT_USABLE = 4, "Hash function not usable"
    DHGROUP_NOT_USABLE = 5, "DH group not usable"
    INCORRECT_PAYLOAD = 6, "Incorrect payload"
    INCORRECT_MESSAGE = 7, "Incorrect protocol message"


RCODE_FAILURE = 1


def reason_name(code: int) -> str:
    """The specification's name of a Reason Code Explanation."""
    try:
        return Reason(code).title
    except ValueError:
        return f"reason {code:02x}h"


class MessageError(Exception):
    """A message is not what it has to be: the reason that goes on the wire, and a sentence."""

    reason: Reason
    detail: str

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason.title}: {self.detail}"


@dataclass(frozen=True, slots=True)
class AuthCommand:
    """Authentication Send or Receive, dwords 10 and 11 (Base 2.0, 6.1 and 6.2)."""

    length: int
    """TL or AL, bytes."""

    @classmethod
    def of(cls, cdw10: int, cdw11: int) -> Self:
        """Invalid Field where the security protocol is another, or there is no length."""
        if cdw10 != _CDW10:
            raise StatusError(
                Status.INVALID_FIELD,
                f"security protocol {cdw10 >> 24:02x}h, SPSP1 {cdw10 >> 16 & 0xFF:02x}h, "
                f"SPSP0 {cdw10 >> 8 & 0xFF:02x}h, where {SECP:02x}h, 01h and 01h are in-band "
                "authentication",
            )
        if not cdw11:
            raise StatusError(Status.INVALID_FIELD, "authentication with a length of 0")
        return cls(cdw11)

    @property
    def cdw10(self) -> int:
        """SPSP0, SPSP1 and SECP."""
        return _CDW10


_CDW10 = SPSP << 8 | SPSP << 16 | SECP << 24


@dataclass(frozen=True, slots=True)
class Header(Structure):
    """What every message begins with."""

    SIZE = 6
    auth_type: Annotated[int, u8(0)] = 0
    auth_id: Annotated[int, u8(1)] = 0
    t_id: Annotated[int, u16(4)] = 0
    """Transaction identifier, chosen by the host."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """MessageError where there is none, or no message is called so."""
        if len(data) < cls.SIZE:
            raise _payload(f"a message of {len(data)} bytes")
        header = cls.decode(data)
        header.name()
        return header

    def name(self) -> AuthId:
        """Which message it is; MessageError where there is no such message."""
        try:
            found = AuthId(self.auth_id)
        except ValueError:
            found = None
        kind = AuthType.COMMON if found in COMMON_IDS else AuthType.DH_HMAC_CHAP
        if found is None or self.auth_type != kind:
            raise MessageError(
                Reason.INCORRECT_MESSAGE,
                f"message {self.auth_id:02x}h of type {self.auth_type:02x}h is unknown",
            )
        return found


@dataclass(frozen=True, slots=True)
class _Negotiate(Structure):
    SIZE = 8
    auth_type: Annotated[int, u8(0)] = AuthType.COMMON
    auth_id: Annotated[int, u8(1)] = AuthId.NEGOTIATE
    t_id: Annotated[int, u16(4)] = 0
    sc_c: Annotated[int, u8(6)] = NO_SECURE_CHANNEL
    napd: Annotated[int, u8(7)] = 0
    """Protocol descriptors that follow."""


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
    """AUTH_Negotiate: what the host can do."""

    t_id: int
    hashes: Sequence[int]
    """HashIDs, in order of preference."""
    groups: Sequence[int]
    """DHgIDs, in order of preference."""
    sc_c: int = NO_SECURE_CHANNEL

    def encode(self) -> bytes:
        """With one descriptor, of DH-HMAC-CHAP."""
        fixed = _Negotiate(t_id=self.t_id, sc_c=self.sc_c, napd=1).encode()
        hashes, groups = bytes(self.hashes), bytes(self.groups)
        return fixed + _Descriptor(1, len(hashes), len(groups), hashes, groups).encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """MessageError where it is none, or offers no DH-HMAC-CHAP."""
        fixed = _fixed(_Negotiate, data)
        _exact(data, _Negotiate.SIZE + fixed.napd * _Descriptor.SIZE, "AUTH_Negotiate")
        for index in range(fixed.napd):
            start = _Negotiate.SIZE + index * _Descriptor.SIZE
            one = _Descriptor.decode(data[start:])
            if one.authid != AuthType.DH_HMAC_CHAP:
                continue
            if one.halen > _LIST or one.dhlen > _LIST:
                raise _payload(f"{one.halen} hashes and {one.dhlen} groups in lists of {_LIST}")
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
    """DH-HMAC-CHAP_Challenge: the hash and the group chosen, S1, C1 and g^x."""

    t_id: int
    hash: Hash
    group: DhGroup
    s1: int
    c1: bytes
    dh_value: bytes = b""

    def encode(self) -> bytes:
        """All of it."""
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
        """From a buffer; MessageError where it is none, or of an unknown hash or group."""
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
    """DH-HMAC-CHAP_Reply: R1 and g^y, and C2 and S2 where the controller has to answer too."""

    t_id: int
    r1: bytes
    c2: bytes | None = None
    s2: int = 0
    dh_value: bytes = b""

    def encode(self) -> bytes:
        """All of it; the room of C2 is there where it is not used."""
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
        """To a challenge of this hash and group; MessageError where it is none."""
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
    """DH-HMAC-CHAP_Success1: the host is who it says, and R2 where it asked for that."""

    t_id: int
    hash: Hash
    r2: bytes | None = None

    def encode(self) -> bytes:
        """HL is set in any case: Linux insists on it."""
        valid = int(self.r2 is not None)
        fixed = _Success1(t_id=self.t_id, hl=self.hash.size, rvalid=valid)
        return fixed.encode() + (self.r2 or b"")

    @classmethod
    def parse(cls, data: bytes, hashed: Hash) -> Self:
        """From a buffer; MessageError where it is none."""
        fixed = _fixed(_Success1, data)
        if not fixed.rvalid:
            return cls(fixed.t_id, hashed)
        if fixed.rvalid != 1 or fixed.hl != hashed.size:
            raise _payload(f"RVALID {fixed.rvalid}, hash length {fixed.hl} with {hashed.title}")
        return cls(fixed.t_id, hashed, *_tail(data, _Success1.SIZE, fixed.hl))


@dataclass(frozen=True, slots=True)
class Success2(Structure):
    """DH-HMAC-CHAP_Success2: the controller is who it says."""

    SIZE = 16
    auth_type: Annotated[int, u8(0)] = AuthType.DH_HMAC_CHAP
    auth_id: Annotated[int, u8(1)] = AuthId.SUCCESS2
    t_id: Annotated[int, u16(4)] = 0

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """MessageError where it has another length."""
        _exact(data, cls.SIZE, "DH-HMAC-CHAP_Success2")
        return cls.decode(data)


@dataclass(frozen=True, slots=True)
class Failure(Structure):
    """AUTH_Failure1, of the controller, or AUTH_Failure2, of the host."""

    SIZE = 8
    auth_type: Annotated[int, u8(0)] = AuthType.COMMON
    auth_id: Annotated[int, u8(1)] = AuthId.FAILURE1
    t_id: Annotated[int, u16(4)] = 0
    rcode: Annotated[int, u8(6)] = RCODE_FAILURE
    rcode_explanation: Annotated[int, u8(7)] = Reason.FAILED

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """From a buffer; MessageError where it is none."""
        return _fixed(cls, data)


def _payload(detail: str) -> MessageError:
    return MessageError(Reason.INCORRECT_PAYLOAD, detail)


def _fixed(kind: type[S], data: bytes) -> S:
    if len(data) < kind.SIZE:
        name = kind.__name__.strip("_")
        raise _payload(f"{len(data)} bytes, where {name} begins with {kind.SIZE}")
    return kind.decode(data)


def _exact(data: bytes, size: int, name: str) -> None:
    if len(data) != size:
        raise _payload(f"{name} of {len(data)} bytes, where its fields make it {size}")


def _tail(data: bytes, start: int, *sizes: int) -> list[bytes]:
    """Fields of these sizes, one behind the other."""
    if len(data) < start + sum(sizes):
        raise _payload(f"{len(data)} bytes, where the fields make it {start + sum(sizes)}")
    fields = []
    for size in sizes:
        fields.append(bytes(data[start : start + size]))
        start += size
    return fields


def _check_dh_length(group: DhGroup, length: int) -> None:
    # A value may come without its leading zeroes; Linux, SPDK and this keep them.
    if length > group.size or (group and not length):
        raise _payload(f"a DH value of {length} bytes, where {group.title} has {group.size}")
