# SPDX-License-Identifier: BSD-3-Clause
"""A relay of RoCEv2: a loopback address for hosts, and one for each host towards the target."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Coroutine

from nvmf.relay.errors import RelayError
from nvmf.relay.fault import Way
from nvmf.relay.frames import icrc
from nvmf.relay.owner import Owner, PacketOwner
from nvmf.relay.wire import Direction, Wire

ROCE_PORT = 4791
_TRIES = 32


class UdpPath:
    """A host of RoCEv2: its address on the target's side, and its directions."""

    owner = None

    def __init__(self, far: asyncio.DatagramTransport, port: tuple[str, int]) -> None:
        self.far = far
        self.packets = PacketOwner(port)
        self.take: dict[Way, Callable[[bytes], None]] = {}
        """Takes a packet of a direction."""
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

    def __init__(self, wire: Wire, target: tuple[str, int], near: str | None) -> None:
        self._wire = wire
        self.target = target
        self._wanted = near
        self._address = ""
        self._outside: dict[str, str] = {}
        """Addresses of hosts by those towards the target."""
        self._near: asyncio.DatagramTransport | None = None
        self._hosts: dict[tuple[str, int], UdpPath | None] = {}
        self._waiting: dict[tuple[str, int], list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> tuple[str, int]:
        """Take an address; return it.  OSError or RelayError if that is not possible."""
        self._near, self._address = await _bound(self._from_host, self._wanted)
        return self._address, self.target[1]

    def outside(self, peer: tuple[str, int]) -> tuple[tuple[str, int], tuple[str, int]] | None:
        """Return the addresses of a host and of the port that it uses, for those of the target's
        connection.  Any thread.
        """
        host = self._outside.get(peer[0])
        return None if host is None else ((host, peer[1]), (self._address, self.target[1]))

    async def close(self) -> None:
        """Release the addresses."""
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
            path.take["to-target"](data)
            return
        self._waiting.setdefault(host, []).append(data)
        if host not in self._hosts:
            self._hosts[host] = None
            task = asyncio.create_task(self._new(host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _new(self, host: tuple[str, int]) -> None:
        def answer(data: bytes, _: tuple[str, int]) -> None:
            path.take["to-host"](data)

        far, address = await _bound(answer)
        path = UdpPath(far, (self._address, self.target[1]))
        self._outside[address] = host[0]
        assert self._near is not None
        ends: dict[Way, tuple[asyncio.DatagramTransport, tuple[str, int], tuple[str, int]]] = {
            "to-target": (far, (address, ROCE_PORT), (self.target[0], ROCE_PORT)),
            "to-host": (self._near, self._near.get_extra_info("sockname"), host),
        }
        for way, (transport, source, target) in ends.items():
            path.take[way] = self._lanes(path, way, transport, source, target)
        self._hosts[host] = path
        self._wire.paths.add(path)
        for data in self._waiting.pop(host, []):
            path.take["to-target"](data)

    def _lanes(
        self,
        path: UdpPath,
        way: Way,
        transport: asyncio.DatagramTransport,
        source: tuple[str, int],
        target: tuple[str, int],
    ) -> Callable[[bytes], None]:
        """Return a function that takes packets of a direction: each queue pair keeps their order,
        and does not wait for others.
        """
        inboxes: dict[int, asyncio.Queue[tuple[bytes, Owner]]] = {}

        async def pump(inbox: asyncio.Queue[tuple[bytes, Owner]], direction: Direction) -> None:
            """Pass packets on, with the ICRC of their new addresses; a fault may spoil it."""
            while True:
                packet, owner = await inbox.get()
                if not self._wire.blackhole(owner):
                    await direction.take(packet + icrc(source, target, packet), owner)

        def take(data: bytes) -> None:
            packet = data[:-4]
            owner, lane = path.packets.see(packet, way), path.packets.lane(packet, way)
            if lane not in inboxes:
                inboxes[lane] = asyncio.Queue()
                direction = Direction(self._wire, way, path, _sender(transport, target))
                path.tasks.append(asyncio.create_task(direction.run()))
                path.tasks.append(asyncio.create_task(pump(inboxes[lane], direction)))
            inboxes[lane].put_nowait((packet, owner))

        return take


def _sender(
    transport: asyncio.DatagramTransport, target: tuple[str, int]
) -> Callable[[bytes], Coroutine[None, None, None]]:
    async def send(packet: bytes) -> None:
        transport.sendto(packet, target)

    return send


async def _bound(
    received: Callable[[bytes, tuple[str, int]], None], wanted: str | None = None
) -> tuple[asyncio.DatagramTransport, str]:
    """Return a socket on the port of RoCEv2 at an address, or at an unused loopback address."""
    sock, address = _socket() if wanted is None else (_bind(wanted), wanted)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(received), sock=sock)
    return transport, address


def _bind(address: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    try:
        sock.bind((address, ROCE_PORT))
    except OSError:
        sock.close()
        raise
    return sock


def _socket() -> tuple[socket.socket, str]:
    for _ in range(_TRIES):
        address = f"127.{random.randint(1, 60)}.{random.randint(1, 254)}.{random.randint(1, 254)}"
        try:
            return _bind(address), address
        except OSError:
            continue
    raise RelayError(f"no loopback address has UDP port {ROCE_PORT} free for RoCEv2")


def free_address() -> str:
    """Return a loopback address at which no process has RoCEv2.

    Raises:
        RelayError: None was found.
    """
    sock, address = _socket()
    sock.close()
    return address
