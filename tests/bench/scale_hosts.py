# SPDX-License-Identifier: BSD-3-Clause
"""Connected hosts, for scale.py: scale_hosts.py PORT NQN FIRST COUNT.

A line of JSON when all have connected, and another for each line that comes on stdin; at its end
they disconnect.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys

from nvmf.initiator import ConnectionLost, Controller, State, connect

AT_ONCE = 8
tried = 0
"""Attempts to connect, including those that failed."""


async def hosts(port: int, nqn: str, first: int, count: int) -> list[Controller]:
    """Connect the hosts, a limited number at a time."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> Controller:
        global tried
        async with turn:
            while True:
                tried += 1
                try:
                    return await connect(
                        f"nvme+rdma://127.0.0.1:{port}/{nqn}",
                        hostnqn=f"nqn.2026-11.io.example:host{number}",
                        device="iwarp",
                        queues=1,
                        queue_depth=32,
                        connect_timeout=120,
                    )
                except ConnectionLost as error:  # on a machine that has other things to do
                    print(f"host {number}: {error}", file=sys.stderr)

    return await asyncio.gather(*(one(number) for number in range(first, first + count)))


def say(controllers: list[Controller]) -> None:
    """Print the states of the hosts as JSON."""
    live = sum(one.state is State.LIVE for one in controllers)
    reconnects = sum(one.reconnects for one in controllers) + tried - len(controllers)
    print(json.dumps({"live": live, "reconnects": reconnects}), flush=True)


async def main(port: int, nqn: str, first: int, count: int) -> None:
    controllers = await hosts(port, nqn, first, count)
    loop = asyncio.get_running_loop()
    say(controllers)
    while await loop.run_in_executor(None, sys.stdin.readline):
        say(controllers)
    await asyncio.gather(*(one.close() for one in controllers))


if __name__ == "__main__":
    gc.disable()  # it would stop all hosts of the process to look at their namespaces, in vain
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
