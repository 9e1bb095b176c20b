# SPDX-License-Identifier: BSD-3-Clause
"""Connecting through the kernel, until the block devices exist.

All functions block. Failures are raised as KernelError, whose text is a sentence.
"""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass

from nvmf.initiator.base.errors import ConnectionLost, NvmeError
from nvmf.initiator.base.nsidlist import NsidList
from nvmf.initiator.kernel import sysfs
from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.fabrics import create
from nvmf.initiator.kernel.ioctl import Device
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.kernel.sysfs import ControllerInfo, NamespaceInfo
from nvmf.initiator.kernel.system import System
from nvmf.initiator.kernel.wait import Waiter
from nvmf.spec import commands
from nvmf.spec.identify import (
    IDENTIFY_SIZE,
    IdentifyNamespace,
    decode_descriptors,
)
from nvmf.spec.opcodes import Cns, Csi

READY_SECONDS = 60.0
"""Maximum seconds from the connection until the controller is live and its block devices exist."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A connected controller of the kernel, and its block devices."""

    controller: ControllerInfo
    namespaces: list[NamespaceInfo]
    missing: list[int]
    """NSIDs of active namespaces whose block device did not appear in time."""


def resolve(traddr: str, trsvcid: str) -> str:
    """Return the numeric address of a name; raise KernelError if it has none."""
    try:
        found = socket.getaddrinfo(traddr, int(trsvcid), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", "the name is invalid")
        raise KernelError(f"cannot resolve {traddr}: {why}; check the name") from None
    return str(found[0][4][0])


def connect(
    options: FabricsOptions,
    system: System,
    *,
    within: float = READY_SECONDS,
    abandoned: threading.Event | None = None,
) -> Connected:
    """Connect and wait: at most within seconds after the kernel has connected.

    If the caller sets abandoned meanwhile, the controller is disconnected again.
    """
    gone = abandoned or threading.Event()
    with Waiter() as waiter:
        name = create(options, system).name
        try:
            controller = _live(name, waiter, within, gone, system)
            wanted = [] if options.is_discovery else _wanted(controller)
            waiter.until(lambda: _complete(controller, wanted, system), within, give_up=gone.is_set)
            if gone.is_set():
                raise KernelError(f"connecting {name} was given up")
        except BaseException:
            left = sysfs.controller(name, system)
            if left:
                sysfs.delete(left)
            raise
    found = sysfs.namespaces(controller, system)
    there = {block.nsid for block in found}
    return Connected(controller, found, [nsid for nsid in wanted if nsid not in there])


def _live(
    name: str, waiter: Waiter, within: float, gone: threading.Event, system: System
) -> ControllerInfo:
    seen: list[str] = []

    def look() -> ControllerInfo | None:
        one = sysfs.controller(name, system)
        seen[:] = [one.state if one else "gone"]
        return one if one and one.is_live and (system.dev / name).exists() else None

    found = waiter.until(look, within, give_up=lambda: gone.is_set() or seen == ["gone"])
    if found is None:
        raise KernelError(
            f"{name} was connected, and then did not become live within {within:g} s (it is "
            f"{seen[0]}): see that the target still runs, and dmesg"
        )
    return found


def _complete(controller: ControllerInfo, wanted: list[int], system: System) -> bool | None:
    there = {block.nsid for block in sysfs.namespaces(controller, system) if block.size}
    return True if there.issuperset(wanted) else None


def _wanted(controller: ControllerInfo) -> list[int]:
    """Return the NSIDs of the active namespaces for which the kernel creates block devices."""
    with Device(controller.path) as device:
        try:
            return [nsid for nsid in active_namespaces(device) if _is_block(device, nsid)]
        except (NvmeError, ConnectionLost, KernelError) as error:
            raise KernelError(
                f"{controller.name} was connected, but does not report its namespaces: {error}"
            ) from None


def active_namespaces(device: Device) -> list[int]:
    """Return the NSIDs of the active namespaces, ascending.

    Raise ConnectionLost if the list has no end (NsidList).
    """
    listed = NsidList()
    while not listed.complete:
        sqe = commands.identify(Cns.ACTIVE_NAMESPACES, listed.after)
        data, _ = device.admin(sqe, "Identify (active namespaces)", IDENTIFY_SIZE)
        listed.add(data)
    return listed.nsids


def _is_block(device: Device, nsid: int) -> bool:
    sqe = commands.identify(Cns.NAMESPACE, nsid)
    data, _ = device.admin(sqe, "Identify (namespace)", IDENTIFY_SIZE)
    info = IdentifyNamespace.decode(data)
    if not info.nsze or info.metadata_size:  # with metadata, the kernel sets the capacity to 0
        return False
    try:
        sqe = commands.identify(Cns.NAMESPACE_DESCRIPTORS, nsid)
        data, _ = device.admin(sqe, "Identify (namespace descriptors)", IDENTIFY_SIZE)
    except NvmeError:  # optional before NVMe 1.3
        return True
    return decode_descriptors(data).csi in (None, Csi.NVM)


def connected_to(options: FabricsOptions, system: System) -> ControllerInfo | None:
    """Return the controller that is already connected with these options, or None."""
    for one in sysfs.controllers(system):
        place = one.place
        same = (
            one.transport == options.transport
            and one.subsysnqn == options.nqn
            and place.get("traddr") == options.traddr
            and place.get("trsvcid") == options.trsvcid
            and options.host_traddr in (None, place.get("host_traddr"))
            and options.hostnqn in (None, one.hostnqn)
        )
        if same and not one.is_going:
            return one
    return None
