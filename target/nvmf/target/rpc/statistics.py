# SPDX-License-Identifier: BSD-3-Clause
"""Counters and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmf.rpc.errors import Code, RpcError
from nvmf.rpc.results import PollGroup, Stats, TransportLimits
from nvmf.target.commands.cm import ADMIN_QUEUE_DEPTH
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


class OneTransport(Params):
    trtype: str | None = None


@method("nvmf_get_transports", OneTransport, "transports")
def get_transports(administration: Administration, params: OneTransport) -> list[TransportLimits]:
    """Return the only transport, with the largest limits of all subsystems."""
    if params.trtype is not None and params.trtype.upper() != "RDMA":
        raise RpcError(
            Code.NO_SUCH_DEVICE, f"no transport {params.trtype[:32]}: only RDMA is supported"
        )
    server = administration.server
    target, limits = server.config.target, server.core.limits
    return [
        {
            "trtype": "RDMA",
            "max_queue_depth": limits.queue_size,
            "max_io_qpairs_per_ctrlr": limits.max_io_queues,
            "in_capsule_data_size": limits.in_capsule,
            "max_io_size": limits.mdts,
            "io_unit_size": target.buffer_size,
            "max_aq_depth": ADMIN_QUEUE_DEPTH,
            "num_shared_buffers": target.buffers * target.reactors,
        }
    ]
