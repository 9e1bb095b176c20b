# SPDX-License-Identifier: BSD-3-Clause
"""The target on the engine and on an event loop: start, changes, events, stop.

Everything runs on the loop's thread without blocking, except that executors open and close stores
and the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from nvmf.config.models import Config, PortConfig
from nvmf.rpc.results import ReactorCounts
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.target.change.apply import Change
from nvmf.target.change.diff import AT_START, Difference, compare
from nvmf.target.change.edit import Edit
from nvmf.target.change.hotplug import Following, Surroundings, Watcher
from nvmf.target.change.presence import Key, exchange_port, present, without
from nvmf.target.commands.core import Core
from nvmf.target.io.connection import Connection, Dispatcher
from nvmf.target.io.connections import Connections
from nvmf.target.io.engine import Engine, Listener, Qpair, Target
from nvmf.target.io.files import Files
from nvmf.target.io.injections import Injections
from nvmf.target.io.memory import Memory
from nvmf.target.io.mirrorevents import MirrorEvents
from nvmf.target.io.ports import Listening, OpenPort, Ports
from nvmf.target.io.storage import Storage
from nvmf.target.io.stores import ServerError
from nvmf.target.lasting.restored import State
from nvmf.target.model.tally import Tally
from nvmf.target.service.announcing import Announcing

if TYPE_CHECKING:
    from nvmf.target.metrics.http import MetricsServer

__all__ = ["Listening", "Server"]

log = logging.getLogger("nvmf.target")

_CLOSE_TIMEOUT = 0.8
"""Maximum seconds for connections to end when the server stops."""
_CHANGE_TIMEOUT = 0.5
"""Maximum seconds for a change in progress to end when the server stops."""
_RETIRE_TIMEOUT = 0.3
"""Maximum seconds for reactors to release the namespaces when the server stops."""


class Server:
    """A running target with its configuration; started by serve()."""

    def __init__(
        self,
        config: Config,
        *,
        engine: Engine,
        target: Target,
        state: State,
        listening: Callable[[Listening], None] | None,
        surroundings: Surroundings,
    ) -> None:
        self.config = config
        self._served: Config = Config.model_construct(ports=(), subsystems=())
        """The part of the configuration whose devices are present."""
        self._engine = engine
        self._target = target
        self._state = state.folder
        self._surroundings = surroundings
        self._following = Following(surroundings)
        self._watcher: Watcher | None = None
        self.core = Core(config.target.discovery_nqn or DISCOVERY_NQN)
        self.core.tally = Tally(config.metrics.hosts)
        self.core.generation = state.generation
        self.health = state.health
        self.storage = Storage(engine, target, self.health)
        self.mirror_events = MirrorEvents(self.core, self.health)
        self.storage.mirror_changed = self.mirror_events.add
        self.storage.mirror_gone = self.mirror_events.gone
        self.files = Files()
        self._loop = asyncio.get_running_loop()
        self._dispatcher = Dispatcher(self.core, self._loop)
        self._connections = Connections(
            engine, target, self.core, self._dispatcher, limit=config.target.max_queues
        )
        self.injections = Injections(target, lambda: self._connections)
        self._dispatcher.joined = self.injections.joined
        self._connections.refuses = self.injections.refuses
        self.memory = Memory(engine, self.core, self.storage, spin_us=config.target.spin_us)
        self.storage.leave_memory = self.memory.leave
        self._ports = Ports(engine, target, self.core, self._event, listening)
        self._connections.outside = self._ports.outside
        self.injections.ports = self._ports
        self._announcing = Announcing(self.core.discovery.nqn, self._transports)
        self.metrics: MetricsServer | None = None
        """The HTTP server for metrics, if the configuration enables it."""
        self._stopping = False
        self._changing = asyncio.Lock()
        self._loop.add_reader(target.fileno(), self._upcalls)

    @property
    def connections(self) -> int:
        """Number of queue pairs."""
        return len(self._connections)

    @property
    def reactors(self) -> int:
        """Number of threads that transfer data."""
        return self._target.reactors

    def open_connections(self) -> list[Connection]:
        """Return the present connections."""
        return list(self._connections)

    @property
    def open_ports(self) -> list[OpenPort]:
        """Return the open ports, with their configuration."""
        return self._ports.open_ports

    def reactor_counts(self) -> list[ReactorCounts]:
        """Return queue pairs and commands of each reactor, with SPDK's names."""
        return self._connections.counts()

    @property
    def ports(self) -> list[Listening]:
        """The addresses of the open ports."""
        return [one.listening for one in self._ports.open_ports]

    @property
    def away(self) -> dict[Key, str]:
        """Absent paths and addresses, and why they cannot be served."""
        return self._following.away

    # ---- start and stop ----

    async def begin(self) -> None:
        """Open stores and ports; raise OSError or ServerError on failure."""
        async with self._changing:
            await self._serve(self.config)
        if self.config.metrics.enabled:
            from nvmf.target.metrics.scrape import make_metrics

            self.metrics = make_metrics(self, self._engine)
            await self.metrics.start()

    # ---- changes while it runs ----

    async def apply(self, config: Config, follow: Iterable[tuple[str, int]] = ()) -> Difference:
        """Serve a different configuration; parts that are the same in both are not disturbed.

        follow: namespaces (NQN, NSID) that take the size of their file again.  ServerError on
        failure, with nothing changed.  Tables that are read only at start are unaffected:
        diff.fixed() names them.
        """
        return await self.edit(lambda _: config, follow)

    async def edit(self, change: Edit, follow: Iterable[tuple[str, int]] = ()) -> Difference:
        """Apply an edit of the current configuration; raise EditError if it conflicts with that."""
        async with self._changing:
            if self._stopping:
                raise ServerError("the target is stopping")
            config = change(self.config)
            start = {name: getattr(self.config, name) for name in AT_START}
            try:
                return await self._serve(config.model_copy(update=start), follow)
            except ServerError:
                raise
            except Exception as error:
                if not self._stopping:
                    raise
                raise ServerError("the target is stopping") from error

    async def pin_port(self, config: PortConfig) -> OpenPort | None:
        """Return the last open port with this configuration; its number becomes fixed.

        The port can then be named and saved.  None if no port is open with this configuration.
        """
        async with self._changing:
            opened = next((p for p in reversed(self.open_ports) if p.config == config), None)
            if opened is not None:
                made = config.model_copy(update={"trsvcid": opened.port.trsvcid})
                self.config = exchange_port(self.config, config, made)
                self._served = exchange_port(self._served, config, made)
                opened.config = made
            return opened

    async def _serve(self, config: Config, follow: Iterable[tuple[str, int]] = ()) -> Difference:
        """Serve a different configuration completely, except absent objects, or not at all.

        Then serve returned objects one by one, so that a failure of one does not delay the others.
        """
        following = self._following
        sight = await following.look(config, self._ports.open_ports)
        part = present(config, sight.away)
        difference = compare(self._served, part, [*follow, *sight.grown])
        await self._apply(difference)
        self.config, self._served = config, part
        for key in sight.come:
            away = {other: why for other, why in sight.away.items() if other != key}
            part = present(config, away)
            try:
                await self._apply(compare(self._served, part))
            except ServerError as error:
                sight.failed(key, error)
            else:
                self._served, sight.away = part, away
        following.settle(config, sight, self._ports.open_ports)
        needed = not self._stopping and following.needed(config, self._ports.open_ports)
        if self._watcher is None and needed:
            self._watcher = Watcher(self._surroundings.monitor(), self.look)
        return difference

    async def look(self) -> bool:
        """Serve what is present now; return whether something absent may be back soon."""
        async with self._changing:
            if self._stopping:
                return False
            gone = await self._following.removed_devices(self._ports.open_ports)
            try:
                if self._following.wanted(self.config):
                    await self._serve(self.config)
            finally:  # even after a failure: removal of a device waits for this
                self._connections.disconnect_devices(gone)
                self.memory.disconnect_devices(gone)
                for name in gone:
                    log.warning("RDMA device %s was removed", name)
                    self._target.device_gone(name)
            return bool(self.away)

    def _event(self, event: object) -> None:
        """Handle an event of a device's event channel."""
        engine = self._engine
        if isinstance(event, engine.ListenerEvent):
            if event.name == "DEVICE_REMOVAL":
                self._device_removed(event.listener)
            return
        if isinstance(event, engine.MemoryEvent):
            self.memory.left(event.connection, event.name)
            return
        if isinstance(event, engine.ConnectRequest) and self.memory.concerns(event):
            self.memory.connect_request(event)
            return
        self._connections.event(event)
        if isinstance(event, engine.QpairEvent):
            device = event.qpair.device
            if event.name == "DEVICE_REMOVAL" and device is not None:
                self._target.device_gone(device)

    def _device_removed(self, listener: Listener) -> None:
        if listener.device is not None:
            self._target.device_gone(listener.device)
        for opened in self._ports.open_ports:
            if opened.listener is not listener:
                continue
            if opened.config.hotplug and self._watcher is not None:
                self._following.lost(opened)
                self._watcher.wake()
            else:
                listener.close()  # removal of the device waits for this
                log.error(
                    "its device was removed and hosts cannot reach it: %s; with hotplug = true, a "
                    "port returns with its device", opened.listening
                )  # fmt: skip

    async def _apply(self, difference: Difference) -> None:
        change = Change(
            difference,
            engine=self._engine,
            target=self._target,
            core=self.core,
            storage=self.storage,
            files=self.files,
            ports=self._ports,
            connections=self._connections,
            memory=self.memory,
            health=self.health,
            state=self._state,
        )
        try:
            await change.run()
            if difference.mdns is not None:
                await self._announcing.configure(difference.mdns)
        finally:  # hosts may have seen changes that were undone
            self._served = without(self._served, change.lost)
            self._announcing.follow(self.core.ports)
        self.health.stir()
        if difference.removed:
            await self.health.save()

    def _transports(self) -> list[str]:
        return [str(device["transport"]) for device in self._engine.list_devices("system")]

    async def stop(self) -> None:
        """Disconnect every host and close everything; at most 3 s unless a thread is stuck."""
        if self._stopping:
            return
        self._stopping = True
        if self._watcher is not None:
            self._watcher.stop()
        self._following.stop()
        if self.metrics is not None:
            await self.metrics.close()
        self._ports.stop_listening()
        self._connections.stopping = True
        goodbye = asyncio.create_task(self._announcing.close())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CHANGE_TIMEOUT), self._changing:
                pass
        self.injections.stop()
        self._connections.disconnect_all()
        await self.memory.close()
        self.storage.interrupt()
        if self._connections:
            await self._wait(self._connections.quiet, _CLOSE_TIMEOUT, "connections")
        for subsystem in self.core.subsystems.values():
            for namespace in list(subsystem.namespaces.values()):
                self.storage.retire(subsystem.detach(namespace.nsid))
        if self.storage.retiring:
            await self._wait(self.storage.idle, _RETIRE_TIMEOUT, "namespaces")
        await goodbye
        await self._close()

    async def _wait(self, event: asyncio.Event, seconds: float, what: str) -> None:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            log.warning("%s still open after %g s: continuing to stop", what, seconds)

    async def _close(self) -> None:
        self._connections.drop_all()
        self.storage.forget_work()
        self._ports.stop_events()
        self._loop.remove_reader(self._target.fileno())
        self.health.end()
        await self._loop.run_in_executor(None, self._target.close)
        self._ports.close_channels()
        await self.storage.close()
        await self.health.close()

    # ---- upcalls of the engine ----

    def _upcalls(self) -> None:
        self.health.stir()
        for upcall in self._target.upcalls():
            try:
                self._upcall(upcall)
            except Exception:
                log.exception("cannot handle an upcall of the engine")

    def _upcall(self, upcall: object) -> None:
        engine = self._engine
        if isinstance(upcall, engine.Command):
            self._dispatcher.command(_connection(upcall.qpair), upcall)
        elif isinstance(upcall, engine.Closed):
            self._connections.closed(_connection(upcall.qpair), upcall.reason)
        elif isinstance(upcall, engine.Retired):
            self.storage.retired(upcall.namespace)
        elif isinstance(upcall, engine.Freed):
            self.storage.freed(upcall.namespace)
        elif isinstance(upcall, engine.DeviceReady):
            self._connections.device_ready(upcall.device, upcall.error)
        elif isinstance(upcall, engine.Fenced):
            upcall.cookie()
        elif isinstance(upcall, engine.Faulted):
            self.storage.faulted(upcall)
        elif isinstance(upcall, engine.Injected):
            self.injections.spent(upcall.number)
        elif isinstance(upcall, engine.Aborted):
            upcall.cookie(upcall.aborted)


def _connection(qpair: Qpair) -> Connection:
    connection = qpair.cookie
    assert connection is not None  # until it is destroyed
    return connection
