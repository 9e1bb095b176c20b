# SPDX-License-Identifier: BSD-3-Clause
"""Asymmetric Namespace Access: what each port does for each group of namespaces.

A group that nothing was said of is optimized on every port.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from nvmf.spec.ana import AnaGroup, AnaState, encode_ana_log
from nvmf.target.command.gates import OPEN, Gate, GateReason

if TYPE_CHECKING:
    from nvmf.target.model.controller import Controller

log = logging.getLogger("nvmf.target")


class Ana:
    """The states of the groups on the ports of a target."""

    def __init__(self) -> None:
        self._states: dict[int, dict[int, AnaState]] = {}
        """By port identifier, then by group."""
        self._changes: dict[tuple[int, int], int] = {}
        """How often a group has changed on a port."""
        self._all_changes: dict[int, int] = {}

    def state(self, portid: int, group: int) -> AnaState:
        """What a port does for a group."""
        return self._states.get(portid, {}).get(group, AnaState.OPTIMIZED)

    def states(self, portid: int) -> dict[int, AnaState]:
        """What was said of a port."""
        return dict(self._states.get(portid, {}))

    def put(
        self,
        portid: int,
        states: Mapping[int, AnaState],
        controllers: Iterable[Controller] = (),
    ) -> None:
        """Say all there is to say of a port, and tell the hosts of these controllers.

        Controllers of other ports, and those that see no namespace of a group that changes, are
        left alone.
        """
        before = self._states.get(portid, {})
        groups = {
            group
            for group in {*before, *states}
            if before.get(group, AnaState.OPTIMIZED) != states.get(group, AnaState.OPTIMIZED)
        }
        self._states[portid] = dict(states)
        if not groups:
            return
        self._all_changes[portid] = self._all_changes.get(portid, 0) + 1
        for group in groups:
            self._changes[portid, group] = self._changes.get((portid, group), 0) + 1
            log.info("port %d: ANA group %d is %s", portid, group, self.state(portid, group).word)
        for controller in controllers:
            if controller.portid == portid:
                self._tell(controller, groups)

    def forget(self, portid: int) -> None:
        """The port is closed."""
        self._states.pop(portid, None)

    def _tell(self, controller: Controller, groups: set[int]) -> None:
        concerned = [n for n in controller.namespaces if controller.group_of(n) in groups]
        for nsid in concerned:
            self.enforce(controller, nsid)
        if concerned:
            controller.ana_changed()

    def regrouped(self, portid: int, groups: Iterable[int]) -> None:
        """Namespaces went into a group, or out of it."""
        self._all_changes[portid] = self._all_changes.get(portid, 0) + 1
        for group in groups:
            self._changes[portid, group] = self._changes.get((portid, group), 0) + 1

    def enforce(self, controller: Controller, nsid: int) -> None:
        """Let I/O commands on a namespace run, or end with the status of its group's state."""
        status = self.state(controller.portid, controller.group_of(nsid)).status
        gate = Gate(status, status, status) if status is not None else OPEN
        controller.gates.set(nsid, GateReason.ANA, gate)

    def log_page(self, controller: Controller, *, only_groups: bool) -> bytes:
        """Asymmetric Namespace Access, of the namespaces that a controller's host sees."""
        groups: dict[int, list[int]] = {}
        for nsid in sorted(controller.namespaces):
            groups.setdefault(controller.group_of(nsid), []).append(nsid)
        portid = controller.portid
        found = [
            AnaGroup(
                group,
                self.state(portid, group),
                self._changes.get((portid, group), 0),
                tuple(nsids),
            )
            for group, nsids in sorted(groups.items())
        ]
        return encode_ana_log(self._all_changes.get(portid, 0), found, only_groups=only_groups)
