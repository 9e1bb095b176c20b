# SPDX-License-Identifier: BSD-3-Clause
"""perftest between rxe in the guest and the embedded RoCEv2 device outside, in both directions."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from lab import network
from lab.cells import use_device
from lab.guest import Guest
from lab.network import Network
from lab.our_host import Outside
from lab.running import Result

COMMON = ["-F", "-n", "100"]
CASES = [
    [f"ib_{what}_{kind}", *how]
    for what in ("send", "write", "read", "atomic")
    for kind, how in (("bw", ["-R"]), ("lat", []))
]
"""Queue pairs that the connection manager connects, and that the programs connect by hand."""
SECONDS = 240.0
VERBS = [sys.executable, "-m", "nvmf.cli.main", "verbs", "--device", "roce", "--"]


def gid_index(listing: str, address: str) -> str:
    """Return the index of an address in the output of `ibv_devinfo -v`."""
    found = re.search(rf"GID\[ *(\d+)\]:\s+::ffff:{re.escape(address)}\b", listing)
    assert found is not None, listing
    return found[1]


@pytest.fixture
def ends(guest: Guest, cable: Network, need_product: None) -> dict[str, list[str]]:
    """Words that each end adds to a command line that connects its queue pairs by hand."""
    use_device(guest, "rxe")
    inside = guest.run("ibv_devinfo -v").stdout
    outside = Outside(cable).run([*VERBS, "ibv_devinfo", "-v"]).stdout
    return {
        "guest": ["-d", "rxe0", "-x", gid_index(inside, network.GUEST)],
        "outside": ["-x", gid_index(outside, network.HOST)],
    }


def words(case: list[str], end: list[str]) -> list[str]:
    return [*case, *COMMON, *([] if "-R" in case else end)]


def until_served(client: Callable[[], Result], serves: Callable[[], bool]) -> Result:
    """Run a client again until its server listens."""
    deadline = time.monotonic() + SECONDS
    while (done := client()).status and serves() and time.monotonic() < deadline:
        pass
    return done


@pytest.mark.parametrize("case", CASES, ids="".join)
def test_the_guest_serves(
    guest: Guest, cable: Network, ends: dict[str, list[str]], case: list[str]
) -> None:
    server = guest.start(f"exec {shlex.join(words(case, ends['guest']))}")
    try:
        client = [*VERBS, *words(case, ends["outside"]), network.GUEST]
        done = until_served(
            lambda: Outside(cable).run(client, check=False, timeout=SECONDS), lambda: server.alive
        )
        assert not done.status, f"{done.output}\n{server.output}"
        server.wait(SECONDS).check()
    finally:
        server.signal()


@pytest.mark.parametrize("case", CASES, ids="".join)
def test_the_embedded_device_serves(
    guest: Guest, cable: Network, ends: dict[str, list[str]], case: list[str]
) -> None:
    command = cable.command(*VERBS, *words(case, ends["outside"]))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            client = shlex.join([*words(case, ends["guest"]), network.HOST])
            done = until_served(
                lambda: guest.run(client, check=False, timeout=SECONDS),
                lambda: server.poll() is None,
            )
            assert not done.status, done.output
            output = server.communicate(timeout=SECONDS)[0]
            assert not server.returncode, output
        finally:
            server.kill()
