# SPDX-License-Identifier: BSD-3-Clause
"""A subsystem: its namespaces, the hosts that may use it, and its controllers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.target.gates import EngineGates, NoGates
from nvmf.target.namespace import Namespace

if TYPE_CHECKING:
    from nvmf.target.controller import Controller


def serial_of(nqn: str) -> str:
    """A serial number that stays the same for the same NQN."""
    return hashlib.sha256(nqn.encode()).hexdigest()[:16].upper()


@dataclass(eq=False)
class Subsystem:
    """A subsystem of the target."""

    nqn: str
    serial: str
    model: str = "nvmeof-rdma"
    allow_any_host: bool = False
    hosts: frozenset[str] = frozenset()
    """NQNs of the hosts that may connect."""
    max_namespaces: int = 32
    """The highest NSID."""
    mdts: int = 1 << 20
    """Bytes one command may transfer; a power of two."""
    in_capsule: int = 4096
    """Bytes of in-capsule data an I/O command may carry."""
    max_io_queues: int = 64
    """I/O queues a controller."""
    queue_size: int = 128
    """Entries of an I/O queue at most."""
    table: Any = None
    """What the I/O queues see of its namespaces (nvmf.engine.NamespaceTable)."""
    make_gates: Callable[[], EngineGates] = NoGates
    """Gates for the I/O queues of a controller (nvmf.engine.Gates)."""
    fence: Callable[[list[Any], int, Callable[[], None]], None] | None = None
    """nvmf.engine.Target.fence, whose cookie is called."""
    namespaces: dict[int, Namespace] = field(default_factory=dict)
    controllers: dict[int, Controller] = field(default_factory=dict)
    """By controller identifier."""

    @property
    def discovery(self) -> bool:
        """Whether it is the discovery subsystem."""
        return self.nqn == DISCOVERY_NQN

    def allows(self, hostnqn: str) -> bool:
        """Whether a host may connect."""
        return self.allow_any_host or hostnqn in self.hosts

    def check_free(self, nsid: int) -> None:
        """ValueError where the NSID is taken or too high."""
        if not 1 <= nsid <= self.max_namespaces:
            raise ValueError(f"NSID {nsid}: {self.nqn} has 1 to {self.max_namespaces}")
        if nsid in self.namespaces:
            raise ValueError(f"NSID {nsid} is taken in {self.nqn}")

    def attach(self, namespace: Namespace) -> None:
        """Show a namespace to the hosts; ValueError where the NSID is taken or too high."""
        nsid = namespace.nsid
        self.check_free(nsid)
        if self.table is not None:
            self.table.set(nsid, namespace.engine)
        self.namespaces[nsid] = namespace
        self.changed([nsid])

    def detach(self, nsid: int) -> Namespace:
        """Take a namespace away from the hosts; KeyError where there is none."""
        namespace = self.namespaces.pop(nsid)
        if self.table is not None:
            self.table.set(nsid, None)
        self.changed([nsid])
        return namespace

    def when_ended(
        self, controllers: Iterable[Controller], nsid: int, then: Callable[[], None]
    ) -> None:
        """Call then, later, once the I/O commands have ended that these controllers have begun.

        To be asked after a gate was set, about the namespace of that gate (0: about all): commands
        that begin later meet the gate.  A host that does not move its data can hold this up until
        it is disconnected.
        """
        qpairs = [q.handle for one in controllers for q in one.io_queues.values()]
        if self.fence is not None:
            self.fence(qpairs, nsid, then)
        else:
            then()

    def changed(self, nsids: Iterable[int]) -> None:
        """Tell the hosts that something about these namespaces is different."""
        for controller in self.controllers.values():
            controller.namespaces_changed(nsids)
