# SPDX-License-Identifier: BSD-3-Clause
"""Files of the state folder about namespaces: one each, by its UUID, in a folder for each kind."""

from __future__ import annotations

import logging
from pathlib import Path
from uuid import UUID

from nvmf.spec.status import Status, StatusError
from nvmf.target.lasting.state import make_folder, remove, write_atomically

log = logging.getLogger("nvmf.target")


class NamespaceFiles:
    """Those of one kind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._failed = False
        """One could not be written the last time."""

    def path(self, uuid: UUID) -> Path:
        """Return the path of a namespace's file, which need not exist."""
        return self._folder / f"{uuid}.json"

    def put(self, uuid: UUID, data: bytes | None) -> None:
        """Make data all that its file has, or (None) take it away; blocks.  OSError."""
        if data is None:
            remove(self.path(uuid))
        else:
            make_folder(self._folder)
            write_atomically(self.path(uuid), data)

    def was_put(self, uuid: UUID, error: OSError | None) -> StatusError | None:
        """What the command ends with for which put() was called; said once where it lasts."""
        path = self.path(uuid)
        if error is None:
            if self._failed:
                log.info("%s is written again", path)
            self._failed = False
            return None
        sentence = f"{path} cannot be written: {error.strerror or error}"
        if not self._failed:
            log.error("%s; commands that need it are refused until it can be", sentence)
        self._failed = True
        return StatusError(Status.INTERNAL_ERROR, sentence)
