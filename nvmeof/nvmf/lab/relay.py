# SPDX-License-Identifier: BSD-3-Clause
"""A relay between hosts and a target, which makes faults on the wire."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Coroutine
from typing import TypeVar

from nvmf.lab.wire import Wire
from nvmf.lab.wirefault import ActiveFault, WireFault
from nvmf.lab.wiretcp import TcpRelay
from nvmf.lab.wireudp import UdpRelay

_T = TypeVar("_T")


class Relay:
    """A relay on a thread of its own; open() and close() it, begin and end faults."""

    def __init__(self, device: str, target: tuple[str, str]) -> None:
        self._device = device
        self.target = target
        """Address and port of the target."""
        self._loop = asyncio.SelectorEventLoop(selectors.SelectSelector())  # for times under 1 ms
        self._thread = threading.Thread(target=self._run, name="nvmf-lab-relay", daemon=True)
        self._wire: Wire | None = None
        self._relay: TcpRelay | UdpRelay | None = None
        self._number = 0

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _call(self, work: Coroutine[None, None, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def open(self) -> tuple[str, str]:
        """Start; return the address and the port for hosts.

        Raises:
            LabError: There is no address for it.
        """
        self._thread.start()
        return self._call(self._open())

    async def _open(self) -> tuple[str, str]:
        self._wire = Wire()
        host, port = self.target
        if self._device == "roce":
            udp = self._relay = UdpRelay(self._wire, host)
            return await udp.open(), port
        tcp = self._relay = TcpRelay(self._wire, (host, int(port)))
        near = await tcp.open()
        return near[0], str(near[1])

    def close(self) -> None:
        """End the relay and all connections."""
        if not self._thread.is_alive():
            return
        if self._relay is not None:
            self._call(self._relay.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    def begin(self, config: WireFault) -> ActiveFault:
        """Start a fault; end() ends it, or its seconds."""
        return self._call(self._begin(config))

    async def _begin(self, config: WireFault) -> ActiveFault:
        assert self._wire is not None
        self._number += 1
        self._wire.begin(self._number, config)
        fault = self._wire.faults[self._number]
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
