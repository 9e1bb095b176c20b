# SPDX-License-Identifier: BSD-3-Clause
"""Access to a namespace as memory, by RDMA: the same rules as for commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from nvmf.errors import Error
from nvmf.spec.memory import Access, Status

if TYPE_CHECKING:
    from nvmf.target.model.namespace import Namespace
    from nvmf.target.model.subsystem import Subsystem


class MemoryRefused(Error):
    """A host may not open a namespace as memory, or no longer use it."""

    status: Status

    def __init__(self, status: Status, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class MemoryFence(Protocol):
    """Ends the use of memory that is no longer permitted."""

    def __call__(self, subsystem: Subsystem, then: Callable[[], None], /) -> None:
        """Call then once every host that has lost its permission cannot reach the memory.

        At once if there is no such host.
        """


def may_use(
    subsystem: Subsystem,
    nsid: int,
    hostnqn: str,
    hostid: bytes,
    access: Access,
    *,
    authenticated: bool,
) -> Namespace:
    """Return the namespace that a host may open as memory; raise MemoryRefused."""
    check_host(subsystem, hostnqn, authenticated=authenticated)
    namespace = _visible(subsystem, nsid, hostnqn)
    allowed = namespace.memory.get(hostnqn)
    if allowed is None:
        raise MemoryRefused(
            Status.NOT_ALLOWED, f"namespace {nsid} is not exported as memory to {hostnqn}"
        )
    if namespace.store.kind not in ("ram", "pmem"):
        raise MemoryRefused(
            Status.NOT_MEMORY, f"namespace {nsid} is a {namespace.store.kind} store, not memory"
        )
    writes = access is Access.READ_WRITE
    if writes and (allowed is Access.READ or namespace.store.read_only):
        raise MemoryRefused(Status.READ_ONLY, f"{hostnqn} may only read namespace {nsid}")
    _check_gates(subsystem, nsid, hostid, writes)
    return namespace


def check_host(subsystem: Subsystem, hostnqn: str, *, authenticated: bool) -> None:
    """Raise MemoryRefused if a host may not connect, or should have proven who it is."""
    if not subsystem.allows(hostnqn):
        raise MemoryRefused(Status.NOT_ALLOWED, f"{hostnqn} may not connect to {subsystem.nqn}")
    if hostnqn in subsystem.keys and not authenticated:
        raise MemoryRefused(
            Status.AUTHENTICATION,
            f"{hostnqn} must authenticate: it needs the key that the target has for it",
        )


def _visible(subsystem: Subsystem, nsid: int, hostnqn: str) -> Namespace:
    namespace = subsystem.namespaces.get(nsid)
    mask = subsystem.mask_of(nsid)
    if namespace is None or (mask is not None and hostnqn not in mask):
        raise MemoryRefused(Status.NO_SUCH_RANGE, f"{subsystem.nqn} has no namespace {nsid}")
    return namespace


def _check_gates(subsystem: Subsystem, nsid: int, hostid: bytes, writes: bool) -> None:
    reservation = subsystem.reservations.gate(nsid, hostid)
    if reservation.read or (writes and reservation.write):
        raise MemoryRefused(Status.CONFLICT, f"a reservation of namespace {nsid} excludes the host")
    protection = subsystem.lasting.gate(nsid)
    if protection.read or (writes and protection.write):
        raise MemoryRefused(Status.READ_ONLY, f"namespace {nsid} is write protected")
