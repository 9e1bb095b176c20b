# SPDX-License-Identifier: BSD-3-Clause
"""Who moves the data: this process, or the kernel."""

from __future__ import annotations

from nvmf.initiator.base.interface import AnyController
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.controller import Controller


async def open_controller(where: TransportId, options: ConnectOptions) -> AnyController:
    """Connect by the backend that the options name: see nvmf.initiator.connect."""
    if options.backend == "kernel":
        from nvmf.initiator.kernel.controller import KernelController

        return await KernelController.open(where, options)
    return await Controller.open(where, options)
