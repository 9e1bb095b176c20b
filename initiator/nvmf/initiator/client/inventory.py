# SPDX-License-Identifier: BSD-3-Clause
"""Reads the list of namespaces and their Identify data.

There may be a thousand, and each takes two commands. Therefore several are read at a time, and
after an event only the namespaces in its log page are read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from nvmf.initiator.base.errors import ConnectionLost, NvmeError
from nvmf.initiator.base.pieces import pipeline
from nvmf.initiator.client.admin import Admin
from nvmf.spec.features import AsyncEvent, EventType, Notice
from nvmf.spec.identify import IdentifyNamespace, decode_descriptors
from nvmf.spec.identify_ns import NamespaceIds
from nvmf.spec.logs import CHANGED_NAMESPACES_OVERFLOW, decode_changed_namespaces
from nvmf.spec.opcodes import Cns, Csi, LogId
from nvmf.spec.status import Status, StatusError

_MOST_SECONDS = 600.0
"""Maximum seconds for reading all namespaces."""
_UNKNOWN = (Status.INVALID_FIELD, Status.INVALID_OPCODE)
_AT_ONCE = 16
"""Namespaces that are read at a time: half of the admin queue; the rest is for other commands."""
_LOG_LENGTH = {LogId.ERROR: 64, LogId.SMART: 512, LogId.CHANGED_NAMESPACES: 4096, LogId.ANA: 16}
"""Bytes to read of the log pages of events."""
Described: TypeAlias = tuple[IdentifyNamespace, NamespaceIds | None]
"""The Identify data of a namespace; None: the controller does not support the descriptors."""


class Found(NamedTuple):
    """The active namespaces of the NVM command set, by NSID, ascending."""

    described: dict[int, Described]
    failed: dict[int, NvmeError]
    """The status of Identify, for namespaces that the controller does not identify."""


async def read(admin: Admin, known: Mapping[int, Described]) -> Found:
    """Return the active namespaces.

    The data of those in known is not read again, only whether they are active. Raises
    ConnectionLost if that takes too long.
    """
    try:
        async with asyncio.timeout(_MOST_SECONDS):
            return await _read(admin, known)
    except TimeoutError:
        raise ConnectionLost(
            f"the controller did not describe its namespaces within {_MOST_SECONDS:g} s"
        ) from None


async def _read(admin: Admin, known: Mapping[int, Described]) -> Found:
    nsids = await admin.active_namespaces()
    found = {nsid: known[nsid] for nsid in nsids if nsid in known}
    failed: dict[int, NvmeError] = {}
    missing = [nsid for nsid in nsids if nsid not in found]

    async def describe(nsid: int) -> None:
        try:
            info, ids = await _describe(admin, nsid)
        except NvmeError as error:
            if error.status == Status.COMMAND_SEQUENCE_ERROR:
                raise  # the controller is disabled
            failed[nsid] = error
            return
        if info.nsze and (ids is None or ids.csi in (None, Csi.NVM)):
            found[nsid] = info, ids

    await pipeline(missing, describe, min(len(missing), _AT_ONCE))
    return Found(dict(sorted(found.items())), failed)


async def _describe(admin: Admin, nsid: int) -> Described:
    info = IdentifyNamespace.decode(await admin.identify(Cns.NAMESPACE, nsid))
    try:
        page = await admin.identify(Cns.NAMESPACE_DESCRIPTORS, nsid)
    except NvmeError as error:
        if error.status not in _UNKNOWN:
            raise
        return info, None  # optional before NVMe 1.3
    try:
        return info, decode_descriptors(page)
    except StatusError:  # invalid data
        return info, NamespaceIds()


async def read_about(admin: Admin, event: AsyncEvent) -> bytes:
    """Return the log page of an event, which allows the next such event; empty if it has none."""
    if event.lid not in _LOG_LENGTH:
        return b""
    return await admin.log_page(event.lid, _LOG_LENGTH[LogId(event.lid)])


def tells_of(event: AsyncEvent) -> bool:
    """Return whether an event reports a change of namespaces."""
    return event.type == EventType.NOTICE and event.info == Notice.NAMESPACE_ATTRIBUTE_CHANGED


def changed(event: AsyncEvent, page: bytes) -> set[int] | None:
    """Return the NSIDs in the log page of such an event; None if it may concern any namespace."""
    if event.lid != LogId.CHANGED_NAMESPACES:
        return None
    nsids = set(decode_changed_namespaces(page))
    return nsids if nsids and CHANGED_NAMESPACES_OVERFLOW not in nsids else None
