# SPDX-License-Identifier: BSD-3-Clause
"""A target of remote memory whose answers are not those to the client's operations."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from wire.errors import ConnectionEnded
from wire.peer import TIMEOUT, IwarpPeer, ReadAsked, Received

pytestmark = pytest.mark.usefixtures("need_client")
PERSISTED, ECHOED = 4, 6
SLOT = 2
KEY, BASE, SIZE = 0x77, 0x1000, 4096
"""The memory that the target grants."""


def answer(kind: int, slot: int) -> bytes:
    """PERSISTED or ECHOED, with status 0."""
    return struct.pack("<BBHI", kind, 0, slot, 0)


@contextmanager
def target(kind: int) -> Iterator[int]:
    """Yield the port of a target that answers each request with this message for SLOT."""

    def serve() -> None:
        peer = IwarpPeer(listening.accept()[0])
        peer.serve_reads = False
        peer.memory.register(SIZE, stag=KEY, base=BASE)
        try:
            peer.receive_start()
            peer.reply()
            while True:
                if isinstance(peer.event(), ReadAsked | Received):
                    peer.send(answer(kind, SLOT))
        except (ConnectionEnded, OSError):
            pass
        finally:
            peer.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield listening.getsockname()[1]
    serving.join(TIMEOUT)


@pytest.mark.parametrize(
    ("method", "kind", "wrong"),
    [
        ("read", PERSISTED, True),
        ("read", ECHOED, True),
        ("write-read", PERSISTED, True),
        ("write-send", ECHOED, True),
        ("floor", PERSISTED, True),
        ("write-send", PERSISTED, False),
        ("floor", ECHOED, False),
    ],
)
def test_answers_to_other_operations(method: str, kind: int, wrong: bool) -> None:
    """An answer ends an operation that waits for it; others end the connection.

    If it ended a read, the caller would get what was in the slot before, and the slot would be
    used again while the device still writes to it.
    """
    from nvmf.engine import EngineError, MemoryClient

    with target(kind) as port:
        client = MemoryClient(traddr="127.0.0.1", trsvcid=port, depth=4)
        try:
            client.opened(BASE, KEY, SIZE)
            client.begin(SLOT, method, 0, 64)
            done: list[tuple[int, int]] = []
            said = ""
            ends = time.monotonic() + TIMEOUT
            while not done and not said and time.monotonic() < ends:
                try:
                    done = client.poll()
                except EngineError as error:
                    said = str(error)
            if wrong:
                assert not done
                assert "protocol error: the answer to a different operation" in said
            else:
                assert done == [(SLOT, 0)]
        finally:
            client.close()
