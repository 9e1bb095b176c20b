# SPDX-License-Identifier: BSD-3-Clause
"""Stores behind namespaces: opened and closed on threads, closed when no reactor uses them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from nvmf.config.models import NamespaceConfig
from nvmf.rpc.mirror import Mirror, MirrorChange
from nvmf.target.command.engine import EngineNamespace
from nvmf.target.io.engine import Engine, Faulted, Store, Target
from nvmf.target.io.faults import FaultLog
from nvmf.target.io.stores import make_namespace, open_store
from nvmf.target.io.storethread import PythonStore
from nvmf.target.lasting.healthkeeper import HealthKeeper
from nvmf.target.lasting.threads import Threads
from nvmf.target.model.latency import Latencies, LatencyKeeper
from nvmf.target.model.namespace import Namespace

log = logging.getLogger("nvmf.target")

_STORES_AT_ONCE = 64
"""Stores that are opened, resized or closed at a time: each may be on a disk that hangs."""
_FILES_AT_ONCE = 8
"""Files in the state folder that are written at a time."""


class Storage:
    """The namespaces of a target and their stores."""

    def __init__(self, engine: Engine, target: Target, health: HealthKeeper) -> None:
        self.idle = asyncio.Event()
        """Set when the last removed namespace is closed."""
        self._engine = engine
        self._target = target
        self._health = health
        self._stores: dict[Namespace, Store | PythonStore] = {}
        self._latencies = LatencyKeeper()
        self._subsystems: dict[Namespace, str] = {}
        """The NQN of each namespace's subsystem."""
        self._retiring: dict[int, tuple[Namespace, asyncio.Future[None]]] = {}
        self._freeing: dict[int, asyncio.Future[None]] = {}
        """Engine namespaces whose memory is still registered with a device."""
        self._faults = FaultLog()
        self._working: dict[Namespace, set[asyncio.Future[None]]] = {}
        self._tasks: set[asyncio.Future[None]] = set()
        self._closed = False
        self.leave_memory: Callable[[Namespace], Awaitable[None]] = _nobody
        """Ends the use of a namespace's memory by hosts (Memory.leave)."""
        self.mirror_changed: Callable[[str, int, MirrorChange], None] = lambda nqn, nsid, change: (
            None
        )
        """Told of each change of a mirror."""
        self.mirror_gone: Callable[[str, int], None] = lambda nqn, nsid: None
        self._threads = Threads("storage", _STORES_AT_ONCE)
        self._state_threads = Threads("state", _FILES_AT_ONCE)

    @property
    def retiring(self) -> bool:
        """Whether reactors may still use a removed namespace."""
        return bool(self._retiring)

    async def open(self, nqn: str, nsid: int, config: NamespaceConfig) -> Namespace:
        """Open a namespace, hidden from hosts; raise ServerError if its store fails to open."""
        where = f"namespace {nsid} of {nqn}"
        store = await self._threads.run(partial(open_store, self._engine, config, where))
        try:
            namespace = make_namespace(self._engine, self._target, nqn, nsid, config, store)
        except BaseException:
            await self._threads.run(store.close)
            raise
        self._stores[namespace] = store
        self._subsystems[namespace] = nqn
        self._faults.watch(namespace, where, store)
        self._listen(namespace, nqn, store)
        blocks, size = namespace.blocks, store.block_size
        log.info("%s: %s, %d blocks of %d bytes", where, store.guarantee, blocks, size)
        return namespace

    def _listen(self, namespace: Namespace, nqn: str, store: Store | PythonStore) -> None:
        """Have mirror_changed told of the changes of a mirror."""
        if not isinstance(store, PythonStore) or store.mirror is None:
            return
        loop = asyncio.get_running_loop()

        def here(change: MirrorChange) -> None:
            if namespace in self._subsystems:
                self.mirror_changed(nqn, namespace.nsid, change)

        def told(change: MirrorChange) -> None:
            with contextlib.suppress(RuntimeError):  # the target's loop has ended
                loop.call_soon_threadsafe(here, change)

        store.mirror.listen(told)

    def memory_of(self, namespace: Namespace) -> Store:
        """Return the open store of a namespace that is memory."""
        store = self._stores[namespace]
        assert not isinstance(store, PythonStore)
        return store

    async def resize(self, namespace: Namespace, size: int = 0) -> int:
        """Resize to size, or (0) to the size of the file; return the bytes.  OSError on failure."""
        await self.leave_memory(namespace)
        found = await self._threads.run(partial(self._stores[namespace].resize, size))
        namespace.engine.resized()
        await self.leave_memory(namespace)  # a host that has come meanwhile has the old size
        return int(found)

    async def reconfigure(self, namespace: Namespace, config: NamespaceConfig) -> None:
        """Give a mirror the legs of a configuration; OSError on failure."""
        store = self._stores[namespace]
        assert isinstance(store, PythonStore)
        await self._threads.run(partial(store.reconfigure, config))

    async def resync(self, namespace: Namespace) -> None:
        """Try the lost legs of a mirror again; OSError on failure."""
        store = self._stores[namespace]
        assert isinstance(store, PythonStore)
        await self._threads.run(store.resync)

    def mirrors(self) -> list[Mirror]:
        """Return the state of each mirror."""
        found: list[Mirror] = []
        for namespace, store in self._stores.items():
            mirror = store.mirror if isinstance(store, PythonStore) else None
            nqn = self._subsystems.get(namespace)
            if mirror is not None and nqn is not None:
                found.append({"nqn": nqn, "nsid": namespace.nsid, **mirror.status()})
        return found

    async def discard(self, namespace: Namespace) -> None:
        """Close a namespace that was never visible to hosts."""
        self._faults.forget(namespace)
        store = self._stores.pop(namespace)
        del self._subsystems[namespace]
        await self._free(namespace)
        await self._threads.run(store.close)

    async def _free(self, namespace: Namespace) -> None:
        """Close a namespace in the engine, and wait until no device has its memory registered."""
        if not namespace.engine.close():
            freed = asyncio.get_running_loop().create_future()
            self._freeing[id(namespace.engine)] = freed
            await freed

    def freed(self, engine_namespace: EngineNamespace) -> None:
        """Note that the memory of a namespace is no longer registered with any device."""
        _done(self._freeing.pop(id(engine_namespace)))

    def retire(self, namespace: Namespace) -> asyncio.Future[None]:
        """Close a hidden namespace once no reactor uses it; the future is done after that."""
        self.idle.clear()
        closed = asyncio.get_running_loop().create_future()
        self._retiring[id(namespace.engine)] = (namespace, closed)
        return closed

    def retired(self, engine_namespace: EngineNamespace) -> None:
        """Close a namespace that no reactor uses any longer, and its store."""
        namespace, closed = self._retiring.pop(id(engine_namespace), (None, None))
        if namespace is None or closed is None:
            return
        self._faults.forget(namespace)
        nqn = self._subsystems.pop(namespace)
        self._latencies.gone(nqn, engine_namespace.latency())
        self._health.look(nqn).went(namespace.identity.uuid, engine_namespace)
        self.mirror_gone(nqn, namespace.nsid)
        task = asyncio.ensure_future(self._close(namespace, self._stores.pop(namespace)))
        task.add_done_callback(lambda _: _done(closed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if not self._retiring:
            self.idle.set()

    def work(
        self,
        namespace: Namespace,
        work: Callable[[], None],
        then: Callable[[OSError | None], None],
    ) -> None:
        """Do work on a thread, then call then with its OSError, or None on success.

        An exception of a different kind is logged, and becomes an OSError (EIO).  The namespace's
        store stays open until work is done.  After forget_work(), then is not called.
        """
        future = asyncio.ensure_future(self._state_threads.run(work))
        working = self._working.setdefault(namespace, set())
        working.add(future)

        def done(future: asyncio.Future[None]) -> None:
            working.discard(future)
            error = None if future.cancelled() else future.exception()
            if error is not None and not isinstance(error, OSError):
                log.error("namespace %d: a change was not stored", namespace.nsid, exc_info=error)
                error = OSError(errno.EIO, f"{type(error).__name__}: {error}")
            if not self._closed and not future.cancelled():
                then(error)

        future.add_done_callback(done)

    def forget_work(self) -> None:
        """Ignore the results of work(), because the target stops."""
        self._closed = True

    async def _close(self, namespace: Namespace, store: Store | PythonStore) -> None:
        """Close a store that no reactor uses, once no device and no work() uses it either."""
        await self.leave_memory(namespace)
        await self._free(namespace)
        working = self._working.pop(namespace, None)
        if working:
            await asyncio.wait(working)
        await self._threads.run(store.close)

    def faulted(self, fault: Faulted) -> None:
        """Log that a store failed a command (nvmf.engine.Faulted)."""
        self._faults.tell(fault)

    def latencies(self) -> Latencies:
        """Return the latency of commands by subsystem, since the target started."""
        there = ((nqn, space.engine.latency()) for space, nqn in self._subsystems.items())
        return self._latencies.totals(there)

    def interrupt(self) -> None:
        """End the commands that stores in Python have, because the target stops."""
        for store in self._stores.values():
            if isinstance(store, PythonStore):
                store.stop()

    async def close(self) -> None:
        """Close everything that is still open, after the engine's target is closed."""
        for freed in self._freeing.values():
            _done(freed)
        if self._tasks:
            await asyncio.wait(self._tasks)
        for namespace, store in self._stores.items():
            self._faults.forget(namespace)
            await self._close(namespace, store)
        self._stores.clear()
        self._subsystems.clear()


async def _nobody(_: Namespace) -> None: ...


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():  # its waiter may have been cancelled
        future.set_result(None)
