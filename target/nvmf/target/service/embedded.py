# SPDX-License-Identifier: BSD-3-Clause
"""A target inside a different program: one call starts it, and hosts connect to its URL."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from nvmf.config import Config, from_dict, load, loads
from nvmf.config.base import endpoint
from nvmf.spec.nqn import nqn_of_uuid
from nvmf.target.service.server import Server
from nvmf.target.service.starting import serve as start

Source: TypeAlias = "Config | Mapping[str, Any] | str | os.PathLike[str]"
"""A configuration: a model, a dictionary with the keys of a TOML file, TOML text, or a path."""
Size: TypeAlias = "str | int"
"""Bytes, or text such as "64MiB"."""


class Target:
    """A running target: serve() starts it, stop() ends it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __repr__(self) -> str:
        return f"<Target {' '.join(self.urls) or 'without a reachable subsystem'}>"

    @property
    def config(self) -> Config:
        """The configuration that it serves."""
        return self._server.config

    @property
    def ports(self) -> list[tuple[str, int]]:
        """Address and port number of each port that is open."""
        return [port.address for port in self._server.ports]

    @property
    def urls(self) -> list[str]:
        """One URL for each subsystem on each port."""
        return [
            f"nvme+rdma://{endpoint(*address)}/{subsystem.nqn}"
            for subsystem in self.config.subsystems
            for address in self.ports
        ]

    @property
    def url(self) -> str:
        """The URL of the first subsystem on the first port.

        Raises:
            LookupError: There is no subsystem, or no open port.
        """
        for url in self.urls:
            return url
        raise LookupError("the target has no subsystem on an open port, so there is no URL")

    async def apply(self, source: Source) -> None:
        """Serve a different configuration; parts that are the same in both are not disturbed.

        Raises:
            ConfigError: The configuration is invalid.
            ServerError: The configuration cannot be served; everything is as before.
        """
        await asyncio.shield(self._server.apply(configuration(source)))

    async def stop(self) -> None:
        """Disconnect every host and close everything."""
        await asyncio.shield(self._server.stop())


class Starting:
    """A target to be started: await it, or use it with ``async with``, which also stops it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._target: Target | None = None

    def __await__(self) -> Generator[Any, None, Target]:
        return self._start().__await__()

    async def _start(self) -> Target:
        return Target(await start(self._config))

    async def __aenter__(self) -> Target:
        self._target = await self._start()
        return self._target

    async def __aexit__(self, *_: object) -> None:
        assert self._target is not None
        with contextlib.suppress(asyncio.CancelledError):
            await self._target.stop()


def serve(
    source: Source | None = None,
    *,
    ram: Size | Iterable[Size] = (),
    file: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    nqn: str | None = None,
    block_size: int = 512,
    traddr: str = "127.0.0.1",
    trsvcid: int = 0,
    device: str = "iwarp",
) -> Starting:
    """Start a target in this process, on the running event loop.

    ``async with serve(ram="64MiB") as target:`` serves a namespace of memory at ``target.url``
    until the block ends. Several targets can run in one process: they share its processor time with
    everything else in it, and the options of the embedded device ([iwarp]).

    Args:
        source: A whole configuration, instead of all other arguments.
        ram: Sizes of namespaces in memory, in bytes or with a unit.
        file: Paths of files or block devices; their namespaces follow those in memory.
        nqn: NQN of the subsystem; a random one if it is left out.
        block_size: Bytes of a logical block of each namespace.
        traddr: Address to listen on.
        trsvcid: Port number; 0 selects a free one.
        device: "iwarp" (embedded device), "system" (RDMA devices of the kernel) or "auto".

    Raises:
        ConfigError: The configuration, or an argument, is invalid.
        ServerError: Awaited: the target cannot start.
        TypeError: There is neither a configuration nor a namespace, or both.
    """
    sizes = [ram] if isinstance(ram, str | int) else list(ram)
    paths = [file] if isinstance(file, str | os.PathLike) else list(file)
    if (source is None) != bool(sizes or paths):
        raise TypeError('serve() needs either a configuration or namespaces, as in ram="64MiB"')
    if source is not None:
        return Starting(configuration(source))
    spaces: list[dict[str, Any]] = [{"store": "ram", "size": size} for size in sizes]
    spaces += [{"store": "file", "path": str(Path(path).absolute())} for path in paths]
    for space in spaces:
        space["block_size"] = block_size
    port = {"traddr": traddr, "trsvcid": trsvcid, "device": device}
    subsystem = {
        "nqn": nqn or nqn_of_uuid(uuid.uuid4()),
        "allow_any_host": True,
        "namespace": spaces,
    }
    return Starting(from_dict({"port": [port], "subsystem": [subsystem]}, "serve()"))


def configuration(source: Source) -> Config:
    """Return the configuration that source holds or names; may read a file.

    Raises:
        ConfigError: The configuration is invalid.
    """
    match source:
        case Config():
            return source
        case str():
            return loads(source)
        case os.PathLike():
            return load(Path(source))
    return from_dict(source)
