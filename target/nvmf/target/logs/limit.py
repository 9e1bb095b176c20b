# SPDX-License-Identifier: BSD-3-Clause
"""How many lines a peer may cause: whoever connects in a loop fills neither disk nor journal.

The same goes for lines about a namespace without a peer: what hosts do to it in a loop.

What goes wrong is counted apart from the rest, so that nobody hides a refusal behind a flood.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nvmf.target.logs.fields import fields_of

PEER_BURST, PEER_RATE = 1000, 2.0
"""Lines about a peer or a namespace, and how many more each second."""
ALL_BURST, ALL_RATE = 20_000, 100.0
"""The same of all peers together, however many addresses somebody has."""
PEERS_MOST = 1024
"""Peers that are remembered."""
_IPV6_NETWORK = 64
"""Bits that somebody has an IPv6 address in, as a rule."""


@dataclass(slots=True)
class _Bucket:
    """Lines that may still be written."""

    left: float
    at: float
    """When it was so."""
    left_out: int = 0
    """Lines that were not written since the last that was."""

    def take(self, now: float, burst: float, rate: float) -> bool:
        self.left = min(self.left + (now - self.at) * rate, burst)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class LimitedHandler(logging.Handler):
    """Hands lines to another handler, but those too many; then it says how many there were."""

    def __init__(self, inner: logging.Handler, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.inner = inner
        self._clock = clock
        self._peers: OrderedDict[tuple[str, bool], _Bucket] = OrderedDict()
        """By whom it is about, and whether that went wrong; who was spoken of last is last."""
        self._all = _Bucket(ALL_BURST, clock())
        self._forgotten = 0
        """Lines that were left out about peers that are not remembered."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, or count it."""
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
        """Say what was left out since the last time."""
        self.acquire()
        try:
            for key, bucket in self._peers.items():
                self._tell(key, bucket)
            if self._forgotten:
                words = "%d lines about many other peers were left out"
                self._write(logging.WARNING, words, self._forgotten)
                self._forgotten = 0
        finally:
            self.release()

    def close(self) -> None:
        """No more lines; the other handler is closed too."""
        self.tell()
        self.inner.close()
        super().close()

    def _tell(self, key: tuple[str, bool], bucket: _Bucket) -> None:
        if not bucket.left_out:
            return
        peer, wrong = key
        level = logging.WARNING if wrong else logging.INFO
        words = "%s: %d lines about it were left out: more than %g a second"
        self._write(level, words, peer, bucket.left_out, PEER_RATE)
        bucket.left_out = 0

    def _write(self, level: int, words: str, *args: object) -> None:
        record = logging.LogRecord("nvmf.target", level, __file__, 0, words, args, None)
        self.inner.handle(record)


def _about(fields: dict[str, Any]) -> str | None:
    """Whom or what a line is counted for; None where nobody outside causes it."""
    if "peer" in fields:
        return source(str(fields["peer"]))
    if "nsid" in fields:
        return f"namespace {fields['nsid']} of {fields.get('subnqn')}"
    return None


def source(peer: str) -> str:
    """Whom a peer's lines are counted for: its address without the port, or its network."""
    host = peer.rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, _IPV6_NETWORK), strict=False))
    return host
