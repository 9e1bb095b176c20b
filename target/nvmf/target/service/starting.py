# SPDX-License-Identifier: BSD-3-Clause
"""The start of a target: a Server exists only once everything it needs is ready."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Generic, Protocol, TypeVar

from nvmf.config.models import Config
from nvmf.target.change.hotplug import Surroundings
from nvmf.target.io.engine import Engine, Target
from nvmf.target.io.stores import ServerError
from nvmf.target.lasting.restored import State
from nvmf.target.service.server import Listening, Server


class Stops(Protocol):
    """A running target."""

    async def stop(self) -> None: ...


T = TypeVar("T", bound=Stops)


class Starting(Generic[T]):
    """A target to be started: await it, or use it with ``async with``, which also stops it.

    Raises:
        ServerError: The target cannot start; nothing is left open.
    """

    def __init__(self, start: Callable[[], Coroutine[object, None, T]]) -> None:
        self._start = start
        self._target: T | None = None

    def __await__(self) -> Generator[object, None, T]:
        return self._start().__await__()

    async def __aenter__(self) -> T:
        self._target = await self
        return self._target

    async def __aexit__(self, *_: object) -> None:
        assert self._target is not None
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(self._target.stop())


def serve(
    config: Config,
    *,
    listening: Callable[[Listening], None] | None = None,
    engine: Engine | None = None,
    surroundings: Surroundings | None = None,
) -> Starting[Server]:
    """Start a target on the running event loop.

    Args:
        config: The configuration to serve.
        listening: Called for each port once it is open, on the loop's thread.
        engine: Replaces nvmf.engine in tests.
        surroundings: Access to the machine's devices; tests substitute their own.
    """
    return Starting(
        partial(_start, config, listening=listening, engine=engine, surroundings=surroundings)
    )


async def _start(
    config: Config,
    *,
    listening: Callable[[Listening], None] | None,
    engine: Engine | None,
    surroundings: Surroundings | None,
) -> Server:
    if engine is None:
        from nvmf import engine as native

        engine = native
    loop = asyncio.get_running_loop()
    try:
        state = await loop.run_in_executor(None, State.restore, config.target.state_dir)
    except OSError as error:
        raise ServerError(
            f"cannot create the state folder {error.filename}: {error.strerror}"
        ) from error
    try:
        target = _engine_target(engine, config)
    except BaseException as error:
        await state.health.close()
        if isinstance(error, OSError):
            raise _cannot_start(error) from error
        raise
    server = Server(
        config,
        engine=engine,
        target=target,
        state=state,
        listening=listening,
        surroundings=surroundings or Surroundings(),
    )
    try:
        await server.begin()
    except BaseException as error:
        await server.stop()
        if isinstance(error, OSError):
            raise _cannot_start(error) from error
        raise
    return server


def _engine_target(engine: Engine, config: Config) -> Target:
    options = config.iwarp.model_dump(exclude_none=True)
    if options:
        engine.set_iwarp_options(**options)
    wanted = config.target
    return engine.Target(
        reactors=wanted.reactors,
        cpus=list(wanted.cpus) if wanted.cpus is not None else None,
        spin_us=wanted.spin_us,
        buffer_size=wanted.buffer_size,
        buffers=wanted.buffers,
    )


def _cannot_start(error: OSError) -> ServerError:
    return ServerError(f"the target cannot start: {error.strerror or error}")
