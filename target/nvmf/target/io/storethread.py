# SPDX-License-Identifier: BSD-3-Clause
"""The thread of a store written in Python: takes its calls from the engine, and answers them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from nvmf.config.models import NamespaceConfig
from nvmf.spec.status import Status
from nvmf.target.io.engine import Engine
from nvmf.target.io.engine import Store as NativeStore
from nvmf.target.io.mirrored import FACTORY, Mirrored
from nvmf.target.io.pystore import Store, find_factory
from nvmf.target.io.storecalls import Call, StoreFailures, perform, status_of, text_of

log = logging.getLogger("nvmf.target")

T = TypeVar("T")

OPEN_LIMIT = 30.0
"""Maximum seconds to import, make and open a store."""
_SETTLE = 1.0
"""Maximum seconds for cancelled calls to end before the store is closed."""
_CHANGE_LIMIT = 120.0
"""Maximum seconds to change the legs of a mirror."""
_SWEEP = 0.25
"""Maximum seconds between two searches for calls that take too long."""


class PythonStore:
    """A store in Python, with the interface of nvmf.engine.Store; the methods block.

    The engine's store is ``native``.
    """

    path: str | None = None

    def __init__(self, engine: Engine, config: NamespaceConfig, where: str) -> None:
        """Open the store of a namespace; where: its name in messages.

        Raises:
            OSError: It cannot be opened.
        """
        self._engine = engine
        self._config = config
        self._name = config.python or f"the {config.store}"
        self._where = where
        self.kind: str = config.store
        self._failures = StoreFailures(where)
        self._tasks: dict[asyncio.Task[None], float] = {}
        self._ready: Future[tuple[Store, NativeStore]] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._abandoned = False
        self._closing = False
        self._sweeping = False
        self._thread = threading.Thread(
            target=self._run, name=f"nvmf-store-{config.python or config.store}"[:60], daemon=True
        )
        self._thread.start()
        try:
            self._store, self.native = self._ready.result(OPEN_LIMIT)
        except TimeoutError:
            self._abandoned = True
            self._stop()
            raise OSError(
                errno.ETIMEDOUT, f"{self._name} did not open within {OPEN_LIMIT:g} s"
            ) from None

    def __repr__(self) -> str:
        return f"<PythonStore {self._name} {self.native!r}>"

    # ---- facts ----

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.native.size)

    @property
    def block_size(self) -> int:
        """Bytes of a logical block."""
        return int(self.native.block_size)

    @property
    def physical_block_size(self) -> int:
        """Bytes of a write that is efficient."""
        return int(self.native.physical_block_size)

    @property
    def volatile_write_cache(self) -> bool:
        """Whether a completed write may be lost in a crash until a flush."""
        return bool(self.native.volatile_write_cache)

    @property
    def deallocate(self) -> bool:
        """Whether blocks can be deallocated, and then read as zeroes."""
        return bool(self.native.deallocate)

    @property
    def read_only(self) -> bool:
        """Whether hosts cannot write."""
        return bool(self.native.read_only)

    @property
    def guarantee(self) -> str:
        """How a write becomes stable, for logs."""
        return f"{self._config.python or self.kind}: {self.native.guarantee}"

    # ---- control: on any thread but that of the store ----

    def resize(self, size: int = 0) -> int:
        """Read the store's size again, or (size) use at most that many bytes; OSError if it has
        fewer.
        """

        async def look() -> int:
            return _size_of(self._store, self._name)

        return int(self.native.resize(_fit(size, self._call(look()))))

    def flush(self) -> None:
        """Make all writes stable; OSError on failure."""
        if self.volatile_write_cache:
            self._call(self._store.flush())

    @property
    def mirror(self) -> Mirrored | None:
        """The store, if it is a mirror."""
        return self._store if isinstance(self._store, Mirrored) else None

    def reconfigure(self, config: NamespaceConfig) -> None:
        """Give a mirror the legs, quorum and rate of a configuration; OSError on failure."""
        if (mirror := self.mirror) is not None:
            self._call(mirror.reconfigure(config), _CHANGE_LIMIT)

    def resync(self) -> None:
        """Try lost legs of a mirror again; OSError on failure."""
        if (mirror := self.mirror) is not None:
            self._call(mirror.resync(), _CHANGE_LIMIT)

    def stop(self) -> None:
        """End every command at once; running calls are cancelled when the store is closed."""
        self.native.stop()

    def close(self) -> None:
        """Cancel running calls, close the store, and end its thread if the store allows that."""
        limit = self._store.time_limit + _SETTLE
        self._stop()
        self._thread.join(limit)
        if self._thread.is_alive():
            log.error(
                "%s: %s has not closed within %g s: its thread is left behind; make its methods "
                "return, or handle their cancellation",
                self._where, self._name, limit
            )  # fmt: skip
        self.native.close()

    def _stop(self) -> None:
        loop, end = self._loop, self._end
        if loop is not None and end is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(end.set)

    def _call(self, work: Coroutine[object, None, T], limit: float = 0) -> T:
        """Run work on the store's loop; any exception becomes an OSError.

        limit: maximum seconds; by default, those of the store.
        """
        limit = limit or self._store.time_limit
        assert self._loop is not None
        guarded = _guarded(work)
        try:
            future = asyncio.run_coroutine_threadsafe(guarded, self._loop)
        except RuntimeError:
            guarded.close()
            work.close()
            raise OSError(errno.EIO, "the event loop of the store has ended") from None
        try:
            return future.result(limit)
        except OSError as error:
            if isinstance(error, TimeoutError) and not future.done():
                future.cancel()
                raise OSError(errno.ETIMEDOUT, f"no result within {limit:g} s") from None
            raise
        except Exception as error:
            raise OSError(errno.EIO, text_of(error)) from error

    # ---- the thread ----

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(_as_oserror(error))
            else:
                log.exception("%s: the thread of %s has ended", self._where, self._name)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        config = self._config
        if config.store == "mirror":
            store: object = find_factory(FACTORY)(config, self._where)
        else:
            factory: Callable[..., object] = find_factory(str(config.python))
            store = factory(**config.options)
        if not isinstance(store, Store):
            raise TypeError(f"{config.python} made a {type(store).__name__}, not a Store")
        async with asyncio.timeout(OPEN_LIMIT):
            await store.open()
        try:
            native = _native(self._engine, store, config)
        except BaseException:
            await store.close()
            raise
        descriptor = native.fileno()
        self._loop.add_reader(descriptor, self._take, store, native)
        self._ready.set_result((store, native))
        try:
            if not self._abandoned:
                await self._end.wait()
        finally:  # also if a task of the store has ended the loop
            self._loop.remove_reader(descriptor)
            await self._close(store)
        if self._abandoned:
            native.close()

    def _sweep(self, store: Store) -> None:
        """Cancel calls that take too long, now and again while there are calls."""
        assert self._loop is not None
        now = self._loop.time()
        for task in [one for one, began in self._tasks.items() if began + store.time_limit <= now]:
            self._tasks[task] = now  # cancelled again after the same time
            task.cancel()
        self._sweeping = bool(self._tasks)
        if self._sweeping:
            self._loop.call_later(min(_SWEEP, store.time_limit), self._sweep, store)

    async def _close(self, store: Store) -> None:
        self._closing = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_SETTLE)
        try:
            async with asyncio.timeout(store.time_limit):
                await store.close()
        except Exception:
            log.exception("%s: %s was not closed properly", self._where, self._name)

    def _take(self, store: Store, native: NativeStore) -> None:
        assert self._loop is not None
        given: Sequence[tuple[int, int, int, int, int, bytes | None]] = []
        with contextlib.suppress(OSError):  # the store was closed meanwhile
            given = native.take()
        for each in given:
            task = self._loop.create_task(self._answer(store, native, Call(*each)))
            self._tasks[task] = self._loop.time()
            task.add_done_callback(partial(self._ended, native, each[0]))
        if not self._sweeping:
            self._sweep(store)

    def _ended(self, native: NativeStore, number: int, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled():
            if task.exception() is None:
                return
            log.error("%s: cannot answer a call", self._where, exc_info=task.exception())
        # A task that was cancelled before it began has not answered.  A second answer is ignored.
        with contextlib.suppress(OSError):
            native.answer(number, Status.INTERNAL_ERROR, 0, None)

    async def _answer(self, store: Store, native: NativeStore, call: Call) -> None:
        status, error, data = 0, 0, None
        try:
            data = await perform(store, call, native)
        except BaseException as caught:  # not even SystemExit may end the loop
            status, error = status_of(caught, call)
            if not self._closing:
                self._failures.tell(store, call, caught, status)
        with contextlib.suppress(OSError):  # the store was closed meanwhile
            native.answer(call.number, status, error, data)


async def _guarded(work: Coroutine[object, None, T]) -> T:
    """Return the result of work; an exception that is no Exception becomes an OSError, as it would
    end the event loop or pass through the target.
    """
    try:
        return await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise OSError(errno.EIO, text_of(error)) from error


def native_of(store: NativeStore | PythonStore) -> NativeStore:
    """Return the engine's store behind a store of either kind."""
    return store.native if isinstance(store, PythonStore) else store


