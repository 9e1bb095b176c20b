# SPDX-License-Identifier: BSD-3-Clause
"""Replicas that keep a log's tail word, which says how far they have the log persistently."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from nvmf.replication.replica import Replica


@runtime_checkable
class AppendReplica(Replica, Protocol):
    """A replica that writes a tail word behind the data, in the same round trip."""

    @property
    def tail_word(self) -> str:
        """How it writes the word, such as "atomic-write"; "" if it cannot; known after fence()."""

    async def append(self, offset: int, data: bytes, at: int, word: bytes) -> None:
        """Write bytes persistently, then the word at an offset of its own, 8 bytes as a whole.

        Appends are carried out in the order in which they were begun.  The word is not there, also
        not in a volatile cache, before its data and that of all earlier appends is persistent.  If
        one fails, or is cancelled, the word of no later one is written.
        """


def tail_word(replica: Replica) -> str:
    """Return how a replica writes a tail word, or ""."""
    return replica.tail_word if isinstance(replica, AppendReplica) else ""
