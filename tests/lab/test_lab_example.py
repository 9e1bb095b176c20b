# SPDX-License-Identifier: BSD-3-Clause
"""The storage lab's example of our target beside nvmet, in the guest, in its short form."""

from __future__ import annotations

import csv
import io
import shlex
import sys

import pytest

from lab import network
from lab.cells import use_device
from lab.guest import Guest
from lab.prepare import ROOT

EXAMPLE = "config/examples/lab/beside-nvmet.toml"
OUT = "/run/lab/beside"


@pytest.mark.usefixtures("need_product")
def test_ours_beside_nvmet(guest: Guest) -> None:
    """Both targets are measured in turns, over siw, and nvmet is removed afterwards."""
    use_device(guest, "siw")
    assert network.GUEST in (ROOT / EXAMPLE).read_text()
    nvmeof = f"cd {shlex.quote(str(ROOT))} && {shlex.quote(sys.executable)} -m nvmf.cli.main"
    guest.run(f"mkdir -p /run/lab && rm -rf {OUT}", quiet=True)
    guest.run(f"{nvmeof} lab run {EXAMPLE} --try -d {OUT}", timeout=600)
    done = guest.run(f"{nvmeof} lab export csv {OUT}", timeout=120)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["system"] for row in rows] == ["nvmet", "ours"] * 5
    assert all(float(row["iops"]) > 0 for row in rows)
    left = guest.run("ls /sys/kernel/config/nvmet/ports /sys/kernel/config/nullb", quiet=True)
    assert "4242" not in left.stdout
    assert "nvmeof_lab" not in left.stdout
