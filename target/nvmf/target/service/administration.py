# SPDX-License-Identifier: BSD-3-Clause
"""What an administrator does to a running target, whatever the way: its socket, or SIGHUP."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nvmf.config import ConfigError, advice, plain
from nvmf.config.loader import loads, read_text
from nvmf.config.models import Config, NamespaceConfig, PortConfig
from nvmf.target.change.diff import Difference, fixed
from nvmf.target.change.edit import Edit, find_port
from nvmf.target.io.stores import ServerError, identity_of
from nvmf.target.service.keyring import Keyring
from nvmf.target.service.server import Server

log = logging.getLogger("nvmf.target")


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What reading the file again has led to."""

    sentence: str
    """What has changed."""
    ignored: list[str]
    """A sentence for each thing that waits for a restart."""
    warnings: list[str]
    """What is hardly meant."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file, as it was when it was read."""

    path: Path
    digest: str
    """SHA-256 of its bytes, hexadecimal."""
    blank: bool
    """Whether there is no key and no table in it."""

    @classmethod
    def read(cls, path: Path) -> tuple[Config, Source]:
        """Return the configuration in a file, and where it came from; may block.

        Raises:
            ConfigError: The file is not a configuration.
        """
        path = path.absolute()
        text = read_text(path)
        config = loads(text, str(path), base=path.parent)
        blank = not any(line.partition("#")[0].strip() for line in text.splitlines())
        return config, cls(path, hashlib.sha256(text.encode()).hexdigest(), blank)


def _read_again(path: Path) -> tuple[Config, Source]:
    if path.exists() and not path.is_file():  # reading a pipe would wait for its writer
        raise ConfigError(str(path), [f"{path}: is no file that can be read again"])
    config, source = Source.read(path)
    if source.blank:
        raise ConfigError(str(path), [f"{path}: is empty: somebody may be about to write it"])
    return config, source


class Administration:
    """A server, and the file that its configuration came from."""

    def __init__(self, server: Server, source: Source | None = None) -> None:
        self.server = server
        self.source = source
        """What is in force came from it, but for the changes made since."""
        self.keyring = Keyring(server.files)

    async def change(self, edit: Edit, follow: Iterable[tuple[str, int]] = ()) -> Difference:
        """Make a change; EditError or ServerError where it cannot be, and nothing has changed."""
        # To its end, though whoever asked has gone: half of a change is what must not be.
        return await asyncio.shield(self.server.edit(edit, follow))

    async def reload(self) -> Reloaded:
        """Read the file again and serve what it says.

        ConfigError or ServerError where that cannot be: the configuration stays as it was.
        """
        if self.source is None:
            raise ServerError("the target has no configuration file to read")
        path, files = self.source.path, self.server.files
        try:
            config, source = await files.read(partial(_read_again, path), str(path))
            ignored = fixed(self.server.config, config)
            difference = await self.change(lambda _: config)
        except (ConfigError, ServerError) as error:
            log.error("the configuration in force stays: %s", error)
            raise
        self.source = source
        try:
            warnings = await files.read(partial(advice, config, path), "the files that it names")
        except ServerError as error:
            warnings = [str(error)]
        for sentence in (*ignored, *warnings):
            log.warning("%s: %s", path, sentence)
        log.info("%s was read again: %s", path, difference.sentence())
        return Reloaded(difference.sentence(), ignored, warnings)

    def described(self, *, secrets: bool) -> dict[str, Any]:
        """The configuration in force, and the file that it was read from."""
        return {
            "config": plain(self.server.config, secrets=secrets),
            "path": str(self.source.path) if self.source is not None else None,
            "sha256": self.source.digest if self.source is not None else None,
        }

    def identity(self, nqn: str, nsid: int, config: NamespaceConfig) -> dict[str, Any]:
        """The identifiers that a namespace has, as keys of its configuration."""
        found = identity_of(nqn, nsid, config)
        return {"uuid": found.uuid, "nguid": found.nguid, "eui64": found.eui64}

    def configured_port(self, traddr: str, trsvcid: int) -> PortConfig:
        """The port of the configuration that listens there, by the number that it was given too."""
        for opened in self.server.open_ports:
            listens = (opened.port.traddr, opened.port.trsvcid)
            if (traddr, trsvcid) in (listens, (opened.config.traddr, opened.port.trsvcid)):
                return opened.config
        return find_port(self.server.config, traddr, trsvcid)
