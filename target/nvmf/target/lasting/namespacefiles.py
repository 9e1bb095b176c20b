# SPDX-License-Identifier: BSD-3-Clause
"""Files of namespaces in the state folder: one per namespace and kind, named by UUID."""

from __future__ import annotations

import logging
from pathlib import Path
from uuid import UUID

from nvmf.spec.status import Status, StatusError
from nvmf.target.lasting.state import make_folder, remove, write_atomically

log = logging.getLogger("nvmf.target")


class NamespaceFiles:
    """The files of one kind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._failed = False
        """The last write failed."""

    def path(self, uuid: UUID) -> Path:
        """Return the path of a namespace's file, which need not exist."""
        return self._folder / f"{uuid}.json"

    def put(self, uuid: UUID, data: bytes | None) -> None:
        """Write a namespace's file, or (None) remove it; blocks.  Raise OSError on failure."""
        if data is None:
            remove(self.path(uuid))
        else:
            make_folder(self._folder)
            write_atomically(self.path(uuid), data)

    def was_put(self, uuid: UUID, error: OSError | None) -> StatusError | None:
        """Return the command's failure after put(), or None; repeated failures are logged once."""
        path = self.path(uuid)
        if error is None:
            if self._failed:
                log.info("%s can be written again", path)
            self._failed = False
            return None
        sentence = f"{path} cannot be written: {error.strerror or error}"
        if not self._failed:
            log.error("%s; commands that need it are refused until then", sentence)
        self._failed = True
        return StatusError(Status.INTERNAL_ERROR, sentence)
