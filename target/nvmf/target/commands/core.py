# SPDX-License-Identifier: BSD-3-Clause
"""The target without its transport: commands in, completions out.

``Core.handle`` is the only error boundary: an exception of a handler becomes the status returned to
the host, and never affects other commands or connections.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from nvmf.spec.fabrics import MAX_CNTLID
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.opcodes import AdminOpcode, FabricsType, command_title
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.outbox import Outbox
from nvmf.target.command.request import Completion, Request, check_flags
from nvmf.target.commands import (
    admin,
    authentication,
    discovery,
    fabrics,
    reservecommands,
    uncorrectable,
)
from nvmf.target.commands.cm import CmLimits
from nvmf.target.commands.discovery import Port, Referral, View
from nvmf.target.commands.discoverylog import discovery_handlers
from nvmf.target.lasting.generation import Generation
from nvmf.target.model.ana import Ana
from nvmf.target.model.controller import Controller
from nvmf.target.model.queue import Queue
from nvmf.target.model.subsystem import Subsystem, serial_of
from nvmf.target.model.tally import Tally

log = logging.getLogger("nvmf.target")

IO_HANDLERS = reservecommands.IO_HANDLERS | uncorrectable.IO_HANDLERS
"""Commands of I/O queues that the engine does not execute, or does not complete."""
_LOGGED_ERRORS = 16
"""Failed commands per queue that are logged; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest limits of all subsystems; counts and bytes."""

    queue_size: int = 0
    max_io_queues: int = 0
    mdts: int = 1 << 20
    in_capsule: int = 0


class Core:
    """Subsystems, controllers and discovery of one target."""

    def __init__(self, discovery_nqn: str = DISCOVERY_NQN) -> None:
        self.discovery = discovery.discovery_subsystem(serial_of("discovery"), discovery_nqn)
        self.subsystems: dict[str, Subsystem] = {self.discovery.nqn: self.discovery}
        self.ports: list[Port] = []
        self.ana = Ana()
        self.referrals: list[Referral] = []
        self.generation = Generation()
        """Generation of the discovery log."""
        self._last_cntlid = 0
        self._controllers: dict[int, Controller] = {}
        """By controller identifier, which is unique in the whole target."""
        self._leaving: list[Subsystem] = []
        """Removed subsystems whose last connections have not ended yet."""
        self.limits = Limits()
        self._discovery_handlers = discovery_handlers(
            self._discovery_view, lambda: self.generation.value
        )
        self._logged: dict[Queue, int] = {}
        self.tally = Tally()
        self.outbox: Outbox[Controller] = Outbox()

    # ---- subsystems, ports and controllers ----

    def add_subsystem(self, subsystem: Subsystem) -> None:
        """Add a subsystem; raise ValueError if its NQN is in use."""
        if subsystem.nqn in self.subsystems:
            raise ValueError(f"subsystem {subsystem.nqn} already exists")
        self.subsystems[subsystem.nqn] = subsystem
        subsystem.ana = self.ana
        self._find_limits()
        self.discovery_changed(subsystem)

    def remove_subsystem(self, nqn: str) -> None:
        """Remove a subsystem, whose namespaces were detached before, and disconnect its hosts."""
        subsystem = self.subsystems.pop(nqn)
        self._leaving.append(subsystem)
        for controller in list(subsystem.controllers.values()):
            controller.fail()
        self._find_limits()
        self.discovery_changed(subsystem)
        self.tidy(subsystem)

    def tidy(self, subsystem: Subsystem) -> None:
        """Release unused resources of a subsystem, after one of its queue pairs was closed."""
        subsystem.drop_views()
        if subsystem in self._leaving and not subsystem.controllers and not subsystem.in_use:
            self._leaving.remove(subsystem)
            subsystem.close_tables()

    def add_port(self, port: Port) -> None:
        """Add a port and report it to hosts."""
        self.ports.append(port)
        self.discovery_changed()

    def remove_port(self, port: Port) -> None:
        """Remove a port and report that to hosts."""
        self.ports.remove(port)
        self.discovery_changed()

    def set_referrals(self, referrals: Iterable[Referral]) -> None:
        """Set the referrals to other discovery services."""
        self.referrals = list(referrals)
        self.discovery_changed()

    def discovery_changed(self, subsystem: Subsystem | None = None) -> None:
        """Advance the generation of the discovery log and notify hosts.

        subsystem: notify only the hosts that may use it, if only its entries have changed.
        """
        self.generation.advance()
        for controller in self.discovery.controllers.values():
            if subsystem is None or subsystem.allows(controller.hostnqn):
                controller.discovery_changed()

    def find_subsystem(self, nqn: str) -> Subsystem | None:
        """Return the subsystem with this NQN; the discovery subsystem has two."""
        return self.discovery if nqn == DISCOVERY_NQN else self.subsystems.get(nqn)

    def controllers(self) -> list[Controller]:
        """Return all controllers."""
        return list(self._controllers.values())

    def find_controller(self, cntlid: int) -> Controller | None:
        """Return the controller with this identifier, in any subsystem."""
        return self._controllers.get(cntlid)

    def add_controller(self, controller: Controller) -> None:
        """Add the controller of a newly connected host."""
        self._controllers[controller.cntlid] = controller
        controller.on_completion = partial(self.outbox.add, controller)
        self.tally.controller_made(controller)
        controller.subsystem.controllers[controller.cntlid] = controller
        controller.subsystem.reservations.joined(controller)
        controller.portid = self._portid(controller.admin)
        if any(state.status for state in self.ana.states(controller.portid).values()):
            for nsid in controller.namespaces:
                self.ana.enforce(controller, nsid)

    def _portid(self, queue: Queue) -> int:
        """Return the identifier of the port of a connection; 0 if the port is already closed."""
        return next((port.portid for port in self.ports if port.takes(queue.local)), 0)

    def allocate_cntlid(self) -> int:
        """Return the least recently used free controller identifier; raise Controller Busy if none.

        Identifiers are unique in the whole target: hosts reject a second controller with the same
        identifier in a subsystem, and may still remember one that has just ended.
        """
        for step in range(MAX_CNTLID):
            cntlid = (self._last_cntlid + step) % MAX_CNTLID + 1
            if cntlid not in self._controllers:
                self._last_cntlid = cntlid
                return cntlid
        raise StatusError(Status.CONTROLLER_BUSY, "every controller identifier is in use")

    def cm_limits(self, free_queues: int) -> CmLimits:
        """Return the limits for a connection whose subsystem is not known yet."""
        return CmLimits(
            queue_size=self.limits.queue_size,
            io_queues=self.limits.max_io_queues,
            free_queues=free_queues,
        )

    def transfer_limits(self, cntlid: int | None) -> tuple[int, int]:
        """Return MDTS and in-capsule bytes of a controller's subsystem, or the largest of all."""
        controller = self._controllers.get(cntlid or 0)  # 0 is never assigned
        limits = controller.subsystem if controller is not None else self.limits
        return limits.mdts, limits.in_capsule

    def _find_limits(self) -> None:
        every = [s for s in self.subsystems.values() if not s.discovery]
        self.limits = Limits(
            queue_size=max((s.queue_size for s in every), default=0),
            max_io_queues=max((s.max_io_queues for s in every), default=0),
            mdts=max((s.mdts for s in every), default=1 << 20),
            in_capsule=max((s.in_capsule for s in every), default=0),
        )

    def _discovery_view(self, controller: Controller) -> View:
        return discovery.View(
            tuple(self.ports),
            tuple(self.referrals),
            tuple(
                subsystem.nqn
                for subsystem in self.subsystems.values()
                if not subsystem.discovery and subsystem.allows(controller.hostnqn)
            ),
            self.discovery.nqn,
        )

    # ---- commands ----

    def handle(
        self, queue: Queue, sqe: bytes, data: bytes, now: float, token: object = None
    ) -> Completion | None:
        """Execute a command; return None if it stays outstanding, identified by token."""
        command = Sqe.decode(sqe)
        request = Request(command, now, data, token)
        authenticated, failed = queue.authentications, queue.auth_failed
        location: int | None = None
        try:
            completion = self._dispatch(queue, request)
        except StatusError as error:
            completion, location = Completion(error.dw0, status=error.code), error.location
            self._failed(queue, command, error)
        except Exception:
            log.exception("%s: command %02xh failed inside the target", queue, command.opcode)
            completion = Completion(status=Status.INTERNAL_ERROR)
        self.tally.events.authenticated += queue.authentications - authenticated
        self.tally.events.authentication_failures += queue.auth_failed and not failed
        if completion is not None and completion.status and queue.controller is not None:
            queue.controller.record_error(queue, command, completion.status, location)
        return completion

    def _dispatch(self, queue: Queue, request: Request) -> Completion | None:
        controller, opcode = queue.controller, request.sqe.opcode
        if controller is not None:
            controller.last_seen = request.now
        check_flags(request.sqe)
        authentication.check(queue, request.sqe)
        if controller is not None and queue in controller.deleted:
            raise StatusError(Status.COMMAND_SEQUENCE_ERROR, "the host has deleted the queue")
        if opcode == AdminOpcode.FABRICS:
            return fabrics.handle(self, queue, request)
        if controller is None:
            raise StatusError(Status.COMMAND_SEQUENCE_ERROR, "Connect is required first")
        if queue.qid == 0:
            discovering = controller.subsystem.discovery
            handlers = self._discovery_handlers if discovering else admin.ADMIN_HANDLERS
            return admin.dispatch(handlers, controller, request)
        controller.require_ready()
        handler = IO_HANDLERS.get(opcode)
        if handler is None:
            raise StatusError(
                Status.INVALID_OPCODE, f"I/O command {opcode:02x}h is not supported", io=True
            )
        return handler(controller, request)

    def _failed(self, queue: Queue, command: Sqe, error: StatusError) -> None:
        if queue.controller is None:
            self.tally.connect_refused(error.code)
        count = self._logged[queue] = self._logged.get(queue, 0) + 1
        if count > _LOGGED_ERRORS:
            return
        refused = queue.controller is None
        level = logging.WARNING if refused else logging.INFO
        last = " (further ones are only counted)" if count == _LOGGED_ERRORS else ""
        what, status = command_name(queue, command), {"status": error.name}
        log.log(level, "%s: %s refused: %s%s", queue, what, error.answer, last, extra=status)

    def closed(self, queue: Queue) -> list[tuple[Request, Completion]]:
        """Handle the end of a connection; return the commands that end with it.

        The end of an admin queue ends its controller and the controller's other queues.
        """
        self._logged.pop(queue, None)
        controller = queue.controller
        if controller is None:
            return []
        if queue is not controller.admin:
            if queue in controller.connected_io_queues():
                controller.delete(queue)
                controller.deleted.remove(queue)
                controller.gates.remove(queue.handle)
                controller.errors.forget(queue)
            return []
        controller.subsystem.controllers.pop(controller.cntlid, None)
        self.tally.controller_gone(controller)
        if self._controllers.get(controller.cntlid) is controller:
            del self._controllers[controller.cntlid]
        for other in controller.connected_io_queues():
            other.handle.enable(False)
            other.handle.disconnect()
        controller.gates.close()
        controller.events.clear()
        return controller.events.take()


def command_name(queue: Queue, command: Sqe) -> str:
    """Return the name of a command, for messages."""
    if command.opcode != AdminOpcode.FABRICS:
        return command_title(command.opcode, io=queue.qid > 0)
    try:
        return FabricsType(command.fctype).name.replace("_", " ").title()
    except ValueError:
        return f"type {command.fctype:02x}h"
