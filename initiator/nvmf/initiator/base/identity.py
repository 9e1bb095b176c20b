# SPDX-License-Identifier: BSD-3-Clause
"""The identity of this host: its NQN and identifier, from nvme-cli's files in /etc/nvme."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nvmf.spec.nqn import UUID_NQN_PREFIX, nqn_of_uuid, validate_nqn

HOSTNQN_FILE = Path("/etc/nvme/hostnqn")
HOSTID_FILE = Path("/etc/nvme/hostid")
MACHINE_ID_FILE = Path("/etc/machine-id")
_OURS = uuid.UUID("7f1cf0d0-37a5-4d0e-9d39-6b2c5d7a3d0e")
"""The UUID namespace of the identifiers derived here."""


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """A host NQN and its identifier: controllers require that the two always belong together."""

    nqn: str
    id: uuid.UUID


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _id_of(nqn: str) -> uuid.UUID:
    """Return the identifier for an NQN that was given without one."""
    if nqn.startswith(UUID_NQN_PREFIX):
        return uuid.UUID(nqn.removeprefix(UUID_NQN_PREFIX))
    return uuid.uuid5(_OURS, nqn)


@cache
def _made() -> uuid.UUID:
    """Return an identity for a host without one; it depends only on the machine-id."""
    machine = _line(MACHINE_ID_FILE)
    return uuid.uuid5(_OURS, machine) if machine else uuid.uuid4()


def host_identity(hostnqn: str | None = None, hostid: str | None = None) -> HostIdentity:
    """Return the given identity, else that of /etc/nvme/hostnqn and hostid, else a generated one.

    If only one of the two is given, the other is derived from it. Raises ValueError if an NQN or an
    identifier is invalid; the message names its file, if any.
    """
    nqn, nqn_from = hostnqn, "the host NQN given"
    text, text_from = hostid, "the host ID given"
    if nqn is None and text is None:
        nqn, nqn_from = _line(HOSTNQN_FILE), str(HOSTNQN_FILE)
        text, text_from = _line(HOSTID_FILE), str(HOSTID_FILE)
    identifier = None
    if text is not None:
        try:
            identifier = uuid.UUID(text)
        except ValueError:
            raise ValueError(f"{text_from}: {text!r} is not a UUID") from None
    if nqn is None:
        identifier = identifier or _made()
        return HostIdentity(nqn_of_uuid(identifier), identifier)
    try:
        validate_nqn(nqn)
    except ValueError as error:
        raise ValueError(f"{nqn_from}: {error}") from None
    return HostIdentity(nqn, identifier or _id_of(nqn))
