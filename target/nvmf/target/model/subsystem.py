# SPDX-License-Identifier: BSD-3-Clause
"""A subsystem: its namespaces, the hosts that may use it, and its controllers.

A namespace may be masked: only the hosts in its mask see it.  Hosts that see the same namespaces
share a view; if no namespace is masked, all hosts do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from uuid import UUID

from nvmf.auth import HostKeys
from nvmf.spec.status import Status
from nvmf.target.command.engine import EngineGates, EngineTable, Own
from nvmf.target.command.gates import NoGates
from nvmf.target.command.later import each
from nvmf.target.lasting.health import SubsystemHealth
from nvmf.target.lasting.namespacefiles import NamespaceFiles
from nvmf.target.model.ana import Ana
from nvmf.target.model.lastingkeeper import LastingKeeper
from nvmf.target.model.memory import MemoryFence
from nvmf.target.model.namespace import Namespace
from nvmf.target.model.reservekeeper import ReservationKeeper

if TYPE_CHECKING:
    from nvmf.target.model.controller import Controller


def serial_of(nqn: str) -> str:
    """Return a serial number derived from the NQN, always the same."""
    return hashlib.sha256(nqn.encode()).hexdigest()[:16].upper()


class Fence(Protocol):
    """nvmf.engine.Target.fence; the cookie is a function to call."""

    def __call__(
        self, qpairs: list[Own], nsid: int, then: Callable[[], None], /, *, abort: int = 0
    ) -> None: ...


Stored: TypeAlias = "tuple[object, ...]"
"""Reservation and other state of a namespace, as Subsystem.read_state returns them."""
Mask: TypeAlias = "frozenset[str] | None"
"""NQNs of the hosts that see a namespace; None: all that may connect."""


Work: TypeAlias = Callable[[Namespace, Callable[[], None], Callable[[OSError | None], None]], None]
"""Run work that may block for a namespace; later call the function with its OSError or None."""


def _at_once(
    namespace: Namespace, work: Callable[[], None], then: Callable[[OSError | None], None]
) -> None:
    try:
        work()
    except OSError as error:
        then(error)
    else:
        then(None)


@dataclass(eq=False, slots=True)
class View:
    """The namespaces that a set of hosts sees."""

    table: EngineTable | None = None
    """The same namespaces for I/O queues (nvmf.engine.NamespaceTable)."""
    namespaces: dict[int, Namespace] = field(default_factory=dict)

    def put(self, nsid: int, namespace: Namespace | None) -> None:
        """Set the namespace at an NSID, or (None) remove it."""
        if self.namespaces.get(nsid) is namespace:
            return
        if self.table is not None:
            self.table.set(nsid, namespace.engine if namespace is not None else None)
        if namespace is not None:
            self.namespaces[nsid] = namespace
        else:
            self.namespaces.pop(nsid, None)


@dataclass(eq=False)
class Subsystem:
    """A subsystem of the target."""

    nqn: str
    serial: str
    model: str = "nvmeof-rdma"
    allow_any_host: bool = False
    hosts: frozenset[str] = frozenset()
    """NQNs of the hosts that may connect."""
    keys: dict[str, HostKeys] = field(default_factory=dict)
    """Keys by host NQN; hosts without keys need not authenticate."""
    max_namespaces: int = 32
    """The highest NSID."""
    mdts: int = 1 << 20
    """Maximum bytes that one command may transfer; a power of two."""
    in_capsule: int = 4096
    """Maximum bytes of in-capsule data of an I/O command."""
    max_io_queues: int = 64
    """Maximum I/O queues per controller."""
    queue_size: int = 128
    """Maximum entries of an I/O queue."""
    permanent_protection: bool = False
    """Whether hosts may write-protect namespaces permanently, or until the target ends."""
    discovery: bool = False
    """Whether this is the discovery subsystem."""
    make_gates: Callable[[], EngineGates] = NoGates
    """Creates gates for the I/O queues of a controller (nvmf.engine.Gates)."""
    fence: Fence | None = None
    """None: when_ended() does not wait for commands."""
    memory: MemoryFence | None = None
    """Ends the use of its namespaces as memory that is no longer permitted; None: there is none."""
    call_later: Callable[[float, Callable[[], None]], object] | None = None
    """asyncio's call_later, in seconds."""
    work: Work = _at_once
    """Runs work that may block (storage.Storage)."""
    make_table: Callable[[], EngineTable | None] = lambda: None
    """Creates a table for a view (nvmf.engine.NamespaceTable)."""
    state: Path | None = None
    """Folder for state that persists across restarts."""
    health: SubsystemHealth = field(default_factory=SubsystemHealth)
    """The counters of its SMART log."""
    controllers: dict[int, Controller] = field(default_factory=dict)
    """By controller identifier."""
    _all: View = field(init=False)
    """All namespaces, so that the engine also keeps those that no host sees at present."""
    _views: dict[frozenset[int], View] = field(init=False, default_factory=dict)
    """Views by the set of masked NSIDs that they include."""
    _masks: dict[int, frozenset[str]] = field(init=False, default_factory=dict)
    _seen: dict[str, set[int]] = field(init=False, default_factory=dict)
    """Masked NSIDs that each host sees."""

    reservations: ReservationKeeper = field(init=False)
    lasting: LastingKeeper = field(init=False)
    ana: Ana = field(init=False, default_factory=Ana)
    """The ANA states of the whole target."""
    _groups: dict[int, int] = field(init=False, default_factory=dict)
    """ANA groups by NSID."""

    def __post_init__(self) -> None:
        self._all = View(self.make_table())
        folder = self.state / "reservations" if self.state is not None else None
        self.reservations = ReservationKeeper(self, folder)
        folder = self.state / "namespaces" if self.state is not None else None
        self.lasting = LastingKeeper(self, folder)

    @property
    def namespaces(self) -> Mapping[int, Namespace]:
        """All namespaces; Controller.namespaces has those that its host sees."""
        return self._all.namespaces

    def allows(self, hostnqn: str) -> bool:
        """Return whether a host may connect; without an NQN, only if any may and none has a key."""
        if not hostnqn:
            return self.allow_any_host and not self.keys
        return self.allow_any_host or hostnqn in self.hosts

    def check_free(self, nsid: int) -> None:
        """Raise ValueError if the NSID is in use or out of range."""
        if not 1 <= nsid <= self.max_namespaces:
            raise ValueError(f"NSID {nsid}: {self.nqn} has 1 to {self.max_namespaces}")
        if nsid in self.namespaces:
            raise ValueError(f"NSID {nsid} is in use in {self.nqn}")

    def attach(self, namespace: Namespace, mask: Mask = None) -> None:
        """Add a namespace; raise ValueError if the NSID is in use or out of range."""
        self.check_free(namespace.nsid)
        self.change({namespace.nsid: (namespace, mask)})

    def read_state(self, uuid: UUID) -> Stored:
        """Return the stored state of a namespace; blocks, and may run on any thread."""
        return tuple(one.read(uuid) if one is not None else None for one in self._files)

    def expect_state(self, nsid: int, stored: Stored) -> None:
        """Set the result of read_state() for a namespace that is added next under this NSID."""
        for files, found in zip(self._files, stored, strict=True):
            if files is not None:
                files.expect(nsid, found)

    def forget_state(self, nsid: int) -> None:
        """Forget what expect_state() was given."""
        for files in self._files:
            if files is not None:
                files.forget(nsid)

    def puts(self, uuid: UUID) -> int:
        """Return a number that changes whenever the stored state of a namespace does."""
        return sum(files.puts(uuid) for files in self._files if files is not None)

    @property
    def _files(self) -> tuple[NamespaceFiles[Any] | None, ...]:
        return (self.reservations.files, self.lasting.files)

    def detach(self, nsid: int) -> Namespace:
        """Remove a namespace and return it; raise KeyError if there is none."""
        namespace = self.namespaces[nsid]
        self.change({nsid: (None, None)})
        return namespace

    def when_ended(
        self,
        controllers: Iterable[Controller],
        nsid: int,
        then: Callable[[], None],
        abort: Status = Status.SUCCESS,
    ) -> None:
        """Call then, later, when the I/O commands in progress on these controllers have ended.

        Call this after setting a gate, with the namespace of that gate (0: all namespaces):
        commands that begin later meet the gate.  If abort is a status, commands of which nothing
        was done yet end with it.  A host that does not transfer its data can delay this until it
        is disconnected.
        """
        qpairs = [q.handle for one in controllers for q in one.connected_io_queues()]
        if self.fence is not None:
            self.fence(qpairs, nsid, lambda: self.when_fenced(then), abort=abort)
        else:
            self.when_fenced(then)

    def when_fenced(self, then: Callable[[], None]) -> None:
        """Call then when no host can use memory that the rules now deny it; often at once."""
        if self.memory is not None:
            self.memory(self, then)
        else:
            then()

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call then when the changes of namespaces' state that were requested before have ended.

        These are changes that commands of hosts store, such as Write Uncorrectable; often at once.
        """
        lasting = self.lasting
        each(
            list(self.namespaces),
            lambda nsid, ended: lasting.settled(nsid, lambda: ended(None)),
            lambda _: then(),
        )

    def soon(self, then: Callable[[], None]) -> None:
        """Call then, later, where resulting completions and events are sent at once."""
        self.when_ended((), 0, then)

    def mask_of(self, nsid: int) -> Mask:
        """Return the hosts that see a namespace; None: all."""
        return self._masks.get(nsid)

    def change(self, changes: Mapping[int, tuple[Namespace | None, Mask]]) -> None:
        """Add, mask or remove namespaces by NSID, and notify the hosts that see a difference.

        Replacing a namespace takes two calls, so that hosts do not mistake the new one for the old.
        """
        controllers = list(self.controllers.values())
        groups = {self.group_of(nsid) for nsid in changes if nsid in self.namespaces}
        before = [{nsid for nsid in changes if nsid in c.namespaces} for c in controllers]
        for nsid, (namespace, mask) in changes.items():
            if namespace is not None:
                # Before hosts see it, so that none bypasses a reservation.
                if self.namespaces.get(nsid) is not namespace:
                    self.reservations.come(namespace)
                    self.lasting.come(namespace)
                    self._groups[nsid] = namespace.ana_group
                self._all.put(nsid, namespace)
                self.health.come(namespace.identity.uuid, namespace.engine, masked=mask is not None)
            self._set_mask(nsid, mask)
        # Switch to the new views first, so that no namespace is in no table for a moment.
        for controller in controllers:
            controller.look_at(self.view_of(controller.hostnqn))
            for nsid, (namespace, _) in changes.items():
                if namespace is not None:
                    self.ana.enforce(controller, nsid)
        for nsid, (namespace, mask) in changes.items():
            for seen, view in self._views.items():
                view.put(nsid, namespace if mask is None or nsid in seen else None)
            if namespace is None:
                self._all.put(nsid, None)
                self.reservations.go(nsid)
                self.lasting.go(nsid)
                self._groups.pop(nsid, None)
        groups.update(self.group_of(nsid) for nsid in changes if nsid in self.namespaces)
        self._regrouped(groups)
        for controller, saw in zip(controllers, before, strict=True):
            sees = {nsid for nsid in changes if nsid in controller.namespaces}
            if saw != sees:
                controller.namespaces_changed(saw ^ sees)
        self.drop_views()
        self.when_fenced(lambda: None)

    def group_of(self, nsid: int) -> int:
        """Return the ANA group of a namespace."""
        return self._groups.get(nsid, 1)

    def regroup(self, groups: Mapping[int, int]) -> None:
        """Move namespaces to other ANA groups, and notify the hosts that see them."""
        moved = {nsid: group for nsid, group in groups.items() if group != self.group_of(nsid)}
        if not moved:
            return
        changed = {self.group_of(nsid) for nsid in moved} | set(moved.values())
        self._groups.update(moved)
        self._regrouped(changed)
        for controller in self.controllers.values():
            for nsid in moved:
                self.ana.enforce(controller, nsid)
            controller.ana_changed()
        self.changed(moved)

    def _regrouped(self, groups: Iterable[int]) -> None:
        """Count a change of ANA groups on the ports of connected hosts."""
        for portid in {controller.portid for controller in self.controllers.values()}:
            self.ana.regrouped(portid, groups)

    def _set_mask(self, nsid: int, mask: Mask) -> None:
        for host in self._masks.pop(nsid, ()):
            self._seen[host].discard(nsid)
            if not self._seen[host]:
                del self._seen[host]
        if mask is not None:
            self._masks[nsid] = mask
            for host in mask:
                self._seen.setdefault(host, set()).add(nsid)

    def view_of(self, hostnqn: str) -> View:
        """Return the view of a host."""
        seen = frozenset(self._seen.get(hostnqn, ()))
        view = self._views.get(seen)
        if view is None:
            view = self._views[seen] = View(self.make_table())
            for nsid, namespace in self.namespaces.items():
                if nsid not in self._masks or nsid in seen:
                    view.put(nsid, namespace)
        return view

    def drop_views(self) -> None:
        """Drop the views that no controller and no queue pair uses any longer."""
        if len(self._views) < 2:
            return
        used = {id(controller.view) for controller in self.controllers.values()}
        for seen, view in list(self._views.items()):
            if seen and id(view) not in used and (view.table is None or not view.table.users):
                del self._views[seen]
                if view.table is not None:
                    view.table.close()

    @property
    def in_use(self) -> bool:
        """Whether queue pairs use tables of its namespaces."""
        return any(v.table.users for v in self._views.values() if v.table is not None)

    def close_tables(self) -> None:
        """Close all tables, at the end, when no queue pair is left."""
        for view in (self._all, *self._views.values()):
            if view.table is not None:
                view.table.close()
        self._views.clear()

    def changed(self, nsids: Iterable[int]) -> None:
        """Notify the hosts of changed attributes of these namespaces."""
        for controller in self.controllers.values():
            seen = [nsid for nsid in nsids if nsid in controller.namespaces]
            if seen:
                controller.namespaces_changed(seen)
