# SPDX-License-Identifier: BSD-3-Clause
"""The target on the engine and on an event loop: ports, connections, start and stop.

Everything runs on the loop's thread and nothing here waits, but for the opening and closing of
stores and of the engine, which an executor does.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nvmf.config.models import Config, NamespaceConfig, PortConfig, SubsystemConfig
from nvmf.spec.cm import CmRejectError, CmStatus
from nvmf.spec.fabrics import RdmaProvider
from nvmf.target.cm import decide
from nvmf.target.connection import Connection, Dispatcher
from nvmf.target.core import Core
from nvmf.target.discovery import Port, plain_address
from nvmf.target.namespace import Namespace
from nvmf.target.queue import Queue
from nvmf.target.stores import ServerError, make_namespace, make_subsystem, open_store
from nvmf.target.subsystem import Subsystem

log = logging.getLogger("nvmf.target")

_EVENTS_AT_ONCE = 64
"""Events of one channel that are taken before others have their turn."""
_CLOSE_TIMEOUT = 0.8
"""Seconds that connections have to end when the server stops."""
_RETIRE_TIMEOUT = 0.3
"""Seconds that reactors have to let go of the namespaces then."""
_HARMLESS = {"ESTABLISHED", "TIMEWAIT_EXIT", "CONNECT_RESPONSE"}


@dataclass(frozen=True, slots=True)
class Listening:
    """A port that is open."""

    address: tuple[str, int]
    device: str
    """"iwarp" or "system"."""

    def __str__(self) -> str:
        host, port = self.address
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return f"listening on {where} ({self.device})"


class Server:
    """A target as its configuration describes it.

    listening is called for each port once it is open, on the loop's thread.  engine stands for
    nvmf.engine in tests.
    """

    def __init__(
        self,
        config: Config,
        *,
        listening: Callable[[Listening], None] | None = None,
        engine: Any = None,
    ) -> None:
        self.config = config
        self.core = Core()
        self.ports: list[Listening] = []
        self._announce = listening
        self._engine = engine if engine is not None else importlib.import_module("nvmf.engine")
        self._target: Any = None
        self._channels: dict[str, Any] = {}
        self._listeners: list[Any] = []
        self._stores: dict[Namespace, Any] = {}
        self._retiring: dict[int, Namespace] = {}
        self._connections: set[Connection] = set()
        self._load: list[int] = [0] * config.target.reactors
        self._quiet = asyncio.Event()
        self._retired = asyncio.Event()
        self._stopping = False
        self._tasks: set[asyncio.Future[None]] = set()
        self._dispatcher: Dispatcher

    @property
    def connections(self) -> int:
        """Queue pairs there are."""
        return len(self._connections)

    # ---- start and stop ----

    async def start(self) -> None:
        """Open stores and ports.  ServerError where that cannot be, with nothing left open."""
        try:
            await self._start()
        except OSError as error:
            await self.stop()
            raise ServerError(f"the target cannot start: {error.strerror or error}") from error
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._dispatcher = Dispatcher(self.core, loop)
        options = self.config.iwarp.model_dump(exclude_none=True)
        if options:
            self._engine.set_iwarp_options(**options)
        target = self.config.target
        self._target = self._engine.Target(
            reactors=target.reactors,
            cpus=list(target.cpus) if target.cpus is not None else None,
            spin_us=target.spin_us,
            buffer_size=target.buffer_size,
            buffers=target.buffers,
        )
        loop.add_reader(self._target.fileno(), self._upcalls)
        for subsystem in self.config.subsystems:
            await self._open_subsystem(subsystem)
        for index, port in enumerate(self.config.ports, 1):
            self._open_port(index, port)

    async def _open_subsystem(self, config: SubsystemConfig) -> None:
        subsystem = make_subsystem(self._engine, self._target, config)
        for nsid, namespace in config.numbered():
            await self._attach(subsystem, nsid, namespace)
        self.core.add_subsystem(subsystem)

    async def _attach(self, subsystem: Subsystem, nsid: int, config: NamespaceConfig) -> Namespace:
        loop = asyncio.get_running_loop()
        where = f"namespace {nsid} of {subsystem.nqn}"
        store = await loop.run_in_executor(None, open_store, self._engine, config, where)
        try:
            namespace = make_namespace(
                self._engine, self._target, subsystem.nqn, nsid, config, store
            )
        except BaseException:
            store.close()
            raise
        self._stores[namespace] = store
        subsystem.attach(namespace)
        blocks, size = namespace.blocks, store.block_size
        log.info("%s: %s, %d blocks of %d bytes", where, store.guarantee, blocks, size)
        return namespace

    # ---- changes while it runs ----

    async def attach(self, nqn: str, nsid: int, config: NamespaceConfig) -> Namespace:
        """Add a namespace and tell the hosts.

        KeyError where there is no such subsystem, ValueError where the NSID is taken or too high,
        ServerError where the store cannot be opened.
        """
        subsystem = self.core.subsystems[nqn]
        subsystem.check_free(nsid)
        namespace = await self._attach(subsystem, nsid, config)
        self._dispatcher.flush_all()
        return namespace

    def detach(self, nqn: str, nsid: int) -> None:
        """Take a namespace away and tell the hosts; its store is closed when nothing uses it.

        KeyError where there is no such subsystem or namespace.
        """
        namespace = self.core.subsystems[nqn].detach(nsid)
        self._retiring[id(namespace.engine)] = namespace
        self._dispatcher.flush_all()

    async def resize(self, nqn: str, nsid: int, size: int = 0) -> int:
        """Give a namespace a new size, or (0) that of its file, and tell the hosts; bytes.

        KeyError where there is no such subsystem or namespace, OSError where it cannot be done.
        """
        subsystem = self.core.subsystems[nqn]
        namespace = subsystem.namespaces[nsid]
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, self._stores[namespace].resize, size)
        namespace.engine.resized()
        subsystem.changed([nsid])
        self._dispatcher.flush_all()
        return int(found)

    async def stop(self) -> None:
        """Disconnect every host and close everything; takes less than 2 s."""
        if self._stopping:
            return
        self._stopping = True
        for listener in self._listeners:
            listener.close()
        for connection in self._connections:
            connection.qpair.disconnect()
        if self._connections:
            await self._wait(self._quiet, _CLOSE_TIMEOUT, "connections")
        self._retired.clear()
        for subsystem in self.core.subsystems.values():
            for nsid in list(subsystem.namespaces):
                self.detach(subsystem.nqn, nsid)
        if self._retiring:
            await self._wait(self._retired, _RETIRE_TIMEOUT, "namespaces")
        await self._close()

    async def _wait(self, event: asyncio.Event, seconds: float, what: str) -> None:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            log.warning("%s are not closed after %g s: closing anyway", what, seconds)

    async def _close(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in self._connections:
            if connection.timer is not None:
                connection.timer.cancel()
            self._dispatcher.drop(connection)
        self._connections.clear()
        for channel in self._channels.values():
            loop.remove_reader(channel.fileno())
        if self._target is not None:
            loop.remove_reader(self._target.fileno())
            await loop.run_in_executor(None, self._target.close)
            self._target = None
        for channel in self._channels.values():
            channel.close()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for namespace, store in self._stores.items():
            namespace.engine.close()
            await loop.run_in_executor(None, store.close)
        self._stores.clear()

    # ---- ports ----

    def _open_port(self, portid: int, config: PortConfig) -> None:
        device, listener = self._listen(config)
        self._listeners.append(listener)
        address = (str(listener.address[0]), int(listener.address[1]))
        opened = Listening(address, device)
        provider = RdmaProvider.IWARP if device == "iwarp" else RdmaProvider.NONE
        self.core.add_port(Port(portid, plain_address(address[0]), address[1], provider))
        self.ports.append(opened)
        if self._announce is not None:
            self._announce(opened)
        else:
            log.info("%s", opened)

    def _listen(self, config: PortConfig) -> tuple[str, Any]:
        """The device and the listener of a port; ServerError where there is none."""
        where = f"cannot listen on {config.traddr} port {config.trsvcid}"
        refused: list[str] = []
        for device in ("system", "iwarp") if config.device == "auto" else (config.device,):
            why = self._engine.verbs_available(device)
            if why is None and device == "system" and not self._engine.list_devices(device):
                why = 'there is no RDMA device; the embedded one is device = "iwarp"'
            if why is None:
                try:
                    listener = self._channel(device).listen(config.traddr, config.trsvcid)
                except OSError as error:
                    refused.append(error.strerror or f"{where}: {error}")
                    continue
                else:
                    if refused:
                        log.info("port %s: not on %s", config.traddr, "; ".join(refused))
                    return device, listener
            refused.append(f"{where} with the {device} device: {why}")
        # With device = "auto" the last is the embedded one: that there are no others is no fault.
        raise ServerError(refused[-1])

    def _channel(self, device: str) -> Any:
        if device not in self._channels:
            channel = self._engine.EventChannel(device)
            self._channels[device] = channel
            asyncio.get_running_loop().add_reader(channel.fileno(), self._events, channel)
        return self._channels[device]

    # ---- connections ----

    def _events(self, channel: Any) -> None:
        for _ in range(_EVENTS_AT_ONCE):
            try:
                event = channel.get_event()
                if event is None:
                    return
                if isinstance(event, self._engine.ConnectRequest):
                    self._connect_request(event)
                elif event.name not in _HARMLESS:
                    event.qpair.disconnect(peer_left=event.name == "DISCONNECTED")
            except Exception:
                log.exception("an event of a connection could not be handled")

    def _connect_request(self, event: Any) -> None:
        host, port = event.peer
        try:
            connection = self._accept(event)
        except CmRejectError as error:
            log.warning("%s port %d: connection refused: %s", host, port, error)
            event.reject(error.encode())
        except Exception as error:
            refusal = CmRejectError(CmStatus.NO_RESOURCES, f"the engine cannot: {error}")
            log.warning("%s port %d: connection refused: %s", host, port, refusal)
            event.reject(refusal.encode())
        else:
            self._connections.add(connection)
            self._load[connection.reactor] += 1
            self._dispatcher.opened(connection)

    def _accept(self, event: Any) -> Connection:
        if self._stopping:
            raise CmRejectError(CmStatus.NO_RESOURCES, "the target is stopping")
        limits = self.core.cm_limits(self.config.target.max_queues - len(self._connections))
        wanted = decide(event.private_data, event.initiator_depth, limits)
        controller = self.core.find_controller(wanted.cntlid) if wanted.qid else None
        served = (
            [controller.subsystem]
            if controller is not None
            else [s for s in self.core.subsystems.values() if not s.discovery]
        )
        reactor = min(range(len(self._load)), key=self._load.__getitem__)
        qpair = event.accept(
            self._target,
            reactor=reactor,
            qid=wanted.qid,
            recv_depth=wanted.recv_depth,
            send_depth=wanted.send_depth,
            in_capsule=max((s.in_capsule for s in served), default=0) if wanted.qid else 0,
            max_transfer=max((s.mdts for s in served), default=1 << 20),
            initiator_depth=wanted.initiator_depth,
        )
        queue = Queue(qpair, wanted.qid, wanted.recv_depth, event.peer, event.local)
        qpair.cookie = Connection(queue, qpair, reactor)
        connection: Connection = qpair.cookie
        return connection

    # ---- what the engine hands up ----

    def _upcalls(self) -> None:
        for upcall in self._target.upcalls():
            try:
                self._upcall(upcall)
            except Exception:
                log.exception("an upcall of the engine could not be handled")

    def _upcall(self, upcall: Any) -> None:
        engine = self._engine
        if isinstance(upcall, engine.Command):
            self._dispatcher.command(upcall.qpair.cookie, upcall)
        elif isinstance(upcall, engine.Closed):
            connection: Connection = upcall.qpair.cookie
            self._connections.discard(connection)
            self._load[connection.reactor] -= 1
            self._dispatcher.closed(connection, upcall.reason)
            if not self._connections:
                self._quiet.set()
        elif isinstance(upcall, engine.Retired):
            self._release(upcall.namespace)

    def _release(self, engine_namespace: Any) -> None:
        """No reactor uses it any more: close it and its store."""
        namespace = self._retiring.pop(id(engine_namespace), None)
        if namespace is None:
            return
        engine_namespace.close()
        store = self._stores.pop(namespace)
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(loop.run_in_executor(None, store.close))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if not self._retiring:
            self._retired.set()

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(self.stop())
