# SPDX-License-Identifier: BSD-3-Clause
"""One change of a running target: applied completely, or not at all.

First, everything that can fail is done invisibly to hosts (stores opened, sizes changed, listeners
opened); if a step fails, all are undone in reverse order.  Then the change becomes visible to hosts
at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from uuid import UUID

from nvmf.auth import HostKeys
from nvmf.config.models import NamespaceConfig, PortConfig, SubsystemConfig
from nvmf.target.change.diff import Difference, SubsystemChange, mask, served
from nvmf.target.change.legs import change_mirrors
from nvmf.target.commands.core import Core
from nvmf.target.io.connections import Connections
from nvmf.target.io.engine import Engine, Target
from nvmf.target.io.files import Files
from nvmf.target.io.memory import Memory
from nvmf.target.io.ports import OpenPort, Ports
from nvmf.target.io.storage import Storage
from nvmf.target.io.stores import (
    ServerError,
    exported,
    identity_of,
    make_referral,
    make_subsystem,
    read_keys,
    set_limits,
)
from nvmf.target.lasting.healthkeeper import HealthKeeper
from nvmf.target.lasting.lasting import Lasting
from nvmf.target.lasting.reservations import Reservation
from nvmf.target.model.namespace import Namespace
from nvmf.target.model.subsystem import Stored, Subsystem

log = logging.getLogger("nvmf.target")

RELEASE_TIMEOUT = 30.0
"""Seconds that commands in progress have to release a store that is to be reopened."""

_READS_MOST = 3
"""Attempts to read the stored state of new namespaces while none of it is being stored."""

Place = tuple[str, int]
"""NQN and NSID."""


def _read_all(wanted: Sequence[tuple[Subsystem, UUID]]) -> list[Stored]:
    return [subsystem.read_state(uuid) for subsystem, uuid in wanted]


class Change:
    """A difference to be applied."""

    def __init__(
        self,
        difference: Difference,
        *,
        engine: Engine,
        target: Target,
        core: Core,
        storage: Storage,
        files: Files,
        ports: Ports,
        connections: Connections,
        memory: Memory,
        health: HealthKeeper,
        state: Path | None = None,
    ) -> None:
        self._difference = difference
        self._engine = engine
        self._target = target
        self._core = core
        self._storage = storage
        self._files = files
        self._ports = ports
        self._connections = connections
        self._memory = memory
        self._health = health
        self._state = state
        self._opened: dict[Place, Namespace] = {}
        self._made: dict[str, Subsystem] = {}
        self._keys: dict[str, dict[str, HostKeys]] = {}
        self._cuts: dict[Place, int] = {}
        """RAM stores to shrink, and their new sizes; done last, because it cannot be undone."""
        self._listening: list[OpenPort] = []
        self._closed: list[OpenPort] = []
        """Removed ports; those that may have to free an address are closed first."""
        self._released: set[Place] = set()
        self.lost: list[PortConfig | Place] = []
        """Ports and namespaces that could not be restored; the next change retries them."""

    async def run(self) -> None:
        """Apply the difference; raise ServerError on failure, with everything as before."""
        async with AsyncExitStack() as undo:
            await self._release(undo)
            await self._open(undo)
            await self._make(undo)
            await self._resize(undo)
            await change_mirrors(self._difference, self._core, self._storage, undo)
            await self._power_on(undo)
            await self._read_state()
            self._listen(undo)
            undo.pop_all()
        self._show()
        await self._memory.settled()
        await self._cut()

    # ---- steps that can fail ----

    def _removed(self) -> dict[Place, NamespaceConfig]:
        gone = {(s.nqn, nsid): n for s in self._difference.removed for nsid, n in served(s).items()}
        for change in self._difference.changed:
            before = served(change.old)
            gone.update({(change.old.nqn, nsid): before[nsid] for nsid in change.removed})
        return gone

    def _added(self) -> dict[Place, NamespaceConfig]:
        come = {(s.nqn, nsid): n for s in self._difference.added for nsid, n in served(s).items()}
        for change in self._difference.changed:
            come.update({(change.new.nqn, nsid): n for nsid, n in change.added.items()})
        return come

    async def _release(self, undo: AsyncExitStack) -> None:
        """Close stores whose files are to be reopened with other settings: the files are locked."""
        wanted = {n.path for n in self._added().values() if n.path is not None}
        for (nqn, nsid), config in self._removed().items():
            if config.path not in wanted:
                continue
            subsystem = self._core.subsystems[nqn]
            kept = subsystem.lasting.leaving(nsid), subsystem.reservations.leaving(nsid)
            undo.push_async_callback(self._put_back, subsystem, nsid, config, *kept)
            self._released.add((nqn, nsid))
            closed = self._storage.retire(subsystem.detach(nsid))
            try:
                async with asyncio.timeout(RELEASE_TIMEOUT):
                    await closed
            except TimeoutError:
                raise ServerError(
                    f"commands in progress do not release namespace {nsid} of {nqn} within "
                    f"{RELEASE_TIMEOUT:g} s"
                ) from None

    async def _put_back(
        self,
        subsystem: Subsystem,
        nsid: int,
        config: NamespaceConfig,
        lasting: Lasting,
        reservation: Reservation,
    ) -> None:
        where = f"the stored state of namespace {nsid} of {subsystem.nqn}"
        uuid = identity_of(subsystem.nqn, nsid, config).uuid
        try:
            stored = await self._files.read(partial(subsystem.read_state, uuid), where)
            namespace = await self._storage.open(subsystem.nqn, nsid, config)
        except ServerError as error:
            log.error("%s: the namespace is not available to hosts", error)
            self.lost.append((subsystem.nqn, nsid))
        else:
            subsystem.expect_state(nsid, stored)
            subsystem.lasting.expect(nsid, lasting)
            subsystem.reservations.expect(nsid, reservation)
            subsystem.attach(namespace, mask(config))

    async def _open(self, undo: AsyncExitStack) -> None:
        for (nqn, nsid), config in self._added().items():
            namespace = await self._storage.open(nqn, nsid, config)
            undo.push_async_callback(self._storage.discard, namespace)
            self._opened[nqn, nsid] = namespace

    async def _make(self, undo: AsyncExitStack) -> None:
        rebuilt = [change.new for change in self._difference.changed if change.rebuilt]
        for config in (*self._difference.added, *rebuilt):
            subsystem = make_subsystem(
                self._engine,
                self._target,
                config,
                await self._files.read(partial(read_keys, config), "key files"),
                self._state,
                self._storage.work,
                self._health.subsystem(config.nqn),
                self._memory.fence,
            )
            undo.callback(subsystem.close_tables)
            self._made[config.nqn] = subsystem
        for change in self._difference.changed:
            if not change.keys or change.rebuilt:
                continue
            keys = await self._files.read(partial(read_keys, change.new), "key files")
            change.keys = keys != self._core.subsystems[change.new.nqn].keys
            if change.keys:
                self._keys[change.new.nqn] = keys

    async def _resize(self, undo: AsyncExitStack) -> None:
        for change in self._difference.changed:
            nqn = change.new.nqn
            for nsid, size in change.resized.items():
                namespace = self._core.subsystems[nqn].namespaces[nsid]
                before = namespace.store.size
                if size < before and served(change.new)[nsid].store == "ram":
                    self._cuts[nqn, nsid] = size
                    continue
                try:
                    found = await self._storage.resize(namespace, size)
                except OSError as error:
                    raise ServerError(
                        f"cannot resize namespace {nsid} of {nqn}: {error.strerror or error}"
                    ) from error
                undo.push_async_callback(self._storage.resize, namespace, before)
                undo.callback(
                    log.info, "namespace %d of %s: restored to %d bytes", nsid, nqn, before
                )
                log.info("namespace %d of %s: %d bytes", nsid, nqn, found)

    async def _power_on(self, undo: AsyncExitStack) -> None:
        """Store the power-on of added subsystems before hosts can reach them, to detect a crash."""
        for config in self._difference.added:
            self._health.power_on(config.nqn)
            undo.callback(self._health.take_back, config.nqn)
        if self._difference.added:
            await self._health.save()

    async def _read_state(self) -> None:
        """Read the stored state of new namespaces, again if some of it was stored meanwhile.

        That happens only if a namespace is made again, because a host changed it at that moment.
        After the last attempt, the state is read on the event loop, while the change is made.
        """
        places = [(self._subsystem(nqn), nsid) for nqn, nsid in self._opened]
        wanted = [(one, self._opened[one.nqn, nsid].identity.uuid) for one, nsid in places]
        for subsystem, nsid in places:
            subsystem.forget_state(nsid)  # of a change that failed after it was read
        for _ in range(_READS_MOST if self._state is not None else 0):
            before = self._puts(wanted)
            work = partial(_read_all, wanted)
            found = await self._files.read(work, "the stored state of new namespaces")
            if self._puts(wanted) == before:
                for (subsystem, nsid), stored in zip(places, found, strict=True):
                    subsystem.expect_state(nsid, stored)
                return

    def _subsystem(self, nqn: str) -> Subsystem:
        return self._made.get(nqn) or self._core.subsystems[nqn]

    def _puts(self, wanted: Sequence[tuple[Subsystem, UUID]]) -> int:
        subsystems = self._core.subsystems.values()
        return sum(subsystem.puts(uuid) for subsystem in subsystems for _, uuid in wanted)

    def _listen(self, undo: AsyncExitStack) -> None:
        wanted = {port.trsvcid for port in self._difference.ports_added}
        for config in self._difference.ports_removed:
            if config.trsvcid in wanted:  # perhaps the same address with other settings
                closed = self._ports.find(config)
                undo.callback(self._listen_again, config, closed.port.portid)
                self._ports.close(closed)
                self._closed.append(closed)
        for config in self._difference.ports_added:
            opened = self._ports.listen(config)
            undo.callback(self._ports.close, opened)
            self._listening.append(opened)

    def _listen_again(self, config: PortConfig, portid: int) -> None:
        try:
            self._ports.show(self._ports.listen(config, portid))
        except ServerError as error:
            log.error("%s: hosts cannot reach the port", error)
            self.lost.append(config)

    # ---- changes visible to hosts ----

    def _show(self) -> None:
        difference = self._difference
        for gone in difference.removed:
            self._take_away(self._core.subsystems[gone.nqn])
        for change in difference.changed:
            for nsid, limits in change.limited.items():
                set_limits(self._core.subsystems[change.new.nqn].namespaces[nsid], limits)
            for nsid, export in change.exported.items():
                subsystem = self._core.subsystems[change.new.nqn]
                subsystem.namespaces[nsid].memory.clear()
                subsystem.namespaces[nsid].memory.update(exported(export))
                subsystem.when_fenced(lambda: None)
            if change.rebuilt:
                self._rebuild(change)
            else:
                self._change(self._core.subsystems[change.new.nqn], change)
        for come in difference.added:
            subsystem = self._made[come.nqn]
            subsystem.change(self._shown(come))
            self._core.add_subsystem(subsystem)
        for config in difference.ports_removed:
            try:
                opened = self._ports.find(config)
            except KeyError:
                continue  # closed already, to free its address
            self._ports.close(opened)
            self._closed.append(opened)
        for opened in self._closed:
            self._connections.disconnect(opened)
            self._memory.disconnect(opened)
        for old, new in difference.ports_changed:
            self._ports.change(old, new)
        for opened in self._listening:
            self._ports.show(opened)
        if difference.referrals is not None:
            self._core.set_referrals(make_referral(config) for config in difference.referrals)

    def _shown(self, config: SubsystemConfig) -> dict[int, tuple[Namespace, frozenset[str] | None]]:
        return {
            nsid: (self._opened[config.nqn, nsid], mask(n)) for nsid, n in served(config).items()
        }

    def _take_away(self, subsystem: Subsystem) -> None:
        gone = dict(subsystem.namespaces)
        subsystem.change(dict.fromkeys(gone, (None, None)))
        for namespace in gone.values():
            self._storage.retire(namespace)
        self._core.remove_subsystem(subsystem.nqn)
        self._health.power_off(subsystem.nqn)

    def _change(self, subsystem: Subsystem, change: SubsystemChange) -> None:
        nqn = subsystem.nqn
        gone = {nsid: subsystem.namespaces[nsid] for nsid in change.removed
                if (nqn, nsid) not in self._released}  # fmt: skip
        subsystem.change(dict.fromkeys(gone, (None, None)))
        for namespace in gone.values():
            self._storage.retire(namespace)
        subsystem.change(
            {nsid: (self._opened[nqn, nsid], mask(n)) for nsid, n in change.added.items()}
            | {nsid: (subsystem.namespaces[nsid], hosts) for nsid, hosts in change.masked.items()}
        )
        subsystem.changed([nsid for nsid in change.resized if (nqn, nsid) not in self._cuts])
        subsystem.regroup(change.regrouped)
        if change.keys:
            self._set_keys(subsystem, self._keys[nqn])
        if change.access:
            self._set_access(subsystem, change.new)

    def _rebuild(self, change: SubsystemChange) -> None:
        """Replace a subsystem, keeping unchanged namespaces; its hosts have to reconnect."""
        nqn = change.new.nqn
        old, new = self._core.subsystems[nqn], self._made[nqn]
        kept = {nsid: old.namespaces[nsid] for nsid in old.namespaces if nsid not in change.removed}
        gone = [old.namespaces[nsid] for nsid in old.namespaces if nsid not in kept]
        come = {nsid: self._opened[nqn, nsid] for nsid in change.added}
        spaces = served(change.new)
        for nsid in kept:
            new.lasting.expect(nsid, old.lasting.leaving(nsid))
            new.reservations.expect(nsid, old.reservations.leaving(nsid))
        new.change({nsid: (n, mask(spaces[nsid])) for nsid, n in (kept | come).items()})
        new.regroup({nsid: spaces[nsid].ana_group for nsid in kept})
        old.change(dict.fromkeys(list(old.namespaces), (None, None)))
        for namespace in gone:
            self._storage.retire(namespace)
        self._core.remove_subsystem(nqn)
        self._core.add_subsystem(new)

    async def _cut(self) -> None:
        """Shrink RAM stores, once all steps that can fail are done."""
        for (nqn, nsid), size in self._cuts.items():
            subsystem = self._core.subsystems[nqn]
            try:
                found = await self._storage.resize(subsystem.namespaces[nsid], size)
            except OSError as error:
                log.error(
                    "cannot resize namespace %d of %s: %s",
                    nsid, nqn, error.strerror or error
                )  # fmt: skip
                continue
            log.info("namespace %d of %s: %d bytes", nsid, nqn, found)
            subsystem.changed([nsid])

    def _set_keys(self, subsystem: Subsystem, keys: dict[str, HostKeys]) -> None:
        """Replace the keys of hosts; hosts already authenticated need not authenticate again."""
        subsystem.keys = keys
        for controller in list(subsystem.controllers.values()):
            if controller.hostnqn in keys and controller.admin.auth is None:
                log.info("%s: its host must now authenticate: disconnecting", controller.admin)
                controller.fail()
        subsystem.when_fenced(lambda: None)

    def _set_access(self, subsystem: Subsystem, config: SubsystemConfig) -> None:
        subsystem.allow_any_host = config.allow_any_host
        subsystem.hosts = frozenset(config.host_nqns)
        for controller in list(subsystem.controllers.values()):
            if not subsystem.allows(controller.hostnqn):
                log.info("%s: its host is no longer allowed: disconnecting", controller.admin)
                controller.fail()
        subsystem.when_fenced(lambda: None)
        self._core.discovery_changed()
