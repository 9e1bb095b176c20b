# SPDX-License-Identifier: BSD-3-Clause
"""A relay of RoCEv2: a loopback address for hosts, and one for each host towards the target."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Coroutine

from nvmf.lab.errors import LabError
from nvmf.lab.frames import icrc
from nvmf.lab.wire import Direction, Wire
from nvmf.lab.wirefault import Way

ROCE_PORT = 4791
_TRIES = 32


class UdpPath:
    """A host of RoCEv2: its address on the target's side, and its directions."""

    def __init__(self, far: asyncio.DatagramTransport) -> None:
        self.far = far
        self.inbox: dict[Way, asyncio.Queue[bytes]] = {
            "to-target": asyncio.Queue(),
            "to-host": asyncio.Queue(),
        }
        self.tasks: list[asyncio.Task[None]] = []

    def cut(self) -> None:
        """Do nothing: RoCEv2 has no reset, and a description with this fault is refused."""

    def half_open(self) -> None:
        """Do nothing: packets are lost while the fault is active."""


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, tuple[str, int]], None]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._received(data, addr)


class UdpRelay:
    """Has a loopback address for the hosts, and one for each host towards the target."""

    def __init__(self, wire: Wire, target: str) -> None:
        self._wire = wire
        self._target = target
        self._near: asyncio.DatagramTransport | None = None
        self._hosts: dict[tuple[str, int], UdpPath | None] = {}
        self._waiting: dict[tuple[str, int], list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> str:
        """Take an address; return it."""
        self._near, address = await _bound(self._from_host)
        return address

    async def close(self) -> None:
        """Give the addresses back."""
        paths = [path for path in self._hosts.values() if path is not None]
        tasks = [*self._tasks, *(task for path in paths for task in path.tasks)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for path in paths:
            path.far.close()
        if self._near is not None:
            self._near.close()

    def _from_host(self, data: bytes, host: tuple[str, int]) -> None:
        path = self._hosts.get(host)
        if path is not None:
            path.inbox["to-target"].put_nowait(data)
            return
        self._waiting.setdefault(host, []).append(data)
        if host not in self._hosts:
            self._hosts[host] = None
            task = asyncio.create_task(self._new(host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _new(self, host: tuple[str, int]) -> None:
        def answer(data: bytes, _: tuple[str, int]) -> None:
            path.inbox["to-host"].put_nowait(data)

        far, address = await _bound(answer)
        path = UdpPath(far)
        assert self._near is not None
        ends: dict[Way, tuple[asyncio.DatagramTransport, tuple[str, int], tuple[str, int]]] = {
            "to-target": (far, (address, ROCE_PORT), (self._target, ROCE_PORT)),
            "to-host": (self._near, self._near.get_extra_info("sockname"), host),
        }
        for way, (transport, source, target) in ends.items():
            direction = Direction(self._wire, way, path, _sender(transport, target))
            path.tasks.append(asyncio.create_task(direction.run()))
            pump = self._pump(path.inbox[way], direction, source, target)
            path.tasks.append(asyncio.create_task(pump))
        self._hosts[host] = path
        self._wire.paths.add(path)
        for data in self._waiting.pop(host, []):
            path.inbox["to-target"].put_nowait(data)

    async def _pump(
        self,
        inbox: asyncio.Queue[bytes],
        direction: Direction,
        source: tuple[str, int],
        target: tuple[str, int],
    ) -> None:
        """Pass packets on, with the ICRC of their new addresses; a fault may spoil it."""
        while True:
            packet = (await inbox.get())[:-4]
            if not self._wire.blackhole():
                await direction.take(packet + icrc(source, target, packet))


def _sender(
    transport: asyncio.DatagramTransport, target: tuple[str, int]
) -> Callable[[bytes], Coroutine[None, None, None]]:
    async def send(packet: bytes) -> None:
        transport.sendto(packet, target)

    return send


async def _bound(
    received: Callable[[bytes, tuple[str, int]], None],
) -> tuple[asyncio.DatagramTransport, str]:
    """Return a socket on the port of RoCEv2 at an unused loopback address."""
    sock, address = _socket()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(received), sock=sock)
    return transport, address


def _socket() -> tuple[socket.socket, str]:
    for _ in range(_TRIES):
        address = f"127.{random.randint(1, 60)}.{random.randint(1, 254)}.{random.randint(1, 254)}"
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        try:
            sock.bind((address, ROCE_PORT))
        except OSError:
            sock.close()
            continue
        return sock, address
    raise LabError(f"no loopback address has UDP port {ROCE_PORT} free for RoCEv2")


def free_address() -> str:
    """Return a loopback address at which no process has RoCEv2.

    Raises:
        LabError: None was found.
    """
    sock, address = _socket()
    sock.close()
    return address
