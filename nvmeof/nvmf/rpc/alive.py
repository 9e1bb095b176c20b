# SPDX-License-Identifier: BSD-3-Clause
"""Whether a target from which nothing arrives is alive.

Some methods take long, so that a limit of their time would say nothing. A target answers other
connections meanwhile, and also while it starts; one that does not is stopped, or busy.
"""

from __future__ import annotations

import contextlib
import select
import socket as sockets
from collections.abc import Iterator
from pathlib import Path

ASK_AFTER = 10.0
"""Seconds without data after which the target is asked, and is asked again."""
STEP = 1.0
STEPS = 5
"""The time for the answer: a stall of the whole machine, however long, is one step of it."""
DIALS = 50
"""Attempts to connect within this time, while the target's queue of connections is full."""
_QUESTION = b"[]"
"""An empty batch, which JSON-RPC 2.0 answers with an error: no part of the target is needed."""


def dial(path: Path) -> sockets.socket:
    """Return a connection that does not block.

    Raises:
        BlockingIOError: As many connections as possible wait for the target to accept them.
        OSError: There is no target, or it is not accessible.
    """
    made = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.connect(str(path))
    except BaseException:
        made.close()
        raise
    return made


def pauses() -> Iterator[float]:
    """The seconds to wait after each attempt to connect but the last."""
    return iter([STEP * STEPS / DIALS] * DIALS)


def ask(path: Path) -> sockets.socket | None:
    """Return a connection whose answer shows that the target is alive; None: ask again later."""
    try:
        made = dial(path)
    except BlockingIOError:
        return None
    try:
        made.send(_QUESTION)
    except BaseException:
        made.close()
        raise
    return made


def answers(path: Path, waiting: sockets.socket | None = None) -> bool:
    """Return whether the target is alive, or something has arrived on the socket of the caller.

    A target that is no longer at its path counts as alive: it closes its other connections, too.
    """
    asked: sockets.socket | None = None
    with contextlib.ExitStack() as stack:
        try:
            poll = select.poll()
            if waiting is not None:
                poll.register(waiting, select.POLLIN)
            for _ in range(STEPS):
                if asked is None and (asked := ask(path)) is not None:
                    poll.register(stack.enter_context(asked), select.POLLIN)
                if poll.poll(STEP * 1000):
                    return True
        except (OSError, ValueError):  # a different thread has closed the socket of the caller
            return True
    return False
