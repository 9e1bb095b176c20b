# SPDX-License-Identifier: BSD-3-Clause
"""Relays between hosts and targets, on their own thread, and the faults that they cause."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

from nvmf.config.wirefaults import WireRule
from nvmf.relay.fault import ActiveFault, Takes
from nvmf.relay.tcp import Address, TcpRelay
from nvmf.relay.udp import UdpRelay
from nvmf.relay.wire import Wire

_T = TypeVar("_T")
_SECONDS = 60
"""Maximum seconds that the thread may take for a call."""


class Relays:
    """Relays on a thread, which the first of them starts; close() them.

    A fault concerns the frames of all relays that meet its conditions.
    """

    def __init__(self) -> None:
        self._loop = asyncio.SelectorEventLoop(selectors.SelectSelector())  # for times under 1 ms
        self._thread = threading.Thread(target=self._run, name="nvmf-relay", daemon=True)
        self._wire: Wire | None = None
        self._relays: dict[Address, TcpRelay | UdpRelay] = {}
        """By the address for hosts."""
        self._number = 0

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _call(self, work: Coroutine[None, None, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SECONDS)

    def open(self, device: str, target: Address, near: Address | None = None) -> Address:
        """Add a relay before a target; return its address for hosts.

        device: "iwarp" or "roce".  near: the address for hosts, whose port roce ignores; None: one
        of the loopback network.

        Raises:
            RelayError: No address of the loopback network is free.
            OSError: The address cannot be used.
        """
        if not self._thread.is_alive():
            self._thread.start()
        return self._call(self._open(device, target, near))

    async def _open(self, device: str, target: Address, near: Address | None) -> Address:
        if self._wire is None:
            self._wire = Wire()
        made: TcpRelay | UdpRelay
        if device == "roce":
            made = UdpRelay(self._wire, target, None if near is None else near[0])
        else:
            made = TcpRelay(self._wire, target, near)
        where = await made.open()
        self._relays[where] = made
        return where

    def shut(self, where: Address) -> None:
        """End a relay and its connections."""
        relay = self._relays.pop(where, None)
        if relay is not None:
            self._call(relay.close())

    def close(self) -> None:
        """End all relays and the thread."""
        if not self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.close()
            return
        for where in list(self._relays):
            self.shut(where)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)

    def outside(self, peer: Address, local: Address) -> tuple[Address, Address]:
        """Return the addresses of a target's connection, peer and local, as its host knows them;
        the same if it does not come from a relay.  Any thread.
        """
        for where, relay in list(self._relays.items()):
            if relay.target == local:
                return relay.outside(peer) or (peer, where)
        return peer, local

    def begin(
        self,
        config: WireRule,
        takes: Takes | None = None,
        spent: Callable[[], None] | None = None,
    ) -> ActiveFault:
        """Start a fault; end() ends it, or its seconds.

        takes: a further condition.  spent: is called on the relays' thread after the last frame of
        its count.
        """
        return self._call(self._begin(config, takes, spent))

    async def _begin(
        self, config: WireRule, takes: Takes | None, spent: Callable[[], None] | None
    ) -> ActiveFault:
        assert self._wire is not None
        self._number += 1
        fault = ActiveFault(config, takes, spent)
        self._wire.begin(self._number, fault)
        if config.seconds is not None:
            self._loop.call_later(config.seconds, self._wire.end, self._number)
        return fault

    def end(self, fault: ActiveFault) -> None:
        """End a fault, if it is active."""
        self._call(self._end(fault))

    async def _end(self, fault: ActiveFault) -> None:
        assert self._wire is not None
        for number in [n for n, one in self._wire.faults.items() if one is fault]:
            self._wire.end(number)
