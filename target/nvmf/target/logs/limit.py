# SPDX-License-Identifier: BSD-3-Clause
"""Limits of log lines per peer, so that clients in a loop fill neither disk nor journal.

The same limits apply to lines about a namespace without a peer, which hosts can cause in a loop.

Warnings and errors are counted separately, so that a flood of other lines cannot hide a refusal.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from nvmf.target.logs.fields import fields_of

PEER_BURST, PEER_RATE = 1000, 2.0
"""Burst of lines about a peer or a namespace, and further lines per second."""
ALL_BURST, ALL_RATE = 20_000, 100.0
"""The same for all peers together, however many addresses one uses."""
PEERS_MOST = 1024
"""Peers that are tracked."""
_IPV6_NETWORK = 64
"""Length of the IPv6 prefix that usually belongs to one site."""


@dataclass(slots=True)
class _Bucket:
    """Number of lines that may still be written."""

    left: float
    at: float
    """Time of the last update."""
    left_out: int = 0
    """Lines suppressed since the last one written."""

    def take(self, now: float, burst: float, rate: float) -> bool:
        self.left = min(self.left + (now - self.at) * rate, burst)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class LimitedHandler(logging.Handler):
    """Passes lines to a different handler up to the limits; later logs the number suppressed."""

    def __init__(self, inner: logging.Handler, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.inner = inner
        self._clock = clock
        self._peers: OrderedDict[tuple[str, bool], _Bucket] = OrderedDict()
        """By source, and whether it is a warning or error; the most recent is last."""
        self._all = _Bucket(ALL_BURST, clock())
        self._forgotten = 0
        """Lines suppressed for peers that are no longer tracked."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it as suppressed."""
        about = _about(fields_of(record))
        if about is None:
            self.inner.handle(record)
            return
        key = (about, record.levelno >= logging.WARNING)
        now = self._clock()
        bucket = self._peers.get(key)
        if bucket is None:
            bucket = self._peers[key] = _Bucket(PEER_BURST, now)
            if len(self._peers) > PEERS_MOST:
                self._forgotten += self._peers.popitem(last=False)[1].left_out
        self._peers.move_to_end(key)
        if not bucket.take(now, PEER_BURST, PEER_RATE) or not self._all.take(
            now, ALL_BURST, ALL_RATE
        ):
            bucket.left_out += 1
            return
        self._tell(key, bucket)
        self.inner.handle(record)

    def tell(self) -> None:
        """Log the number of lines suppressed since the last call."""
        self.acquire()
        try:
            for key, bucket in self._peers.items():
                self._tell(key, bucket)
            if self._forgotten:
                words = "%d lines about many other peers were suppressed"
                self._write(logging.WARNING, words, self._forgotten)
                self._forgotten = 0
        finally:
            self.release()

    def close(self) -> None:
        """Close this handler and the other one."""
        self.tell()
        self.inner.close()
        super().close()

    def _tell(self, key: tuple[str, bool], bucket: _Bucket) -> None:
        if not bucket.left_out:
            return
        peer, wrong = key
        level = logging.WARNING if wrong else logging.INFO
        words = "%s: %d lines about it were suppressed: more than %g per second"
        self._write(level, words, peer, bucket.left_out, PEER_RATE)
        bucket.left_out = 0

    def _write(self, level: int, words: str, *args: object) -> None:
        record = logging.LogRecord("nvmf.target", level, __file__, 0, words, args, None)
        self.inner.handle(record)


def _about(fields: dict[str, object]) -> str | None:
    """Return the source that a line is counted for; None if no outside action causes it."""
    if "peer" in fields:
        return source(str(fields["peer"]))
    if "nsid" in fields:
        return f"namespace {fields['nsid']} of {fields.get('subnqn')}"
    return None


def source(peer: str) -> str:
    """Return the source of a peer's lines: its address without the port, or its network."""
    host = peer.rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, _IPV6_NETWORK), strict=False))
    return host
