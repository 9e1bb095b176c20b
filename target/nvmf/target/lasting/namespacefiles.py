# SPDX-License-Identifier: BSD-3-Clause
"""Files of namespaces in the state folder: one per namespace and kind, named by UUID."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar
from uuid import UUID

from nvmf.spec.status import Status, StatusError
from nvmf.target.lasting.state import DamagedState, make_folder, remove, write_atomically

log = logging.getLogger("nvmf.target")


T = TypeVar("T")


class NamespaceFiles(Generic[T]):
    """The files of one kind."""

    def __init__(self, folder: Path, load: Callable[[Path], T | None]) -> None:
        """load: returns the content of a file, or None if there is no file; raises DamagedState."""
        self._folder = folder
        self._load = load
        self._failed = False
        """The last write failed."""
        self._puts: Counter[UUID] = Counter()
        self._lock = threading.Lock()
        self._stored: dict[int, T | DamagedState | None] = {}

    def puts(self, uuid: UUID) -> int:
        """Return how often put() of a namespace began or ended.

        If this has changed since a file was read, the file may have changed, too.
        """
        return self._puts[uuid]

    def read(self, uuid: UUID) -> T | DamagedState | None:
        """Return the content of a namespace's file, the error if it is damaged, or None; blocks."""
        try:
            return self._load(self.path(uuid))
        except DamagedState as error:
            return error

    def expect(self, nsid: int, found: T | DamagedState | None) -> None:
        """Let the next take() of a namespace return the result of read()."""
        self._stored[nsid] = found

    def forget(self, nsid: int) -> None:
        """Forget what expect() was given."""
        self._stored.pop(nsid, None)

    def take(self, nsid: int, uuid: UUID) -> T | None:
        """Return the content of a namespace's file, or None; raise DamagedState.

        It blocks, unless expect() was called.
        """
        found = self._stored.pop(nsid) if nsid in self._stored else self.read(uuid)
        if isinstance(found, DamagedState):
            raise found
        return found

    def path(self, uuid: UUID) -> Path:
        """Return the path of a namespace's file, which need not exist."""
        return self._folder / f"{uuid}.json"

    def put(self, uuid: UUID, data: bytes | None) -> None:
        """Write a namespace's file, or (None) remove it; blocks.  Raise OSError on failure."""
        self._count(uuid)
        try:
            if data is None:
                remove(self.path(uuid))
            else:
                make_folder(self._folder)
                write_atomically(self.path(uuid), data)
        finally:
            self._count(uuid)

    def _count(self, uuid: UUID) -> None:
        with self._lock:
            self._puts[uuid] += 1

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
