# SPDX-License-Identifier: BSD-3-Clause
"""FLUSH and ATOMIC WRITE of the embedded RoCEv2 device towards rxe."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from lab import network
from lab.guest import Guest
from lab.network import Network
from lab.our_host import Outside
from lab.prepare import ROOT

SERVICE = 7471
PYTHON = "/usr/bin/python3"
"""The distribution's Python, which has pyverbs."""


RESPONDER = ROOT / "tests" / "lab" / "flush_responder.py"


def exchange(guest: Guest, cable: Network, dax: str = "") -> None:
    """Run both ends, with memory of the guest or a device DAX; they check each other."""
    responder = guest.start(
        f"PYTHONUNBUFFERED=1 exec {PYTHON} {shlex.quote(str(RESPONDER))}"
        f" {network.GUEST} {SERVICE} {dax}"
    )
    responder.wait_for("listening", 120)
    build = os.environ.get("NVMF_BUILD_DIR") or ROOT / "build" / "dev"
    peer = Path(build, "tests", "c", "roce_flush_peer")
    persistent = ["persistent"] if dax else []
    Outside(cable).run([str(peer), network.GUEST, str(SERVICE), *persistent], timeout=120)
    assert "verified" in responder.wait(120).check().output


def check(guest: Guest, dax: str) -> None:
    """Check that a device DAX has what an exchange has written, after the guest was booted."""
    guest.run([PYTHON, str(RESPONDER), "check", dax])
