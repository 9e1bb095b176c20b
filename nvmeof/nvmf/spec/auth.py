# SPDX-License-Identifier: BSD-3-Clause
"""In-band authentication: identifiers, reasons, commands and the common message header.

Base 2.0, 6.1, 6.2 and 8.13; the messages are in auth_messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Self

from nvmf.errors import Error
from nvmf.spec.layout import Structure, u8, u16
from nvmf.spec.status import Named, Status, StatusError

SECP = 0xE9
"""Security Protocol: NVMe-oF in-band authentication."""
SPSP = 1
"""Both bytes of the SP Specific field."""
MAX_MESSAGE = 4096
"""Buffer size for any message; the longest, a reply with FFDHE 8192 and SHA-512, has 1168 bytes."""
NO_SECURE_CHANNEL = 0
"""SC_C: no secure channel follows."""


class AuthType(IntEnum):
    """AUTH_TYPE of a message."""

    COMMON = 0
    DH_HMAC_CHAP = 1


class AuthId(Named):
    """AUTH_ID of a message of any type."""

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
        """The name used by hashlib and by configurations."""
        return f"sha{8 * self.size}"


class DhGroup(Named):
    """DHgID: a finite field group of RFC 7919, or no group (NULL)."""

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


ALL_HASHES = (Hash.SHA_256, Hash.SHA_384, Hash.SHA_512)
ALL_GROUPS = (*(group for group in DhGroup if group), DhGroup.NULL)
"""In order of preference: the fastest group first, NULL last."""


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
    """Return the specification's name of a Reason Code Explanation."""
    try:
        return Reason(code).title
    except ValueError:
        return f"reason {code:02x}h"


class MessageError(Error):
    """A message is invalid: the reason to send to the peer, and text for the log."""

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
        """Decode the dwords; raise Invalid Field for another security protocol or a length of 0."""
        if cdw10 != _CDW10:
            raise StatusError(
                Status.INVALID_FIELD,
                f"security protocol {cdw10 >> 24:02x}h, SPSP1 {cdw10 >> 16 & 0xFF:02x}h, "
                f"SPSP0 {cdw10 >> 8 & 0xFF:02x}h: in-band authentication has {SECP:02x}h, 01h and "
                "01h",
            )
        if not cdw11:
            raise StatusError(Status.INVALID_FIELD, "authentication command with a length of 0")
        return cls(cdw11)

    @property
    def cdw10(self) -> int:
        """SPSP0, SPSP1 and SECP."""
        return _CDW10


_CDW10 = SPSP << 8 | SPSP << 16 | SECP << 24


@dataclass(frozen=True, slots=True)
class Header(Structure):
    """The header of every message."""

    SIZE = 6
    auth_type: Annotated[int, u8(0)] = 0
    auth_id: Annotated[int, u8(1)] = 0
    t_id: Annotated[int, u16(4)] = 0
    """Transaction identifier, chosen by the host."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Decode the header; raise MessageError if it is incomplete or of an unknown message."""
        if len(data) < cls.SIZE:
            raise MessageError(Reason.INCORRECT_PAYLOAD, f"a message of {len(data)} bytes")
        header = cls.decode(data)
        header.name()
        return header

    def name(self) -> AuthId:
        """Return which message this is; raise MessageError if it is unknown."""
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
