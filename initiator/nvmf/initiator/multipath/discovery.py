# SPDX-License-Identifier: BSD-3-Clause
"""Discovery of the other ports of a subsystem."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

from nvmf.auth.key import Key
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.keywords import ASKING, given
from nvmf.initiator.base.options import Backend, ConnectOptions, DeviceKind, RemoteKeys
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.discovery.log import address_key, discover, place_of
from nvmf.spec.fabrics import SubsystemType

_MOST = 256
"""Maximum ports of a subsystem; a log with more is refused."""


async def find_paths(
    where: str | TransportId, options: ConnectOptions | None = None, /, *,
    queues: int = ASKING.queues, queue_depth: int = ASKING.queue_depth, kato: float = ASKING.kato,
    hostnqn: str | None = ASKING.hostnqn, hostid: str | None = ASKING.hostid,
    host_traddr: str | None = ASKING.host_traddr, reconnect_delay: float = ASKING.reconnect_delay,
    ctrl_loss_tmo: float = ASKING.ctrl_loss_tmo, io_timeout: float = ASKING.io_timeout,
    admin_timeout: float = ASKING.admin_timeout, connect_timeout: float = ASKING.connect_timeout,
    in_capsule: bool = ASKING.in_capsule, disable_sqflow: bool = ASKING.disable_sqflow,
    dhchap_secret: Key | str | None = ASKING.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = ASKING.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = ASKING.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = ASKING.dhchap_ctrl_secret_file,
    device: DeviceKind = ASKING.device, remote_keys: RemoteKeys = ASKING.remote_keys,
    backend: Backend = ASKING.backend, write_queues: int = ASKING.write_queues,
    poll_queues: int = ASKING.poll_queues, fast_io_fail_tmo: float | None = ASKING.fast_io_fail_tmo,
    tos: int | None = ASKING.tos, duplicate_connect: bool = ASKING.duplicate_connect,
) -> list[TransportId]:  # fmt: skip
    """Return the ports of a subsystem in the discovery log of one of them, that port first.

    Each has the options of the URL. Raises as discover() does, ValueError if the URL has no
    subsystem's NQN, and ConnectionLost if the log does not have the subsystem.
    """
    changes = given(locals())
    place = TransportId.of(where)
    if place.is_discovery:
        raise ValueError(f"{where}: the URL names the subsystem whose ports are looked for")
    asking = (options or ConnectOptions()).with_options({**place.options, **changes, "kato": 0})
    found = [place]
    seen = {address_key(each) for each in await _resolved(place)} | {address_key(place)}
    known = False
    for entry in await discover(replace(place, options={}), asking):
        if entry.subtype != SubsystemType.NVME or entry.subnqn != place.subnqn:
            continue
        known = True
        try:
            port = replace(place_of(entry), options=place.options)
        except ValueError:
            continue  # of a different transport
        if address_key(port) not in seen:
            seen.add(address_key(port))
            found.append(port)
        if len(found) > _MOST:
            raise ConnectionLost(
                f"the discovery log at {place.endpoint} names more than {_MOST} ports for "
                f"{place.subnqn}: give those that are to be paths"
            )
    if not known:
        raise ConnectionLost(
            f"the discovery log at {place.endpoint} has no {place.subnqn} for this host; see "
            "discover for what it has"
        )
    return found


async def _resolved(place: TransportId) -> list[TransportId]:
    """Return a key that is equal for the same port, by its numeric addresses."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            place.traddr, int(place.trsvcid), type=socket.SOCK_STREAM
        )
    except OSError:
        return []
    return [replace(place, traddr=str(address[0])) for *_, address in found]