def _native(engine: Engine, store: Store, config: NamespaceConfig) -> NativeStore:
    """Create the engine's store from the properties of a store in Python."""
    there = _size_of(store, str(config.python))
    kind = type(store)
    read_only = store.read_only if store.read_only is not None else not kind.overrides("write")
    cache = store.volatile_write_cache
    return engine.Store(
        "python",
        size=_fit(config.size or 0, there),
        block_size=max(store.block_size, config.block_size),
        read_only=read_only or config.read_only,
        calls=store.max_calls,
        max_bytes=store.max_bytes,
        limit_ms=max(round(store.time_limit * 1000), 1),
        physical_block_size=store.physical_block_size,
        volatile_write_cache=kind.overrides("flush") if cache is None else cache,
        deallocate=kind.overrides("deallocate"),
    )


def _size_of(store: Store, name: str) -> int:
    """Return the size of a store, which may be any object; raise TypeError."""
    there: object = getattr(store, "size", None)
    if not isinstance(there, int) or not 0 < there < 1 << 63:
        raise TypeError(f"size of {name} must be bytes, not {there!r}")
    return there


def _fit(asked: int, there: int) -> int:
    if asked > there:
        raise OSError(errno.EFBIG, f"it has {there} bytes, fewer than the size of {asked}")
    return asked or there


def _as_oserror(error: BaseException) -> OSError:
    if isinstance(error, OSError) and error.strerror:
        return error
    if isinstance(error, TimeoutError):
        return OSError(errno.ETIMEDOUT, f"open() did not return within {OPEN_LIMIT:g} s")
    said = str(error) if isinstance(error, LookupError) else text_of(error)
    return OSError(errno.EIO, said)
