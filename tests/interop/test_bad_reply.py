# SPDX-License-Identifier: BSD-3-Clause
"""Servers that answer a connection and are not targets: our client gives up."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from support.served import SUBNQN
from wire import mpa, nvme

if TYPE_CHECKING:
    from nvmf.initiator import Controller
    from nvmf.initiator.base.pending import Pending

pytestmark = pytest.mark.usefixtures("need_client")

GOOD = mpa.enhanced_data(128, 128, nvme.cm_accept(32))


def reply(bits: int = 0x1002, data: bytes = GOOD, key: bytes = mpa.REPLY_KEY) -> bytes:
    """Return an MPA reply with an error."""
    return key + struct.pack(">HH", bits, len(data)) + data


REPLIES = {
    "a wrong key": reply(key=b"MPA ID Rep Fram\0"),
    "a request": reply(key=mpa.REQUEST_KEY),
    "revision 3": reply(0x1003),
    "revision 1": reply(0x0001, nvme.cm_accept(32)),
    "markers": reply(0x9002),
    "not enhanced": reply(0x0002, nvme.cm_accept(32)),
    "513 bytes": reply(data=GOOD.ljust(513, b"\0")),
    "no words": reply(data=b"\0"),
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "half a reply": reply()[:30],
    "nothing": b"",
}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("hang_up", [True, False], ids=["closes", "stays"])
async def test_bad_reply(name: str, hang_up: bool) -> None:
    """The client reports ConnectError in time, whatever answers on the port."""
    from nvmf.initiator import ConnectError, connect

    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()

        def serve() -> None:
            sock = server.accept()[0]
            with sock:
                sock.recv(4096)
                sock.sendall(REPLIES[name])
                if not hang_up:
                    stop.wait()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"nvme+rdma://127.0.0.1:{server.getsockname()[1]}/{SUBNQN}"
        with pytest.raises(ConnectError):
            await connect(url, device="iwarp", connect_timeout=1.0)
        stop.set()
        await asyncio.to_thread(thread.join)


async def test_given_up() -> None:
    """A cancelled attempt does not wait for the connection's end, nor does the other side."""
    from nvmf.initiator import connect

    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"nvme+rdma://127.0.0.1:{server.getsockname()[1]}/{SUBNQN}"
        connecting = asyncio.ensure_future(
            opened(connect(url, device="iwarp", connect_timeout=600))
        )
        peer = (await asyncio.to_thread(server.accept))[0]
        with peer:
            peer.settimeout(30)  # the device's own limit is twice that
            assert await asyncio.to_thread(peer.recv, 16) == mpa.REQUEST_KEY
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting
            while await asyncio.to_thread(peer.recv, 4096):
                pass


async def opened(opening: Pending[Controller]) -> None:
    async with opening:
        raise AssertionError("nobody has answered")
