# SPDX-License-Identifier: BSD-3-Clause
"""Responses, sequence numbers and transaction identifiers (Base 2.0, 8.13.5)."""

from __future__ import annotations

import hmac
import itertools
import secrets
from dataclasses import dataclass

from nvmf.auth.key import Key
from nvmf.spec.auth import NO_SECURE_CHANNEL, Hash


@dataclass(frozen=True, slots=True)
class Parties:
    """The two ends of an authentication."""

    hostnqn: str
    subnqn: str


def host_response(
    key: Key, hashed: Hash, parties: Parties, challenge: bytes, seqnum: int, t_id: int
) -> bytes:
    """Return R1, the response of a host with this key to Ca1 and S1."""
    secret = key.transformed(parties.hostnqn)
    text = _text(challenge, seqnum, t_id, b"HostHost", parties.hostnqn, parties.subnqn)
    return hmac.digest(secret, text, hashed.digest)


def controller_response(
    key: Key, hashed: Hash, parties: Parties, challenge: bytes, seqnum: int, t_id: int
) -> bytes:
    """Return R2, the response of a controller with this key to Ca2 and S2."""
    secret = key.transformed(parties.subnqn)
    text = _text(challenge, seqnum, t_id, b"Controller", parties.subnqn, parties.hostnqn)
    return hmac.digest(secret, text, hashed.digest)


def augmented(challenge: bytes, session_key: bytes | None, hashed: Hash) -> bytes:
    """Return Ca: the challenge combined with the session key, if a DH exchange took place."""
    if session_key is None:
        return challenge
    return hmac.digest(session_key, challenge, hashed.digest)


def _text(challenge: bytes, seqnum: int, t_id: int, role: bytes, mine: str, theirs: str) -> bytes:
    return b"".join(
        (
            challenge,
            seqnum.to_bytes(4, "little"),
            t_id.to_bytes(2, "little"),
            bytes([NO_SECURE_CHANNEL]),
            role,
            mine.encode(),
            b"\0",
            theirs.encode(),
        )
    )


_seqnums = itertools.count(secrets.randbits(32))
_t_ids = itertools.count(secrets.randbits(16))


def next_seqnum() -> int:
    """Return a sequence number, never 0, that this process has not used recently."""
    return (next(_seqnums) & 0xFFFFFFFF) or next_seqnum()


def next_t_id() -> int:
    """Return a transaction identifier that this process has not used recently."""
    return next(_t_ids) & 0xFFFF
