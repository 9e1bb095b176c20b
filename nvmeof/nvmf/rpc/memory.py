# SPDX-License-Identifier: BSD-3-Clause
"""Results of the RPC methods for remote memory."""

from typing import Literal, TypedDict


class MemoryConnection(TypedDict):
    """A host that uses a namespace as memory."""

    nqn: str
    """The subsystem."""
    nsid: int
    hostnqn: str
    access: Literal["read-write", "read-only"]
    peer: str
    """Its address and port."""
    persists: int
    """Requests to make a range persistent."""
    persisted_bytes: int
    errors: int
    """Failed requests of that kind."""
    written_bytes: int | None
    """By RDMA; None (as read_bytes) where the device does not count them: the embedded iWARP device
    does."""
    read_bytes: int | None
