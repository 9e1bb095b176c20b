# SPDX-License-Identifier: BSD-3-Clause
"""The discovery log, as read by the client and the kernel's side."""

from __future__ import annotations

from typing import cast

import pytest

from nvmf.initiator.base.discoverylog import MAX_RECORDS
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.limits import TRIES
from nvmf.initiator.client.admin import Admin
from nvmf.initiator.discovery import log as client
from nvmf.initiator.kernel import discovery as kernel
from nvmf.initiator.kernel.ioctl import Device
from nvmf.spec.fabrics import DiscoveryEntry, DiscoveryHeader, encode_discovery_log
from nvmf.spec.sqe import Sqe

SIZE = 1024
"""Bytes of the header, and of a record."""


def log(genctr: int, records: int) -> bytes:
    return encode_discovery_log(genctr, [DiscoveryEntry(trsvcid=str(n)) for n in range(records)])


class Port:
    """A discovery controller whose log changes at the beginning of each reading."""

    def __init__(self, *logs: bytes) -> None:
        self._logs = logs
        self._headers = 0
        self.retained: list[bool] = []
        """Whether each Get Log Page retained the event."""

    def read(self, offset: int, length: int, *, rae: bool) -> bytes:
        self.retained.append(rae)
        self._headers += not offset
        found = self._logs[min(self._headers, len(self._logs)) - 1]
        return found[offset : offset + length].ljust(length, b"\0")

    async def log_page(
        self, lid: int, length: int, *, nsid: int, offset: int = 0, rae: bool = False
    ) -> bytes:
        """For the client."""
        assert (lid, nsid) == (0x70, 0)
        return self.read(offset, length, rae=rae)

    def admin(self, sqe: bytes, name: str, length: int) -> tuple[bytes, int]:
        """For the kernel's side."""
        found = Sqe.decode(sqe)
        assert (found.cdw10 & 0xFF, found.nsid) == (0x70, 0)
        offset = found.cdw13 << 32 | found.cdw12
        return self.read(offset, length, rae=bool(found.cdw10 >> 15 & 1)), 0


async def both(*logs: bytes) -> tuple[bytes, list[bool]]:
    """Read by both, and return the log, and which commands retained the event."""
    one, other = Port(*logs), Port(*logs)
    found = await client.read_log(cast(Admin, one))
    assert kernel.read_log(cast(Device, other)) == found
    assert one.retained == other.retained
    return found, one.retained


@pytest.mark.parametrize("records", [0, 1, 4, 5, 9])
async def test_all_parts_are_read(records: int) -> None:
    found, retained = await both(log(1, records))
    assert found == log(1, records)
    parts = -(-records * SIZE // 4096)
    assert retained == [True] * (parts + 1) + [False], "the event is cleared by the last command"


async def test_read_again_if_it_changes() -> None:
    found, retained = await both(log(1, 1), log(2, 2), log(2, 2))
    assert found == log(2, 2)
    assert retained == [True, True, False] * 2


@pytest.mark.parametrize(
    ("logs", "says"),
    [
        ([log(n, 1) for n in range(1, 100)], f"changed during each of {TRIES} readings"),
        ([DiscoveryHeader(genctr=1, numrec=MAX_RECORDS + 1).encode()], "more than a port can have"),
        ([DiscoveryHeader(genctr=1, recfmt=1).encode()], "unknown discovery log record format 1"),
    ],
)
async def test_refused(logs: list[bytes], says: str) -> None:
    with pytest.raises(ConnectionLost, match=says):
        await client.read_log(cast(Admin, Port(*logs)))
    with pytest.raises(ConnectionLost, match=says):
        kernel.read_log(cast(Device, Port(*logs)))
