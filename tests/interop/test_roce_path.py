# SPDX-License-Identifier: BSD-3-Clause
"""RoCEv2 over a path whose middle has a smaller MTU than its ends, in network namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-m", "nvmf.cli.main"]
NQN = "nqn.2026-01.example:disk"
CONFIG = f"""
[[port]]
traddr = "10.9.3.2"
trsvcid = 4420
device = "roce"
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
store = "ram"
size = "8MiB"
"""
LINKS = (
    ("host", "10.9.1.1/24", "near", "10.9.1.2/24", 9000),
    ("near", "10.9.2.1/24", "far", "10.9.2.2/24", 1500),
    ("far", "10.9.3.1/24", "target", "10.9.3.2/24", 9000),
)
ROUTES = (
    ("host", "default", "10.9.1.2"), ("target", "default", "10.9.3.1"),
    ("near", "10.9.3.0/24", "10.9.2.2"), ("far", "10.9.1.0/24", "10.9.2.1"),
)  # fmt: skip


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


@pytest.fixture
def within() -> Iterator[dict[str, list[str]]]:
    """A host, two routers and a target in a row: for each, the function that runs a command."""
    names = {name: f"nvmeof{os.getpid()}{name}" for name in ("host", "near", "far", "target")}
    made: list[str] = []
    try:
        for name in names.values():
            try:
                ip("netns", "add", name)
            except (subprocess.CalledProcessError, FileNotFoundError):
                pytest.skip("this machine permits no network namespaces")
            made.append(name)
        for number, (one, first, other, second, mtu) in enumerate(LINKS):
            ends = f"a{number}", f"b{number}"
            ip("link", "add", ends[0], "netns", names[one], "type", "veth",
               "peer", "name", ends[1], "netns", names[other])  # fmt: skip
            for name, end, address in ((one, ends[0], first), (other, ends[1], second)):
                ip("-n", names[name], "addr", "add", address, "dev", end)
                ip("-n", names[name], "link", "set", end, "mtu", mtu, "up")
        for name, where, by in ROUTES:
            ip("-n", names[name], "route", "add", where, "via", by)
        run = {name: ["ip", "netns", "exec", full] for name, full in names.items()}
        for name in ("near", "far"):
            forward = ["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]
            subprocess.run([*run[name], *forward], check=True)
        yield run
    finally:
        for name in made:
            ip("netns", "del", name)


@pytest.mark.skipif(shutil.which("ip") is None, reason="there is no program ip")
def test_a_way_with_a_smaller_mtu(within: dict[str, list[str]], tmp_path: Path) -> None:
    """The first connection ends with the reason, and the second has smaller packets."""
    (tmp_path / "t.toml").write_text(CONFIG)
    with (tmp_path / "log").open("wb") as log:
        serving = subprocess.Popen(
            [*within["target"], *PROGRAM, "target", "serve", tmp_path / "t.toml",
             "--rpc-socket", tmp_path / "s"],
            stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    try:
        assert serving.stdout is not None
        assert b"roce" in serving.stdout.readline()
        read = [*within["host"], *PROGRAM, "read", f"nvme+rdma://10.9.3.2/{NQN}", "--device"]
        read += ["roce", "-z", "2m", "-d", str(tmp_path / "out")]
        first = subprocess.run(read, capture_output=True, text=True, timeout=300, check=False)
        assert first.returncode == 1, first.stdout
        second = subprocess.run(read, capture_output=True, text=True, timeout=300, check=False)
        assert second.returncode == 0, second.stderr
        assert (tmp_path / "out").read_bytes() == bytes(2 << 20)
    finally:
        serving.terminate()
        serving.communicate(timeout=120)
    assert "has a smaller MTU than its ends" in (tmp_path / "log").read_text()
