# SPDX-License-Identifier: BSD-3-Clause
"""The first session with a controller: which device reaches it, and as whom."""

from __future__ import annotations

import asyncio
from typing import Literal

from nvmf.engine import ConnectError, HostDevice, list_devices, verbs_available
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.base.options import ConnectOptions, DeviceKind
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.buffers import BufferPool
from nvmf.initiator.client.session import Place, Session

_CM_EVENT_ADDR_ERROR, _CM_EVENT_ROUTE_ERROR = 1, 3


def device_kinds(kind: DeviceKind) -> list[Literal["iwarp", "system"]]:
    """The kinds of device to try, in order.  May block for a moment."""
    if kind != "auto":
        return [kind]
    if verbs_available("system") is None and list_devices("system"):
        return ["system", "iwarp"]
    return ["iwarp"]


async def first_session(where: TransportId, options: ConnectOptions) -> Session:
    """Connect on the first device that has a way to the address.

    Raises ConnectError, NvmeError, ConnectionLost; EngineError where a device cannot be opened;
    ValueError where the host NQN or identifier is none.
    """
    identity = host_identity(options.hostnqn, options.hostid)
    kinds = await asyncio.to_thread(device_kinds, options.device)
    while True:
        kind = kinds.pop(0)
        device = await asyncio.to_thread(HostDevice, kind, remote_keys=options.remote_keys)
        pool = BufferPool(device)
        try:
            return await Session.open(Place(where, identity, options, pool))
        except ConnectError as error:
            pool.close()
            no_way = error.cm_event in (_CM_EVENT_ADDR_ERROR, _CM_EVENT_ROUTE_ERROR)
            if not (kinds and no_way):
                raise
        except BaseException:
            pool.close()
            raise
