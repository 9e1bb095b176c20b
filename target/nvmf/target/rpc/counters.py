# SPDX-License-Identifier: BSD-3-Clause
"""All counters at one moment, for clients that compute rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmf.rpc.results import Counters, QueueCounters
from nvmf.target.metrics.sample import QueueSample, take
from nvmf.target.rpc.describe import address, namespace_stats, queue_stats, queue_totals
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


@method("target_get_counters", Params, "counters")
def get_counters(administration: Administration, params: Params) -> Counters:
    """Return the counters of reactors, namespaces, connected queues and events."""
    sample = take(administration.server)
    return {
        "seconds": sample.seconds,
        "reactors": [
            {
                "reactor": index,
                "admin_queues": one.admin_queues,
                "io_queues": one.io_queues,
                "outstanding": one.outstanding,
                **queue_totals(one.totals),
            }
            for index, one in enumerate(sample.reactors)
        ],
        "namespaces": [
            {
                **namespace_stats(one.nqn, one.nsid, one.stats),
                "size": one.size,
                "latency": one.latency,
            }
            for one in sample.namespaces
        ],
        "queues": [_queue(one) for one in sample.queues],
        "events": sample.events.record(),
    }


def _queue(one: QueueSample) -> QueueCounters:
    queue = one.connection.queue
    controller = queue.controller
    assert controller is not None
    return {
        "hostnqn": controller.hostnqn,
        "subnqn": controller.subsystem.nqn,
        "cntlid": controller.cntlid,
        "qid": queue.qid,
        "reactor": one.connection.reactor,
        "peer_address": address(queue.peer),
        **queue_stats(one.stats),
    }
