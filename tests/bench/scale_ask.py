# SPDX-License-Identifier: BSD-3-Clause
"""Requests of an administrator and of Prometheus to a target, and the time to each response."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection

from support.served import Served

PATIENCE = 600.0
"""Maximum seconds of a wait, also on a slow machine."""


def ask(served: Served, method: str) -> float:
    """Call an RPC method without parameters; raise SystemExit if the target refuses."""
    began = time.monotonic()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(str(served.rpc_socket))
        sock.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode())
        sock.shutdown(socket.SHUT_WR)
        answer = json.loads(b"".join(iter(lambda: sock.recv(1 << 20), b"")))
    if "result" not in answer:
        raise SystemExit(f"{method}: {answer}")
    return time.monotonic() - began


def command(served: Served) -> float:
    """Return the seconds that `nvmeof target ls` takes."""
    began = time.monotonic()
    words = ["-m", "nvmf.cli.main", "target", "ls", "--rpc-socket", str(served.rpc_socket)]
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def scrape(served: Served) -> float:
    """Return the seconds that a scrape by HTTP takes."""
    found = re.search(r"metrics at http://([\d.]+):(\d+)/", served.log)
    assert found is not None
    began = time.monotonic()
    client = HTTPConnection(found[1], int(found[2]), timeout=PATIENCE)
    client.request("GET", "/metrics")
    response = client.getresponse()
    text = response.read()
    client.close()
    if response.status != 200 or b"nvmeof_controllers" not in text:
        raise SystemExit(f"the scrape was answered with status {response.status}")
    return time.monotonic() - began
