# SPDX-License-Identifier: BSD-3-Clause
"""Get Log Page of discovery controllers (Base 2.1, 5.1.12.3.1), and their other admin commands.

A host reads the header, then the entries in several commands, then the header again, and restarts
if GENCTR has changed.  A read at offset 0 therefore takes a snapshot of the log, which also serves
the reads at later offsets: a page belongs to one generation, and later changes appear in the next
header.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

from nvmf.spec.fabrics import DiscoveryEntry, DiscoveryHeader, LogOptions
from nvmf.spec.logs import encode_supported_pages
from nvmf.spec.opcodes import AdminOpcode, LogId
from nvmf.spec.sqe import LogRequest
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.request import Completion, Request
from nvmf.target.commands.admin import ADMIN_HANDLERS
from nvmf.target.commands.discovery import View
from nvmf.target.commands.handler import Handler
from nvmf.target.commands.logpages import check_offset, cut, errors, parse
from nvmf.target.model.controller import Controller

MAX_LOG_TRANSFER = 1 << 20
"""Maximum bytes of the discovery log that one command reads."""

_PAGES = (LogId.SUPPORTED_PAGES, LogId.ERROR, LogId.DISCOVERY)
_SUPPORTED = LogOptions.PORT_LOCAL
"""ALL_SUBSYSTEMS is not supported: a host sees only the subsystems that it may use."""


@lru_cache(maxsize=8192)
def _encode(entry: DiscoveryEntry) -> bytes:
    """Encode an entry; cached, because a lookup is a hundred times as fast as encoding."""
    return entry.encode()


@dataclass(frozen=True, slots=True)
class Picture:
    """A snapshot of the log for one controller."""

    generation: int
    options: LogOptions
    blocks: tuple[bytes, ...]
    """The header and each entry, 1024 bytes each."""

    @classmethod
    def take(
        cls, view: View, controller: Controller, generation: int, options: LogOptions
    ) -> Picture:
        """Take a snapshot of the log."""
        local_only = bool(options & LogOptions.PORT_LOCAL)
        found = [_encode(e) for e in view.entries(controller.admin.local, port_local=local_only)]
        header = DiscoveryHeader(generation, len(found), 0, int(options))
        return cls(generation, options, (header.encode(), *found))

    def cut(self, log: LogRequest) -> bytes:
        """Return the requested part, with zeroes beyond the end."""
        size = DiscoveryEntry.SIZE
        check_offset(log, len(self.blocks) * size)
        first = log.offset // size
        last = -(-(log.offset + log.length) // size)
        start = log.offset - first * size
        part = b"".join(self.blocks[first:last])[start : start + log.length]
        return part.ljust(log.length, b"\0")


def discovery_handlers(
    view: Callable[[Controller], View], generation: Callable[[], int]
) -> dict[int, Handler]:
    """Return the admin handlers of discovery controllers; views change only with generation."""
    pictures: WeakKeyDictionary[Controller, Picture] = WeakKeyDictionary()

    def discovery_log(controller: Controller, log: LogRequest) -> bytes:
        options = LogOptions(log.lsp) & _SUPPORTED  # others do not change the log
        picture, now = pictures.get(controller), generation()
        stale = picture is None or (log.offset == 0 and picture.generation != now)
        if picture is None or stale or picture.options != options:
            picture = Picture.take(view(controller), controller, now, options)
            pictures[controller] = picture
        data = picture.cut(log)
        # Keep the event of a change that this snapshot does not include yet.
        if not log.rae and picture.generation == now:
            controller.events.log_read(log.lid)
        return data

    def get_log_page(controller: Controller, request: Request) -> Completion:
        log = parse(request, MAX_LOG_TRANSFER)
        if log.lid == LogId.DISCOVERY:
            return Completion(data=discovery_log(controller, log))
        if log.lid == LogId.SUPPORTED_PAGES:
            page = encode_supported_pages(_PAGES, {LogId.DISCOVERY: int(_SUPPORTED)})
            return Completion(data=cut(page, log))
        if log.lid == LogId.ERROR:
            return Completion(data=cut(errors(controller, request, log), log))
        raise StatusError(Status.INVALID_LOG_PAGE, f"there is no log page {log.lid:02x}h")

    handlers = dict(ADMIN_HANDLERS)
    del handlers[AdminOpcode.ABORT]
    handlers[AdminOpcode.GET_LOG_PAGE] = get_log_page
    return handlers
