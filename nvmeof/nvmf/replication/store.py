# SPDX-License-Identifier: BSD-3-Clause
"""A mirror as the storage of a namespace: any NVMe host gets replicated storage."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from nvmf.replication.filereplica import FileReplica
from nvmf.replication.mapped import MappedReplica, is_device_dax
from nvmf.replication.mirror import Mirror
from nvmf.replication.replica import NamespaceReplica, Replica
from nvmf.target import Store

_log = logging.getLogger(__name__)


def replica_of(text: str, unit: int) -> Replica:
    """Return the replica that a configuration names: a path, or a URL of a target.

    ``#2`` at the end of a URL is the namespace; the default is 1.
    """
    if "://" not in text:
        return (
            MappedReplica(text, unit=unit) if is_device_dax(text) else FileReplica(text, unit=unit)
        )
    url, _, nsid = text.partition("#")
    return NamespaceReplica(url, int(nsid or 1))


class MirrorStore(Store):
    """A store whose legs are files of this machine and namespaces of other targets.

    The mirror must exist (Mirror.create()).  A command that waits for a quorum for longer than the
    store's time limit ends with Internal Error; the write may still be done later.
    """

    def __init__(
        self,
        replicas: Sequence[str],
        quorum: int,
        *,
        resync_rate: float | None = 32e6,
        unit: int = 4096,
    ) -> None:
        """
        Args:
            replicas: Paths and URLs, in the order in which the mirror was created.
            quorum: See Mirror.
            resync_rate: See Mirror.
            unit: Bytes of a block of the files: that of the mirror's namespaces, if it has any.
        """
        legs = [replica_of(text, unit) for text in replicas]
        self.mirror = Mirror(legs, quorum, resync_rate=resync_rate, lost=self._lost)

    def _lost(self, name: str, why: str) -> None:
        _log.warning("replica %s of a mirror was lost: %s; it is tried again", name, why)

    async def open(self) -> None:
        """Become the mirror's writer."""
        await self.mirror.open()
        self.block_size = self.mirror.block_size
        self.size = self.mirror.size

    async def read(self, offset: int, length: int) -> bytes:
        """Read from a replica that is in sync."""
        return await self.mirror.read(offset, length)

    async def write(self, offset: int, data: bytes) -> None:
        """Write to all replicas; when a quorum has it, it is stable."""
        await self.mirror.write(offset, data)

    async def close(self) -> None:
        """Disconnect from the replicas."""
        await self.mirror.close()
