# SPDX-License-Identifier: BSD-3-Clause
"""How long a target with many namespaces and hosts takes to start, reload, be listed, be scraped.

    ./dev run python tests/bench/scale.py [NAMESPACES [HOSTS]]

Prints what it measured; nothing depends on it.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import socket
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from nvmf.initiator import Controller, connect
from wire.served import Served

NQN = "nqn.2026-11.io.example:scale"


def config(namespaces: int, port: int) -> str:
    """One subsystem for anybody."""
    text = f'[[port]]\ntrsvcid = {port}\ndevice = "iwarp"\n[[subsystem]]\nnqn = "{NQN}"\n'
    text += "allow_any_host = true\nmax_namespaces = 2000\n"
    metrics = "[metrics]\nenabled = true\nport = 0\nhosts = 1000\n"
    return (
        metrics
        + text
        + "".join(
            f'[[subsystem.namespace]]\nnsid = {nsid}\nstore = "ram"\nsize = "1MiB"\n'
            for nsid in range(1, namespaces + 1)
        )
    )


def ask(served: Served, method: str) -> tuple[Any, float]:
    """The answer, and the seconds that it took."""
    began = time.monotonic()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(str(served.rpc_socket))
        sock.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode())
        sock.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: sock.recv(1 << 20), b""))
    return json.loads(answer), time.monotonic() - began


def scrape(served: Served) -> tuple[int, float]:
    """Lines of the metrics, and the seconds that they took."""
    found = re.search(r"metrics at http://([\d.]+):(\d+)/", served.log)
    assert found is not None
    began = time.monotonic()
    client = HTTPConnection(found[1], int(found[2]), timeout=60)
    client.request("GET", "/metrics")
    text = client.getresponse().read()
    client.close()
    return text.count(b"\n"), time.monotonic() - began


async def hosts(port: int, count: int) -> list[Controller]:
    """Connected hosts with an I/O queue each, twenty at a time."""
    made: list[Controller] = []
    for first in range(0, count, 20):
        made += await asyncio.gather(
            *(
                connect(
                    f"nvme+rdma://127.0.0.1:{port}/{NQN}",
                    hostnqn=f"nqn.2026-11.io.example:host{number}",
                    device="iwarp", queues=1, queue_depth=32, connect_timeout=60,
                )
                for number in range(first, min(first + 20, count))
            )
        )  # fmt: skip
    return made


async def main(namespaces: int, count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        with Served(Path(folder), config(namespaces, 0)) as served:
            served.wait_ready(120)
            print(f"start with {namespaces} namespaces: {time.monotonic() - began:.2f} s")
            began = time.monotonic()
            connected = await hosts(served.port, count)
            print(f"{count} hosts connected in {time.monotonic() - began:.2f} s")
            for what, change in (("nothing to do", 0), ("10 namespaces more", 10), ("less", 0)):
                text = config(namespaces + change, 0)
                (served.folder / "target.toml").write_text(text)
                answer, took = await asyncio.to_thread(ask, served, "target_reload")
                assert "result" in answer, answer
                print(f"reload ({what}): {took:.3f} s")
                _, took = await asyncio.to_thread(ask, served, "target_get_tree")
                print(f"ls: {took:.3f} s")
            for _ in range(3):
                cpu = served.cpu_seconds
                lines, took = await asyncio.to_thread(scrape, served)
                cpu = served.cpu_seconds - cpu
                print(f"scrape ({lines} lines): {took:.3f} s, of the processor {cpu:.2f} s")
            for one in connected:
                await one.close()


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    asyncio.run(main(*(arguments + [1000, 500][len(arguments) :])))
