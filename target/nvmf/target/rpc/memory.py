# SPDX-License-Identifier: BSD-3-Clause
"""Remote memory: its connections, and their revocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmf.rpc.memory import MemoryConnection
from nvmf.target.change.edit import find, find_namespace
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class Revoke(Params):
    nqn: str
    """The subsystem."""
    nsid: int | None = None
    """Left out: all namespaces."""
    host: str | None = None
    """NQN of the host; left out: all hosts."""


@method("target_get_memory", Params, "memory")
def get_memory(administration: Administration, params: Params) -> list[MemoryConnection]:
    """Return the hosts that use namespaces as memory."""
    return administration.server.memory.describe()


@method("target_revoke_memory", Revoke, "revoke_memory", changes=True)
async def revoke(administration: Administration, params: Revoke) -> int:
    """End connections for remote memory, and return their number.

    When it returns, no write of these hosts can reach the memory. They may connect again
    while the configuration allows it: remove them from memory or memory_read_only first.
    """

    def chosen(one: MemoryConnection) -> bool:
        return (
            one["nqn"] == params.nqn
            and params.nsid in (None, one["nsid"])
            and params.host in (None, one["hostnqn"])
        )

    if params.nsid is None:
        find(administration.server.config, params.nqn)
    else:
        find_namespace(administration.server.config, params.nqn, params.nsid)
    return await administration.server.memory.revoke(chosen, "revoked by the administrator")
