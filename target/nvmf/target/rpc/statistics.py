# SPDX-License-Identifier: BSD-3-Clause
"""Counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmf.rpc.results import PollGroup, Stats
from nvmf.target.rpc.describe import namespace_stats
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


@method("nvmf_get_stats", Params, "stats")
def get_stats(administration: Administration, params: Params) -> Stats:
    """Return a poll group per reactor, and the counters of namespaces since they were added."""
    server = administration.server
    groups: list[PollGroup] = [
        {"name": f"reactor_{index}", **counts, "transports": [{"trtype": "RDMA"}]}
        for index, counts in enumerate(server.reactor_counts())
    ]
    namespaces = [
        namespace_stats(subsystem.nqn, nsid, namespace.stats())
        for subsystem in server.core.subsystems.values()
        for nsid, namespace in sorted(subsystem.namespaces.items())
    ]
    return {"tick_rate": 1_000_000_000, "poll_groups": groups, "namespaces": namespaces}
