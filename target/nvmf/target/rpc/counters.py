# SPDX-License-Identifier: BSD-3-Clause
"""All counters at one moment, for clients that compute rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvmf.target.metrics.sample import QueueSample, take
from nvmf.target.rpc.describe import address
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


@method("target_get_counters", Params)
def get_counters(administration: Administration, params: Params) -> dict[str, Any]:
    """Return all counters of reactors, namespaces and connected queues, and counts of events."""
    sample = take(administration.server)
    return {
        "seconds": sample.seconds,
        "reactors": [
            {
                "reactor": index,
                "admin_queues": one.admin_queues,
                "io_queues": one.io_queues,
                "outstanding": one.outstanding,
                **one.totals,
            }
            for index, one in enumerate(sample.reactors)
        ],
        "namespaces": [
            {
                "nqn": one.nqn,
                "nsid": one.nsid,
                "size": one.size,
                **one.stats,
                "latency": one.latency,
            }
            for one in sample.namespaces
        ],
        "queues": [_queue(one) for one in sample.queues],
        "events": sample.events.record(),
    }


def _queue(one: QueueSample) -> dict[str, Any]:
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
        **one.stats,
    }
