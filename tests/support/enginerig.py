# SPDX-License-Identifier: BSD-3-Clause
"""Handles of the engine that are connected with each other, and waiting for their events."""

from __future__ import annotations

import gc
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from nvmf import engine


def wait(source: Any, take: Callable[[], Any], seconds: float = 60) -> Any:
    """Return the result of take as soon as there is one."""
    deadline = time.monotonic() + seconds
    while not (found := take()):
        left = deadline - time.monotonic()
        assert left > 0, "nothing came"
        select.select([source], [], [], left)
    return found


def drop(handles: list[Any]) -> None:
    """Delete the elements of the list."""
    handles.clear()
    gc.collect()


class Host:
    """A host queue that connects in a thread; the test accepts or rejects it."""

    def __init__(self, device: engine.HostDevice, port: int, **options: Any) -> None:
        self.queue: engine.HostQueue | None = None
        self.error: BaseException | None = None
        options = {"traddr": "127.0.0.1", "trsvcid": str(port), **options}

        def run() -> None:
            try:
                self.queue = engine.HostQueue(device, **options)
            except BaseException as error:
                self.error = error

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def done(self) -> engine.HostQueue:
        self._thread.join()
        if self.error is not None:
            raise self.error
        assert self.queue is not None
        return self.queue


class Pair:
    """A host queue and its queue pair of the target."""

    def __init__(
        self, target: engine.Target, channel: engine.EventChannel, device: engine.HostDevice
    ) -> None:
        self.target = target
        self.channel = channel
        listener = channel.listen("127.0.0.1", 0)
        host = Host(device, listener.address[1])
        request = wait(channel, channel.get_event)
        self.qpair = request.accept(
            target,
            reactor=0,
            qid=0,
            recv_depth=32,
            send_depth=32,
            in_capsule=0,
            max_transfer=1 << 20,
            initiator_depth=request.initiator_depth,
        )
        self.qpair.cookie = self
        self.host = host.done()
        listener.close()

    def peer_left(self) -> None:
        """The connection manager reports that the host has disconnected: tell the target."""
        while True:
            event = wait(self.channel, self.channel.get_event)
            if isinstance(event, engine.QpairEvent) and event.name == "DISCONNECTED":
                break
        self.qpair.disconnect(peer_left=True)

    def upcall(self) -> Any:
        (found,) = wait(self.target, self.target.upcalls)
        return found

    def result(self) -> Any:
        (found,) = wait(self.host, self.host.poll)
        return found
