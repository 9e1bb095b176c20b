# SPDX-License-Identifier: BSD-3-Clause
"""Asymmetric Namespace Access: the state of each group of namespaces on each port.

A group without a state is optimized on every port.
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
        """States by port identifier, then by group."""
        self._changes: dict[tuple[int, int], int] = {}
        """Number of changes of a group on a port."""
        self._all_changes: dict[int, int] = {}

    def state(self, portid: int, group: int) -> AnaState:
        """Return the state of a group on a port."""
        return self._states.get(portid, {}).get(group, AnaState.OPTIMIZED)

    def states(self, portid: int) -> dict[int, AnaState]:
        """Return the states that are set on a port."""
        return dict(self._states.get(portid, {}))

    def put(
        self,
        portid: int,
        states: Mapping[int, AnaState],
        controllers: Iterable[Controller] = (),
    ) -> None:
        """Set all states of a port, and notify the hosts of these controllers.

        Controllers of other ports, and those that see no namespace of a changed group, are not
        notified.
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
        """Forget the states of a closed port."""
        self._states.pop(portid, None)

    def _tell(self, controller: Controller, groups: set[int]) -> None:
        concerned = [n for n in controller.namespaces if controller.group_of(n) in groups]
        for nsid in concerned:
            self.enforce(controller, nsid)
        if concerned:
            controller.ana_changed()

    def regrouped(self, portid: int, groups: Iterable[int]) -> None:
        """Count a change of these groups: namespaces were added, removed or masked."""
        self._all_changes[portid] = self._all_changes.get(portid, 0) + 1
        for group in groups:
            self._changes[portid, group] = self._changes.get((portid, group), 0) + 1

    def enforce(self, controller: Controller, nsid: int) -> None:
        """Set the gate of a namespace according to the state of its group."""
        status = self.state(controller.portid, controller.group_of(nsid)).status
        gate = Gate(status, status, status) if status is not None else OPEN
        controller.gates.set(nsid, GateReason.ANA, gate)

    def log_page(self, controller: Controller, *, only_groups: bool) -> bytes:
        """Return the ANA log page for the namespaces that a controller's host sees."""
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
