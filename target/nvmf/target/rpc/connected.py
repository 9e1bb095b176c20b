# SPDX-License-Identifier: BSD-3-Clause
"""Connected hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmf.rpc.results import Controller, QueuePair
from nvmf.target.rpc.describe import describe_controller, describe_queue
from nvmf.target.rpc.registry import method
from nvmf.target.rpc.subsystems import Named, find

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


@method("nvmf_subsystem_get_controllers", Named, "controllers")
def get_controllers(administration: Administration, params: Named) -> list[Controller]:
    """Return the controllers of a subsystem."""
    every = find(administration, params.nqn).controllers
    return [describe_controller(controller) for _, controller in sorted(every.items())]


@method("nvmf_subsystem_get_qpairs", Named, "queue_pairs")
def get_qpairs(administration: Administration, params: Named) -> list[QueuePair]:
    """Return the queue pairs of a subsystem."""
    every = find(administration, params.nqn).controllers
    return [describe_queue(queue) for _, c in sorted(every.items()) for queue in c.queues()]
