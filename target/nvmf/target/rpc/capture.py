# SPDX-License-Identifier: BSD-3-Clause
"""A capture of the target's packets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nvmf.engine import EngineError, start_capture
from nvmf.rpc.errors import Code, RpcError
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class Capture(Params):
    socket: str
    """The Unix socket of the program that captures: its path, or @ and an abstract name."""


@method("target_capture", Capture, "capture", changes=True)
async def capture(administration: Administration, params: Capture) -> bool:
    """Send the packets of RDMA devices to a Unix socket, as pcapng, until its reader closes it.

    The reader is a program such as nvmeof capture. Packets of system devices are synthesised
    from the target's work requests; a comment marks them.

    One capture at a time is possible. It contains the data of all hosts.
    """
    try:
        await asyncio.to_thread(start_capture, params.socket)
    except EngineError as error:
        raise RpcError(Code.INVALID_PARAMS, str(error)) from None
    return True
