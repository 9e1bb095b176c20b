# SPDX-License-Identifier: BSD-3-Clause
"""The methods by NVMe commands: nvme-fua and nvme-write-flush."""

from __future__ import annotations

from typing import Literal

from typing_extensions import Buffer

from nvmf.initiator import AnyNamespace
from nvmf.pmem.platform import assumptions


class BlockMethod:
    """A namespace as a range of persistent bytes: see nvmf.pmem.Method.

    Writes are of whole blocks.  close() does not disconnect the namespace's controller.
    """

    def __init__(
        self, namespace: AnyNamespace, method: Literal["nvme-fua", "nvme-write-flush"]
    ) -> None:
        self._namespace = namespace
        self._method = method

    @property
    def name(self) -> str:
        """The method."""
        return self._method

    @property
    def size(self) -> int:
        """Bytes of the namespace."""
        return self._namespace.size

    @property
    def assumes(self) -> tuple[str, ...]:
        """Return the assumptions of the method about the target."""
        return assumptions(self._method)

    async def write(self, offset: int, data: Buffer) -> None:
        """Write whole blocks; when this returns they are persistent."""
        if self._method == "nvme-fua":
            await self._namespace.pwrite(data, offset, fua=True)
        else:
            await self._namespace.pwrite(data, offset)
            await self._namespace.flush()

    async def read(self, offset: int, length: int) -> bytes:
        """Return bytes."""
        return await self._namespace.pread(length, offset)

    async def close(self) -> None:
        """Do nothing."""
