# SPDX-License-Identifier: BSD-3-Clause
"""The interface of the store of a namespace with store = "mirror" (nvmf.replication.managed)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from nvmf.config.models import NamespaceConfig
from nvmf.rpc.mirror import MirrorChange, MirrorStatus
from nvmf.target.io.pystore import Store

FACTORY = "nvmf.replication.managed:ManagedMirror"
"""Makes a mirrored store for a namespace.  The implementation is imported when the first one is
needed: replication uses the client, which a target does not need otherwise.
"""


class Mirrored(Store):
    """A store with legs that can change while it is in use."""

    @abstractmethod
    def status(self) -> MirrorStatus:
        """Return the latest state, at most a moment old; on any thread."""

    @abstractmethod
    def listen(self, told: Callable[[MirrorChange], None]) -> None:
        """Call told for each change of a state, past and future, on the store's thread.

        It may be called on any thread.
        """

    @abstractmethod
    async def reconfigure(self, config: NamespaceConfig) -> None:
        """Use the legs, the quorum and the rate of a configuration; OSError if that fails."""

    @abstractmethod
    async def resync(self) -> None:
        """Try all legs again that are lost, and take over again from a different writer."""
