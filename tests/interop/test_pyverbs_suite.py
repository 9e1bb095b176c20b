# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's own tests of pyverbs, unmodified, on the embedded devices.

They are Debian's (python3-pyverbs has them among its documents). The tables have the reason for
each test that is skipped or left out.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[1] / "support" / "pyverbs_runner.py"
DEBIAN = Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"
VERSION = "44."
"""The version of rdma-core for which the tables are."""
MODULES = (
    "addr", "atomic", "cq", "cq_events", "cqex", "device", "fork", "mr", "odp", "parent_domain",
    "pd", "qp", "qpex", "rdmacm", "relaxed_ordering", "shared_pd",
)  # fmt: skip
"""The others are for one adapter's driver (mlx5, efa, cuda), or for raw Ethernet packets."""
SECONDS = 240.0

LEFT_OUT = {
    "test_rdmacm_async_traffic": "the devices have timeouts of their own and do not report the "
    "option RDMA_OPTION_ID_ACK_TIMEOUT",
    "test_rdmacm_async_traffic_external_qp": "rdma_init_qp_attr is not supported",
    "test_rdmacm_async_udp_traffic": "queue pairs are of type RC, and there are no datagrams",
    "test_imported_rc_ex_rdma_write": "objects of a different process cannot be imported",
}
"""Tests that would fail, because they do not ask whether a device has what they need."""
LEFT_OUT_IWARP = {
    "test_rdmacm_async_write": "it reads memory as soon as the WRITEs to it are complete at "
    "the peer, which on iWARP means that the data was sent (RFC 5040, Ordering and Completions)",
}
"""The same, of the iWARP device only."""

SKIPPED = {
    "Create AH|Create QP type 4|(UC|UD|Raw Packet) QP with": "queue pairs are of type RC",
    "Extended QP is not supported": "the same, of the tests that use UD queue pairs",
    "Create XRCD": "queue pairs are of type RC",
    "Multicast": "queue pairs are of type RC",
    "Device memory": "the devices have no memory of their own",
    "dmabuf|renderD": "DMA buffers are not supported",
    "Rereg MR": "ibv_rereg_mr is not supported",
    "Create MW|memory window of type 3": "memory windows are of type 2",
    "ODP": "on-demand paging is not supported",
    "huge pages|Huge pages": "this machine has no huge pages",
    "Parent Domain": "parent domains are not supported",
    "All gid indices populated": "the table of GIDs has no gaps",
    "No supported port is up": "iWARP connects queue pairs by the connection manager only",
}
"""The suite's own reasons for skipping tests, and ours."""
PASSED = {"iwarp": 29, "roce": 55}
"""The minimum number of tests that pass."""


def source() -> Path:
    """Return Debian's copy of the tests."""
    asked = ["dpkg-query", "-W", "-f", "${Version}", "python3-pyverbs"]
    found = subprocess.run(asked, capture_output=True, text=True).stdout
    if not found.startswith(VERSION):
        pytest.skip(f"python3-pyverbs {VERSION}x is not installed, but {found or 'none'}")
    if not DEBIAN.exists():
        pytest.skip(f"there is no {DEBIAN}: this system installs no documents of packages")
    return DEBIAN


def unpack(folder: Path) -> None:
    """Copy the tests, of which Debian compresses the longer ones."""
    for path in source().iterdir():
        if path.suffix == ".gz":
            (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, folder)


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="this system is not Debian")
@pytest.mark.parametrize("device", ["iwarp", "roce"])
def test_suite(device: str, tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    unpack(tests)
    verbs = [sys.executable, "-m", "nvmf.cli.main", "verbs", "--device", device, "--"]
    names = [*LEFT_OUT, *(LEFT_OUT_IWARP if device == "iwarp" else ())]
    left_out = rf"\.({'|'.join(names)})$"
    done = subprocess.run(
        [*verbs, PYTHON, RUNNER, tmp_path, f"{device}0", left_out,
         *(f"test_{name}" for name in MODULES)],
        capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert not done.returncode, f"{done.stdout}\n{done.stderr}"
    reasons = re.compile("|".join(SKIPPED))
    for one in results:
        what = f"{one['test']}: {one['why']}\n{done.stderr}\n{done.stdout}"
        assert one["result"] != "failed", what
        assert one["result"] != "skipped" or reasons.search(one["why"]), one
    assert sum(one["result"] == "passed" for one in results) >= PASSED[device]
