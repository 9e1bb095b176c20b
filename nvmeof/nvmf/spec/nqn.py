# SPDX-License-Identifier: BSD-3-Clause
"""NVMe Qualified Names and host identifiers (Base 2.0, 4.5)."""

from __future__ import annotations

import re
import uuid

DISCOVERY_NQN = "nqn.2014-08.org.nvmexpress.discovery"
"""NQN of the well-known discovery subsystem."""
UUID_NQN_PREFIX = "nqn.2014-08.org.nvmexpress:uuid:"
"""Prefix of an NQN that is formed from a UUID."""
MAX_NQN_BYTES = 223
"""Maximum length of an NQN in bytes of UTF-8, without the NUL."""

_DOMAIN_FORM = re.compile(
    r"nqn\.\d{4}-(0[1-9]|1[0-2])"
    r"\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
    r"(:.+)?",
    re.DOTALL,
)


_UUID_FORM = re.compile(
    re.escape(UUID_NQN_PREFIX) + r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def validate_nqn(nqn: str) -> str:
    """Return the NQN; raise ValueError if it is invalid.

    As in Linux, any name of 1 to 223 bytes of UTF-8 without control characters is valid;
    nqn_advice() tells whether it has a form of the specification.
    """
    try:
        size = len(nqn.encode("utf-8"))
    except UnicodeEncodeError:
        raise ValueError(f"NQN {nqn!r} is not UTF-8") from None
    if not size:
        raise ValueError("the NQN is empty")
    if size > MAX_NQN_BYTES:
        raise ValueError(f"NQN of {size} bytes is longer than {MAX_NQN_BYTES} bytes")
    if _CONTROL.search(nqn):
        raise ValueError(f"NQN {nqn!r} contains a control character")
    return nqn


def nqn_advice(nqn: str) -> str | None:
    """Return a warning if a valid NQN has no form of the specification, else None."""
    form = _UUID_FORM if nqn.startswith(UUID_NQN_PREFIX) else _DOMAIN_FORM
    if form.fullmatch(nqn):
        return None
    return (
        f"NQN {nqn!r} is not of the form nqn.YYYY-MM.DOMAIN:NAME or {UUID_NQN_PREFIX}UUID: "
        "Linux accepts it, but other hosts and targets may not"
    )


def is_valid_nqn(nqn: str) -> bool:
    """Return whether validate_nqn accepts the NQN."""
    try:
        validate_nqn(nqn)
    except ValueError:
        return False
    return True


def nqn_of_uuid(value: uuid.UUID) -> str:
    """Return the NQN of a host or subsystem that is identified by a UUID."""
    return f"{UUID_NQN_PREFIX}{value}"


def hostid_bytes(value: uuid.UUID | str) -> bytes:
    """Return the 16 bytes of a host identifier as in Linux's Connect data (UUID order)."""
    return (value if isinstance(value, uuid.UUID) else uuid.UUID(value)).bytes
