# SPDX-License-Identifier: BSD-3-Clause
"""Administration of a running target, through its socket or by SIGHUP."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

from nvmf.config import ConfigError, advice, plain
from nvmf.config.loader import loads, read_text
from nvmf.config.models import Config, NamespaceConfig, PortConfig
from nvmf.rpc.results import CurrentConfig
from nvmf.target.change.diff import Difference, fixed
from nvmf.target.change.edit import Edit, find_port
from nvmf.target.io.stores import ServerError, identity_of
from nvmf.target.service.keyring import Keyring
from nvmf.target.service.server import Server

log = logging.getLogger("nvmf.target")


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The result of a reload."""

    sentence: str
    """Summary of the changes."""
    ignored: list[str]
    """Messages about changes that need a restart."""
    warnings: list[str]
    """Valid but probably unintended settings."""


@dataclass(frozen=True, slots=True)
class Source:
    """A configuration file, as it was when it was read."""

    path: Path
    digest: str
    """SHA-256 of its bytes, hexadecimal."""
    blank: bool
    """Whether it has no keys and no tables."""

    @classmethod
    def read(cls, path: Path) -> tuple[Config, Source]:
        """Return the configuration in a file, and its source; may block.

        Raises:
            ConfigError: The file is not a configuration.
        """
        path = path.absolute()
        text = read_text(path)
        config = loads(text, str(path), base=path.parent)
        blank = not any(line.partition("#")[0].strip() for line in text.splitlines())
        return config, cls(path, hashlib.sha256(text.encode()).hexdigest(), blank)


def _read_again(path: Path) -> tuple[Config, Source]:
    if path.exists() and not path.is_file():  # reading a pipe would block
        raise ConfigError(str(path), [f"{path}: not a regular file, so it cannot be reloaded"])
    config, source = Source.read(path)
    if source.blank:
        raise ConfigError(str(path), [f"{path}: the file is empty; perhaps it is being written"])
    return config, source


class Administration:
    """A server, and the file with its configuration."""

    def __init__(self, server: Server, source: Source | None = None) -> None:
        self.server = server
        self.source = source
        """Source of the configuration, which later requests may have changed."""
        self.keyring = Keyring(server.files)
        self.transport: dict[str, object] | None = None
        """Keys of new subsystems, set by nvmf_create_transport; None: it was not called."""
        self._seen = server.config
        self._revision = time.time_ns() // 1000  # a restarted target has a different one

    @property
    def revision(self) -> int:
        """A number that identifies the current configuration."""
        if self._seen is not self.server.config:
            self._revision += self._seen != self.server.config
            self._seen = self.server.config
        return self._revision

    async def change(self, edit: Edit, follow: Iterable[tuple[str, int]] = ()) -> Difference:
        """Make a change; raise EditError or ServerError if it fails, with nothing changed."""
        # Shielded: a change must be completed even if its requester disconnects.
        return await asyncio.shield(self.server.edit(edit, follow))

    async def reload(self, written: int | None = None) -> Reloaded:
        """Read the file again and apply its configuration.

        written: the revision that the file was written from.  If a different request has changed
        the configuration since then, it is kept: applying the file would undo that change.
        Raises ConfigError or ServerError; the configuration is then unchanged.
        """
        if self.source is None:
            raise ServerError("the target was started without a configuration file")
        path, files = self.source.path, self.server.files
        try:
            config, source = await files.read(partial(_read_again, path), str(path))
            ignored = fixed(self.server.config, config)
            difference = await self.change(
                lambda now: config if written in (None, self.revision) else now
            )
        except (ConfigError, ServerError) as error:
            log.error("the configuration is unchanged: %s", error)
            raise
        self.source = source
        try:
            warnings = await files.read(partial(advice, config, path), "files of the configuration")
        except ServerError as error:
            warnings = [str(error)]
        for sentence in (*ignored, *warnings):
            log.warning("%s: %s", path, sentence)
        log.info("reloaded %s: %s", path, difference.sentence())
        return Reloaded(difference.sentence(), ignored, warnings)

    def described(self, *, secrets: bool) -> CurrentConfig:
        """Return the current configuration, and the file that it was read from."""
        return {
            "config": plain(self.server.config, secrets=secrets),
            "path": str(self.source.path) if self.source is not None else None,
            "sha256": self.source.digest if self.source is not None else None,
            "revision": self.revision,
        }

    def identity(self, nqn: str, nsid: int, config: NamespaceConfig) -> dict[str, UUID | bytes]:
        """Return the identifiers of a namespace, as keys of its configuration."""
        found = identity_of(nqn, nsid, config)
        return {"uuid": found.uuid, "nguid": found.nguid, "eui64": found.eui64}

    def configured_port(self, traddr: str, trsvcid: int) -> PortConfig:
        """Return the configured port that listens on this address."""
        for opened in self.server.open_ports:
            listens = (opened.port.traddr, opened.port.trsvcid)
            if (traddr, trsvcid) in (listens, (opened.config.traddr, opened.port.trsvcid)):
                return opened.config
        return find_port(self.server.config, traddr, trsvcid)
