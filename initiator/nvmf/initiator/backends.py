# SPDX-License-Identifier: BSD-3-Clause
"""Who moves the data: this process, or the kernel."""

from __future__ import annotations

from nvmf.initiator.controller import Controller
from nvmf.initiator.interface import AnyController
from nvmf.initiator.options import ConnectOptions
from nvmf.initiator.transport_id import TransportId


async def open_controller(where: TransportId, options: ConnectOptions) -> AnyController:
    """Connect by the backend that the options name: see nvmf.initiator.connect."""
    if options.backend == "kernel":
        from nvmf.initiator.kernel.controller import KernelController

        return await KernelController.open(where, options)
    return await Controller.open(where, options)
