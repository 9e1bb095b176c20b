# SPDX-License-Identifier: BSD-3-Clause
"""Makes a session: from an address to queues that are connected and enabled.

first_session() is for a new controller, new_session() also for one whose session was lost;
connecting/connect.py describes the steps before. The order is that of Base 2.0, 3.5.2, as the Linux
host has it: Connect, CAP, CC.EN, CSTS.RDY, VS, Identify Controller, Number of Queues, the I/O
queues.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from functools import partial
from typing import Literal

from nvmf.engine import (
    ConnectError,
    EngineError,
    HostDevice,
    HostQueue,
    list_devices,
    verbs_available,
)
from nvmf.initiator.base.errors import ConnectionLost, NvmeError
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.base.limits import LARGEST
from nvmf.initiator.base.options import ConnectOptions, DeviceKind
from nvmf.initiator.base.threads import on_thread, start_or_run
from nvmf.initiator.base.transport_id import Embedded, TransportId
from nvmf.initiator.client.buffers import BufferPool
from nvmf.initiator.client.queue import Queue
from nvmf.initiator.client.request import Data
from nvmf.initiator.client.reserved import reserve
from nvmf.initiator.client.session import Place, Session
from nvmf.spec import commands
from nvmf.spec.fabrics import DYNAMIC_CNTLID, ConnectData, ConnectResult
from nvmf.spec.features import AsyncEvents, NumberOfQueues
from nvmf.spec.identify import IdentifyController, IdentifyNvmController, Sgls
from nvmf.spec.opcodes import Cns, Csi, FeatureId
from nvmf.spec.properties import Cap, Cc, Crto, Property, Version, ready_timeout_seconds
from nvmf.spec.status import StatusError

log = logging.getLogger(__name__)
ADMIN_QUEUE_SIZE = 32
"""Entries of the admin queue: Linux uses 32, the maximum of nvmet."""
MIN_QUEUE = 32
"""Minimum entries of an I/O queue: nvmet never answers large Reads on smaller ones."""
MAX_READY_SECONDS = 600.0
"""Maximum seconds until a controller is ready: CRTO can demand nine hours."""
WANTED_EVENTS = (
    AsyncEvents.NAMESPACE_ATTRIBUTE | AsyncEvents.ANA_CHANGE | AsyncEvents.DISCOVERY_CHANGE
)
_CM_EVENT_ADDR_ERROR, _CM_EVENT_ROUTE_ERROR = 1, 3
_CSS_NVM, _CSS_ALL, _CSS_ADMIN_ONLY = 0, 6, 7


# ---- device and identity ----


async def first_session(where: TransportId, options: ConnectOptions) -> Session:
    """Connect on the first device with a route to the address.

    Raises ConnectError, NvmeError, ConnectionLost; EngineError if a device cannot be opened;
    ValueError if the host NQN or identifier is invalid.
    """
    identity = host_identity(options.hostnqn, options.hostid)
    kinds = await on_thread(lambda: device_kinds(options.device, where.embedded))
    while True:
        kind = kinds.pop(0)
        device = await on_thread(partial(HostDevice, kind, remote_keys=options.remote_keys))
        pool = BufferPool(device)
        try:
            return await new_session(Place(where, identity, options, pool))
        except ConnectError as error:
            pool.close()
            no_way = error.cm_event in (_CM_EVENT_ADDR_ERROR, _CM_EVENT_ROUTE_ERROR)
            if not (kinds and no_way):
                raise
        except BaseException:
            pool.close()
            raise


def device_kinds(
    kind: DeviceKind, embedded: Embedded | None = None
) -> list[Literal["iwarp", "roce", "system"]]:
    """Return the kinds of device to try, in order.  May block for a moment.

    embedded: that with the protocol of the port, if it is known.
    """
    if kind != "auto":
        return [kind]
    own = embedded or "iwarp"
    if verbs_available("system") is None and list_devices("system"):
        return ["system", own]
    return [own]


# ---- the order of a session ----


async def new_session(place: Place) -> Session:
    """Connect and enable; raises ConnectError, NvmeError or ConnectionLost.

    Raises ValueError if a key file cannot be used.
    """
    session = Session(place)
    try:
        await session.guard(_bring_up(session))
    except BaseException:
        await session.close()
        raise
    log.info(
        "connected to %s as host %s: controller %d, %d I/O queues, %s device",
        place.where,
        place.identity.nqn,
        session.cntlid,
        len(session.queues),
        place.pool.device.kind,
    )
    return session


async def _bring_up(session: Session) -> None:
    await _connect_admin(session)
    await _enable(session)
    await _identify(session)
    events = session.identify.oaes & WANTED_EVENTS
    if events:  # before any data is read whose change an event may report
        await session.admin.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, events)
    if not session.is_discovery:
        await _connect_io(session)


async def _connect_admin(session: Session) -> None:
    session.admin_queue = await _connect_rdma(session, 0, ADMIN_QUEUE_SIZE, 0)
    session.admin = session.commands_on(session.admin_queue)
    reserve(session.admin_queue)
    result = await _connect_fabrics(session, session.admin_queue, ADMIN_QUEUE_SIZE)
    session.cntlid = result.cntlid
    await session.authenticator.connected(session.admin, 0, result)


async def _enable(session: Session) -> None:
    session.cap = cap = Cap.decode(await session.admin.property_get(Property.CAP, 8))
    if cap.mpsmin:
        raise ConnectionLost(
            f"the controller's smallest page is {4 << cap.mpsmin} KiB (CAP.MPSMIN); "
            "this client uses 4 KiB"
        )
    crto = None
    if cap.crwms:
        with contextlib.suppress(StatusError):
            crto = Crto.decode(await session.admin.property_get(Property.CRTO))
    css = _CSS_ALL if cap.css_sets else _CSS_NVM if cap.css_nvm else _CSS_ADMIN_ONLY
    if not (cap.css_sets or cap.css_nvm or cap.css_none):
        css = _CSS_NVM  # older discovery controllers report no command set
    session.cc = Cc(en=1, css=css, iosqes=6, iocqes=4)
    await session.admin.property_set(Property.CC, session.cc.encode())
    seconds = min(ready_timeout_seconds(cap, crto), MAX_READY_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            await session.until(lambda csts: bool(csts.rdy))
    except TimeoutError:
        raise ConnectionLost(
            f"the controller did not become ready (CSTS.RDY) within {seconds:g} s"
        ) from None
    session.version = Version.decode(await session.admin.property_get(Property.VS))


async def _identify(session: Session) -> None:
    data = await session.admin.identify(Cns.CONTROLLER)
    session.identify = identify = IdentifyController.decode(data)
    for bad, sentence in (
        (
            identify.cntlid != session.cntlid,
            f"Identify names controller {identify.cntlid}, Connect {session.cntlid}",
        ),
        (
            not session.is_discovery and not identify.sgls & Sgls.KEYED,
            "the controller does not support keyed SGLs (SGLS), which RDMA requires",
        ),
        (
            not session.is_discovery and identify.ioccsz < 4,
            f"the controller's command capsule has {identify.ioccsz * 16} bytes (IOCCSZ), "
            "less than a command",
        ),
        (
            not session.is_discovery and identify.iorcsz < 1,
            "the controller's response capsule is smaller than a completion (IORCSZ)",
        ),
    ):
        if bad:
            raise ConnectionLost(f"{session.place.where.subnqn}: {sentence}")
    if not session.is_discovery and session.cap.css_sets:
        with contextlib.suppress(StatusError):  # optional before NVMe 2.0
            data = await session.admin.identify(Cns.CSI_CONTROLLER, csi=Csi.NVM)
            session.nvm = IdentifyNvmController.decode(data)


async def _connect_io(session: Session) -> None:
    options, identify = session.place.options, session.identify
    done = await session.admin.run(
        commands.set_number_of_queues(options.queues), "Set Features (Number of Queues)"
    )
    granted = NumberOfQueues.decode(done.dw0)
    count = min(options.queues, granted.nsq + 1, granted.ncq + 1)
    size = min(max(options.queue_depth, MIN_QUEUE), session.cap.mqes + 1)
    if identify.maxcmd:
        size = min(size, identify.maxcmd + 1)  # one entry of a full queue stays empty
    in_capsule = 0
    if options.in_capsule and identify.sgls & Sgls.OFFSET and not identify.icdoff:
        in_capsule = min(identify.in_capsule_bytes, LARGEST)
    for qid in range(1, count + 1):
        queue = await _connect_rdma(session, qid, max(size, 2), in_capsule)
        result = await _connect_fabrics(session, queue, max(size, 2))
        await session.authenticator.connected(session.commands_on(queue), qid, result)
        session.queues.append(queue)


# ---- one queue ----


async def _connect_rdma(session: Session, qid: int, size: int, in_capsule: int) -> Queue:
    """Return the RDMA connection of a queue, made on a thread; it ends soon after cancellation."""
    place = session.place
    try:
        cancel = os.eventfd(0)
    except OSError as error:  # every descriptor that the process may have is in use
        raise EngineError(
            error.errno, f"connecting queue {qid} to {place.where.endpoint}: {error.strerror}"
        ) from None
    lock, descriptors = threading.Lock(), [cancel]

    def connect() -> HostQueue:
        try:
            return HostQueue(
                place.pool.device,
                traddr=place.where.traddr,
                trsvcid=place.where.trsvcid,
                host_traddr=place.options.host_traddr,
                qid=qid,
                size=size,
                cntlid=session.cntlid if qid else 0,
                in_capsule=in_capsule,
                timeout_ms=round(place.options.connect_timeout * 1000),
                cancel=cancel,
            )
        finally:
            with lock:  # the descriptor may be used by the connection until here
                descriptors.clear()
                os.close(cancel)

    try:
        connecting = on_thread(connect, HostQueue.close)
    except EngineError as error:
        os.close(cancel)
        raise EngineError(
            error.errno, f"connecting queue {qid} to {place.where.endpoint}: {error.strerror}"
        ) from None
    try:
        return session.add_queue(await connecting)
    except asyncio.CancelledError:
        with lock:
            for fd in descriptors:
                os.eventfd_write(fd, 1)
        if not connecting.cancelled() and connecting.exception() is None:
            start_or_run(connecting.result().close)
        raise


async def _connect_fabrics(session: Session, queue: Queue, size: int) -> ConnectResult:
    """Send the Connect command, which makes the RDMA connection a queue of the controller."""
    place = session.place
    sqe = commands.connect(
        queue.qid,
        size - 1,
        kato_ms=0 if queue.qid else place.options.kato_ms,
        disable_sq_flow_control=place.options.disable_sqflow,
    )
    data = ConnectData(
        hostid=place.identity.id.bytes,
        cntlid=session.cntlid if queue.qid else DYNAMIC_CNTLID,
        subnqn=place.where.subnqn,
        hostnqn=place.identity.nqn,
    ).encode()
    with await place.pool.admin.take(len(data)) as slot:
        slot.view[: len(data)] = data
        done = await queue.connect(
            sqe,
            Data(slot.memory, slot.offset, len(data), True, slot),
            within=place.options.admin_timeout,
        )
    if done.status:
        error = NvmeError.of("Connect", done.status, dw0=done.dw0)
        of = f"queue {queue.qid}" if queue.qid else place.where.subnqn
        host = f"as host {place.identity.nqn}"
        error.detail = f"Connect to {of} at {place.where.endpoint} {host} failed"
        raise error
    return ConnectResult.decode(done.dw0)
