# SPDX-License-Identifier: BSD-3-Clause
"""nvmf.target.serve() for programs without asyncio: the target runs on a thread of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from nvmf.config import Config
from nvmf.loop import ThreadLoop
from nvmf.target.io.pystore import Store
from nvmf.target.io.stores import ServerError
from nvmf.target.service import embedded
from nvmf.target.service.embedded import Size, Source

__all__ = ["Target", "serve"]


class Target:
    """A running target: serve() starts it, stop() or the end of ``with`` stops it."""

    def __init__(self, loop: ThreadLoop, target: embedded.Target) -> None:
        self._loop = loop
        self._target = target
        self._lock = threading.Lock()
        """Protects _stopping."""
        self._stopping = False
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return self._loop.get(lambda: repr(self._target))

    @property
    def config(self) -> Config:
        """The configuration that it serves."""
        return self._loop.get(lambda: self._target.config)

    @property
    def ports(self) -> list[tuple[str, int]]:
        """Address and port number of each port that is open."""
        return self._loop.get(lambda: self._target.ports)

    @property
    def urls(self) -> list[str]:
        """One URL for each subsystem on each port."""
        return self._loop.get(lambda: self._target.urls)

    @property
    def url(self) -> str:
        """The URL of the first subsystem on the first port; LookupError if there is none."""
        return self._loop.get(lambda: self._target.url)

    def apply(self, source: Source) -> None:
        """Serve another configuration: see nvmf.target.Target.apply."""
        self._loop.call(self._target.apply(source))

    def stop(self) -> None:
        """Disconnect every host and close everything.

        Any thread may call it, any number of times; each call returns when the target has stopped.
        In a process that was forked, or while the interpreter exits, it does nothing.
        """
        if self._loop.gone:
            return
        with self._lock:
            first, self._stopping = not self._stopping, True
        if not first:
            self._stopped.wait()
            return
        try:
            self._loop.call(self._target.stop())
        finally:
            try:
                self._loop.close()
            finally:
                self._stopped.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.stop()


def serve(
    source: Source | None = None,
    *,
    ram: Size | Iterable[Size] = (),
    file: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    store: Store | Iterable[Store] = (),
    nqn: str | None = None,
    block_size: int = 512,
    traddr: str = "127.0.0.1",
    trsvcid: int = 0,
    device: str = "iwarp",
) -> Target:
    """Start a target in this process, on a thread: see nvmf.target.serve for the arguments.

    Raises:
        ConfigError: The configuration, or an argument, is invalid.
        ServerError: The target cannot start.
        TypeError: See nvmf.target.serve.
    """
    starting = embedded.serve(
        source,
        ram=ram,
        file=file,
        store=store,
        nqn=nqn,
        block_size=block_size,
        traddr=traddr,
        trsvcid=trsvcid,
        device=device,
    )
    loop = ThreadLoop("nvmf-target", ServerError, "the target was stopped")

    async def start() -> embedded.Target:
        return await starting

    try:
        return Target(loop, loop.call(start()))
    except BaseException:
        loop.close()
        raise
