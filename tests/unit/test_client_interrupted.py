# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C in the functions of the synchronous client that yield one result after the other."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nvmf.initiator.sync import connect_all, discover_all, watch
from support.threads import expect_threads


def watched(where: str, **options: Any) -> Iterator[object]:
    with watch(where, **options) as changes:
        yield from changes


@pytest.mark.parametrize("function", [connect_all, discover_all, watched])
def test_while_a_target_does_not_answer(function: Callable[..., Iterator[object]]) -> None:
    """KeyboardInterrupt is raised, and the thread of the client ends."""
    before = threading.active_count()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"nvme+rdma://127.0.0.1:{silent.getsockname()[1]}"
        main = threading.main_thread().ident
        timer = threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            list(function(where, device="iwarp", connect_timeout=60.0))
        timer.join()
        expect_threads(before)
