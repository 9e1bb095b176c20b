# SPDX-License-Identifier: BSD-3-Clause
"""RoCEv2 packets, built and checked independently of the engine, and a relay that modifies them."""

from __future__ import annotations

import random
import socket
import struct
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

PORT = 4791
ACK = 0x11
READ_REQUEST = 0x0C
MANAGEMENT = 0x64
RESPONSES = range(0x0D, 0x13)
DREQ, DREP, REQ, REJ, REP = 0x15, 0x16, 0x10, 0x12, 0x13


def icrc(
    src: tuple[str, int], dst: tuple[str, int], packet: bytes, identification: int = 0
) -> bytes:
    """Return the ICRC of an IPv4 packet (not fragmented), BTH to payload."""
    udp = 8 + len(packet) + 4
    covered = b"\xff" * 8 + struct.pack(
        "!BBHHHBBH", 0x45, 0xFF, 20 + udp, identification, 0x4000, 0xFF, 17, 0xFFFF
    )
    covered += socket.inet_aton(src[0]) + socket.inet_aton(dst[0])
    covered += struct.pack("!HHHH", src[1], dst[1], udp, 0xFFFF)
    covered += packet[:4] + b"\xff" + packet[5:]
    return struct.pack("<I", zlib.crc32(covered))


def endpoint(address: str) -> socket.socket:
    """Return a socket that sends packets whose identification is 0."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.bind((address, PORT))
    return sock


def send_train(sock: socket.socket, packets: list[bytes], target: tuple[str, int]) -> None:
    """Send packets of one length with one system call, so that they arrive together."""
    source = sock.getsockname()
    whole = b"".join(p + icrc(source, target, p, number) for number, p in enumerate(packets))
    segment = struct.pack("=H", len(packets[0]) + 4)
    sock.sendmsg([whole], [(socket.IPPROTO_UDP, 103, segment)], 0, target)  # UDP_SEGMENT


def own_address() -> str:
    """Return an address of the loopback network that is probably unused."""
    return f"127.{random.randint(1, 60)}.{random.randint(1, 254)}.{random.randint(1, 254)}"


@dataclass
class Relay:
    """Forwards packets between clients, which connect to `address`, and a target.

    spoil returns the packets to send in place of a received one: none, several, or a different
    one.
    """

    target: str
    spoil: Callable[[bytes], list[bytes]] = field(default=lambda packet: [packet])
    address: str = field(default_factory=own_address)
    far: str = field(default_factory=own_address)
    """The address of clients for the target."""
    together: bool = False
    """Packets of one length that spoil returns together are sent together."""
    packets: int = 0
    """Number of received packets."""

    def __post_init__(self) -> None:
        self._near, self._far = endpoint(self.address), endpoint(self.far)
        self._client = ("", 0)
        self._stop = False
        self._threads = [
            threading.Thread(target=self._run, args=(self._near, self._far, True)),
            threading.Thread(target=self._run, args=(self._far, self._near, False)),
        ]

    def __enter__(self) -> Relay:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._stop = True
        for thread in self._threads:
            thread.join()
        self._near.close()
        self._far.close()

    def _run(self, come: socket.socket, go: socket.socket, from_client: bool) -> None:
        come.settimeout(0.05)
        source = go.getsockname()
        while not self._stop:
            try:
                data, sender = come.recvfrom(70000)
            except TimeoutError:
                continue
            if from_client:
                self._client = sender
            self.packets += 1
            target = (self.target, PORT) if from_client else self._client
            packets = self.spoil(data[:-4])
            if self.together and len({len(packet) for packet in packets}) == 1:
                send_train(go, packets, target)
                continue
            for packet in packets:
                go.sendto(packet + icrc(source, target, packet), target)
