# SPDX-License-Identifier: BSD-3-Clause
"""Identify (Base 2.0, 5.17): one handler for each CNS, in one table."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from nvmf.spec.ana import ALL_STATES, MAX_GROUP, TRANSITION_SECONDS, AnaState
from nvmf.spec.fabrics import MAX_CNTLID
from nvmf.spec.features import AsyncEvents
from nvmf.spec.identify import (
    IDENTIFY_SIZE,
    Cmic,
    Ctratt,
    IdentifyController,
    IdentifyNvmController,
    Oncs,
    Sgls,
    encode_command_sets,
    encode_controller_list,
    encode_descriptors,
    encode_namespace_list,
)
from nvmf.spec.opcodes import Cns, Csi
from nvmf.spec.properties import NVME_2_0
from nvmf.spec.sqe import At, IdentifyDw10, IdentifyDw11
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.events import AER_LIMIT
from nvmf.target.command.request import Completion, Request, expect_length
from nvmf.target.model.controller import (
    ABORT_LIMIT,
    KEEP_ALIVE_GRANULARITY_MS,
    Controller,
)
from nvmf.target.model.errorlog import ERROR_LOG_ENTRIES
from nvmf.target.model.namespace import ATOMIC_BLOCKS, Namespace

ALL_NAMESPACES = 0xFFFFFFFF
_ZEROES = bytes(IDENTIFY_SIZE)
_MAX_DESCRIPTORS = 16
"""Maximum data blocks of one command in the engine."""

_OPTIONAL_EVENTS = AsyncEvents.NAMESPACE_ATTRIBUTE | AsyncEvents.ANA_CHANGE
"""OAES of I/O controllers."""
IO_EVENTS = AsyncEvents(0x1F) | _OPTIONAL_EVENTS
"""Events that a host may enable on an I/O controller: critical warnings, and those of OAES."""
DISCOVERY_EVENTS = AsyncEvents.DISCOVERY_CHANGE
"""Events that a host may enable on a discovery controller."""


def _firmware() -> str:
    try:
        return importlib.metadata.version("nvmeof-rdma")[:8]
    except importlib.metadata.PackageNotFoundError:
        return "0"


FIRMWARE = _firmware()
"""Firmware Revision: the version of this package."""


def controller_data(controller: Controller) -> IdentifyController:
    """Return Identify Controller data for a controller."""
    subsystem = controller.subsystem
    common = IdentifyController(
        sn=subsystem.serial,
        mn=subsystem.model,
        fr=FIRMWARE,
        cntlid=controller.cntlid,
        ver=NVME_2_0,
        ctratt=Ctratt.HOST_ID_128 | Ctratt.TBKAS,
        aerl=AER_LIMIT - 1,
        lpa=1 << 2,
        elpe=ERROR_LOG_ENTRIES - 1,
        kas=KEEP_ALIVE_GRANULARITY_MS // 100,
        maxcmd=subsystem.queue_size,
        sgls=Sgls.SUPPORTED | Sgls.KEYED,
        subnqn=subsystem.nqn,
        oaes=DISCOVERY_EVENTS,
        cntrltype=2,
    )
    if subsystem.discovery:
        return common
    return _io_controller(controller, common)


def _io_controller(controller: Controller, common: IdentifyController) -> IdentifyController:
    subsystem = controller.subsystem
    stores = [namespace.store for namespace in controller.namespaces.values()]
    volatile = any(store.volatile_write_cache for store in stores)
    offset = subsystem.in_capsule > 0
    descriptors = min(_MAX_DESCRIPTORS, max(subsystem.in_capsule // 16, 1))
    return replace(
        common,
        cntrltype=1,
        rab=6,
        cmic=Cmic.MULTI_PORT | Cmic.MULTI_CONTROLLER | Cmic.ANA,
        anatt=TRANSITION_SECONDS,
        anacap=ALL_STATES,
        anagrpmax=MAX_GROUP,
        nanagrpid=MAX_GROUP,
        mdts=(subsystem.mdts >> 12).bit_length() - 1,
        oaes=_OPTIONAL_EVENTS,
        acl=ABORT_LIMIT,
        # One firmware slot, which is read-only.
        frmw=1 << 0 | 1 << 1,
        # SMART for each namespace, effects log, long pages with offsets, supported pages.
        lpa=1 << 0 | 1 << 1 | 1 << 2 | 1 << 5,
        sqes=0x66,
        cqes=0x44,
        nn=subsystem.max_namespaces,
        mnan=subsystem.max_namespaces,
        oncs=Oncs.COMPARE
        | Oncs.WRITE_UNCORRECTABLE
        | Oncs.DATASET_MANAGEMENT
        | Oncs.WRITE_ZEROES
        | Oncs.RESERVATIONS
        | Oncs.TIMESTAMP
        | Oncs.VERIFY
        | Oncs.COPY,
        nwpc=subsystem.lasting.nwpc,
        awun=ATOMIC_BLOCKS,
        awupf=ATOMIC_BLOCKS,
        # Compare and Write, up to the same size: see c/target/fused.c.
        fuses=1 << 0,
        acwu=ATOMIC_BLOCKS,
        ocfs=1 << 0,
        # Bits 2:1 = 3: Flush of all namespaces at once is supported.
        vwc=3 << 1 | int(volatile),
        sgls=common.sgls | (Sgls.OFFSET if offset else 0),
        ioccsz=(64 + subsystem.in_capsule) // 16,
        iorcsz=1,
        msdbd=descriptors,
        # Disconnect of one I/O queue is supported.
        ofcs=1,
        tnvmcap=sum(store.size for store in stores),
    )


def _nsid(controller: Controller, nsid: int) -> int:
    """Return the NSID; raise Invalid Namespace or Format if it is out of range."""
    if not 1 <= nsid <= controller.subsystem.max_namespaces:
        raise StatusError(Status.INVALID_NAMESPACE_OR_FORMAT, f"NSID {nsid:#x}")
    return nsid


def find_namespace(controller: Controller, nsid: int) -> Namespace:
    """Return the namespace; raise Invalid Namespace or Format if it does not exist."""
    try:
        return controller.namespaces[nsid]
    except KeyError:
        raise StatusError(
            Status.INVALID_NAMESPACE_OR_FORMAT, f"there is no namespace {nsid:#x}"
        ) from None


def find_accessible(controller: Controller, nsid: int) -> Namespace:
    """Return the namespace; raise its ANA state's status if this port gives no access to it.

    A different port may give access, so that the host may retry there.
    """
    namespace = find_namespace(controller, nsid)
    state = _ana_state(controller, nsid)
    if state.status is not None:
        said = f"namespace {nsid} is {state.word} on this port"
        raise StatusError(state.status, said, dnr=False, io=True)
    return namespace


def chosen_namespaces(controller: Controller, nsid: int) -> list[int]:
    """Return the NSIDs that a feature is set for: this one, or all; each must be accessible."""
    chosen = list(controller.namespaces) if nsid == ALL_NAMESPACES else [nsid]
    return [find_accessible(controller, one).nsid for one in chosen]


def _ana_state(controller: Controller, nsid: int) -> AnaState:
    return controller.subsystem.ana.state(controller.portid, controller.group_of(nsid))


_Structure: TypeAlias = Callable[[Controller, Request], bytes]


def _controller(controller: Controller, request: Request) -> bytes:
    return controller_data(controller).encode()


def _namespace(controller: Controller, request: Request) -> bytes:
    nsid = _nsid(controller, request.sqe.nsid)
    namespace = controller.namespaces.get(nsid)
    if namespace is None:
        return _ZEROES
    subsystem = controller.subsystem
    return namespace.identify(
        subsystem.reservations.rescap,
        subsystem.group_of(nsid),
        protected=subsystem.lasting.protected(nsid),
        lost=_ana_state(controller, nsid) in (AnaState.INACCESSIBLE, AnaState.PERSISTENT_LOSS),
    )


def _active_namespaces(controller: Controller, request: Request) -> bytes:
    if request.sqe.nsid >= ALL_NAMESPACES - 1:
        raise StatusError(Status.INVALID_NAMESPACE_OR_FORMAT, f"NSID {request.sqe.nsid:#x}")
    return encode_namespace_list(controller.namespaces, request.sqe.nsid)


def _descriptors(controller: Controller, request: Request) -> bytes:
    return encode_descriptors(find_namespace(controller, request.sqe.nsid).ids())


def _csi_namespace(controller: Controller, request: Request) -> bytes:
    namespace = controller.namespaces.get(_nsid(controller, request.sqe.nsid))
    return namespace.identify_nvm() if namespace else _ZEROES


def _csi_controller(controller: Controller, request: Request) -> bytes:
    return IdentifyNvmController().encode()


def _independent_namespace(controller: Controller, request: Request) -> bytes:
    namespace = controller.namespaces.get(_nsid(controller, request.sqe.nsid))
    if namespace is None:
        return _ZEROES
    subsystem = controller.subsystem
    return namespace.identify_independent(
        subsystem.reservations.rescap,
        subsystem.group_of(namespace.nsid),
        protected=subsystem.lasting.protected(namespace.nsid),
    )


def _namespace_controllers(controller: Controller, request: Request) -> bytes:
    nsid = request.sqe.nsid
    find_namespace(controller, nsid)
    least = IdentifyDw10.decode(request.sqe.cdw10).cntid
    every = controller.subsystem.controllers.values()
    return encode_controller_list((c.cntlid for c in every if nsid in c.namespaces), least)


def _controllers(controller: Controller, request: Request) -> bytes:
    least = IdentifyDw10.decode(request.sqe.cdw10).cntid
    return encode_controller_list(controller.subsystem.controllers, least)


def _io_command_sets(controller: Controller, request: Request) -> bytes:
    cntid = IdentifyDw10.decode(request.sqe.cdw10).cntid
    if cntid not in (0xFFFF, controller.cntlid) and not 0 <= cntid <= MAX_CNTLID:
        raise StatusError(Status.INVALID_FIELD, f"CNTID {cntid:#x}", location=At.CNTID)
    return encode_command_sets([1 << Csi.NVM])


STRUCTURES: dict[Cns, _Structure] = {
    Cns.NAMESPACE: _namespace,
    Cns.CONTROLLER: _controller,
    Cns.ACTIVE_NAMESPACES: _active_namespaces,
    Cns.NAMESPACE_DESCRIPTORS: _descriptors,
    Cns.CSI_NAMESPACE: _csi_namespace,
    Cns.CSI_CONTROLLER: _csi_controller,
    Cns.CSI_ACTIVE_NAMESPACES: _active_namespaces,
    Cns.INDEPENDENT_NAMESPACE: _independent_namespace,
    Cns.ALLOCATED_NAMESPACES: _active_namespaces,
    Cns.ALLOCATED_NAMESPACE: _namespace,
    Cns.NAMESPACE_CONTROLLERS: _namespace_controllers,
    Cns.CONTROLLERS: _controllers,
    Cns.CSI_ALLOCATED_NAMESPACES: _active_namespaces,
    Cns.CSI_ALLOCATED_NAMESPACE: _csi_namespace,
    Cns.IO_COMMAND_SETS: _io_command_sets,
}
"""The structures of I/O controllers."""
DISCOVERY_STRUCTURES: dict[Cns, _Structure] = {Cns.CONTROLLER: _controller}
"""The structures of discovery controllers."""
_WITH_CSI = {
    Cns.CSI_NAMESPACE,
    Cns.CSI_CONTROLLER,
    Cns.CSI_ACTIVE_NAMESPACES,
    Cns.CSI_ALLOCATED_NAMESPACES,
    Cns.CSI_ALLOCATED_NAMESPACE,
}


def identify(controller: Controller, request: Request) -> Completion:
    """Identify: returns 4096 bytes."""
    expect_length(request, IDENTIFY_SIZE)
    cns = IdentifyDw10.decode(request.sqe.cdw10).cns
    structures = DISCOVERY_STRUCTURES if controller.subsystem.discovery else STRUCTURES
    if cns not in structures:
        raise StatusError(
            Status.INVALID_FIELD, f"Identify of CNS {cns:02x}h is not supported", location=At.DW10
        )
    kind = Cns(cns)
    csi = IdentifyDw11.decode(request.sqe.cdw11).csi
    if kind in _WITH_CSI and csi != Csi.NVM:
        raise StatusError(
            Status.INVALID_FIELD, f"command set {csi} is not supported", location=At.IDENTIFY_CSI
        )
    return Completion(data=structures[kind](controller, request))
