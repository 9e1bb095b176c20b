# SPDX-License-Identifier: BSD-3-Clause
"""The list of active namespaces (Identify, CNS 02h), which a controller returns page by page.

Sans-IO: the caller sends the commands, on an event loop or on a thread.
"""

from __future__ import annotations

from nvmf.initiator.base.errors import ConnectionLost
from nvmf.spec.identify import IDENTIFY_SIZE, decode_namespace_list

MAX_NAMESPACES = 65536
"""The most namespaces that are accepted from a controller."""
_MAX_NSID = 0xFFFFFFFE
_FULL_PAGE = IDENTIFY_SIZE // 4


class NsidList:
    """The NSIDs that the pages so far contain, ascending."""

    def __init__(self) -> None:
        self.nsids: list[int] = []
        self.complete = False
        """Whether the last page was the end of the list."""

    @property
    def after(self) -> int:
        """The NSID of the request for the next page, which lists the higher ones."""
        return self.nsids[-1] if self.nsids else 0

    def add(self, page: bytes) -> None:
        """Add the next page (4096 bytes).

        Raises ConnectionLost if the list has no end: a full page repeats NSIDs, or there are more
        than MAX_NAMESPACES.
        """
        found = decode_namespace_list(page)
        before = len(self.nsids)
        for nsid in found:
            if nsid > self.after:
                self.nsids.append(nsid)
        more = len(self.nsids) > before
        if len(found) < _FULL_PAGE or self.after >= _MAX_NSID:
            self.complete = True
        elif not more or len(self.nsids) > MAX_NAMESPACES:
            why = f"it has more than {MAX_NAMESPACES}" if more else "it repeats the same page"
            raise ConnectionLost(
                "the controller's list of active namespaces does not end: "
                f"{why} after {len(self.nsids)} namespaces"
            )
