# SPDX-License-Identifier: BSD-3-Clause
"""A target inside a different program: one call starts it, and hosts connect to its URL."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

from nvmf.config import Config, from_dict, load, loads
from nvmf.config.base import endpoint
from nvmf.config.models import NamespaceConfig
from nvmf.spec.nqn import nqn_of_uuid
from nvmf.target.io.pystore import Store, register_object, require_store, unregister_store
from nvmf.target.service.server import Server
from nvmf.target.service.starting import Starting
from nvmf.target.service.starting import serve as start

Source: TypeAlias = "Config | Mapping[str, object] | str | os.PathLike[str]"
"""A configuration: a model, a dictionary with the keys of a TOML file, TOML text, or a path."""
Size: TypeAlias = "str | int"
"""Bytes, or text such as "64MiB"."""


class Target:
    """A running target: serve() starts it, stop() ends it."""

    def __init__(self, server: Server, stores: Iterable[str] = ()) -> None:
        """stores: names of objects that were registered for this target."""
        self._server = server
        self._stores = tuple(stores)

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
        try:
            await asyncio.shield(self._server.stop())
        finally:
            _unregister(self._stores)


def _unregister(stores: Iterable[str]) -> None:
    for name in stores:
        unregister_store(name)


async def _start(config: Config, stores: Iterable[Store] = ()) -> Target:
    """Start a target; its first subsystem gets a namespace for each of the stores."""
    names = [register_object(store) for store in stores]
    try:
        return Target(await start(_with_stores(config, names)), names)
    except BaseException:
        _unregister(names)
        raise


def _with_stores(config: Config, names: Iterable[str]) -> Config:
    spaces = [NamespaceConfig(store="python", python=name) for name in names]
    if not spaces:
        return config
    first, *others = config.subsystems
    more = first.model_copy(update={"namespaces": (*first.namespaces, *spaces)})
    return config.model_copy(update={"subsystems": (more, *others)})


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
) -> Starting[Target]:
    """Start a target in this process, on the running event loop.

    ``async with serve(ram="64MiB") as target:`` serves a namespace of memory at ``target.url``
    until the block ends. Several targets can run in one process: they share its processor time with
    everything else in it, and the options of the embedded device ([iwarp]).

    Args:
        source: A whole configuration, instead of all other arguments.
        ram: Sizes of namespaces in memory, in bytes or with a unit.
        file: Paths of files or block devices; their namespaces follow those in memory.
        store: Stores written in Python; their namespaces follow those of files. A Store object is
            served once; to serve it again, or with another configuration, register its class.
        nqn: NQN of the subsystem; a random one if it is left out.
        block_size: Bytes of a logical block of each namespace; those of stores in Python have the
            block size of their store.
        traddr: Address to listen on.
        trsvcid: Port number; 0 selects a free one.
        device: "iwarp" or "roce" (embedded devices), "system" (RDMA devices of the kernel) or
            "auto".

    Raises:
        ConfigError: The configuration, or an argument, is invalid.
        ServerError: Awaited: the target cannot start.
        TypeError: There is neither a configuration nor a namespace, or both; or a store that is
            not an object of a subclass of Store.
    """
    sizes = [ram] if isinstance(ram, str | int) else list(ram)
    paths = [file] if isinstance(file, str | os.PathLike) else list(file)
    if isinstance(store, Store) or not isinstance(store, Iterable):
        store = [store]
    stores = [require_store(each) for each in store]
    if (source is None) != bool(sizes or paths or stores):
        raise TypeError('serve() needs either a configuration or namespaces, as in ram="64MiB"')
    if source is not None:
        return Starting(partial(_start, configuration(source)))
    spaces: list[dict[str, object]] = [{"store": "ram", "size": size} for size in sizes]
    spaces += [{"store": "file", "path": str(Path(path).absolute())} for path in paths]
    for space in spaces:
        space["block_size"] = block_size
    port = {"traddr": traddr, "trsvcid": trsvcid, "device": device}
    subsystem = {
        "nqn": nqn or nqn_of_uuid(uuid.uuid4()),
        "allow_any_host": True,
        "namespace": spaces,
    }
    config = from_dict({"port": [port], "subsystem": [subsystem]}, "serve()")
    return Starting(partial(_start, config, stores))


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
