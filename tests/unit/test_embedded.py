# SPDX-License-Identifier: BSD-3-Clause
"""A target inside a program: its start, its namespaces, and the state after its end."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nvmf.target
from nvmf.config import ConfigError, loads
from nvmf.initiator import connect
from nvmf.target import ServerError, serve

NQN = "nqn.2026-11.io.example:embedded"
TEXT = f"""
[[port]]
trsvcid = 0
device = "iwarp"
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
[[subsystem.namespace]]
store = "ram"
size = "1MiB"
"""
OPTIONS: dict[str, Any] = {"device": "iwarp"}


async def holds(url: str) -> list[tuple[int, int, int]]:
    """Return NSID, blocks and bytes of a block of each namespace, and write and read one."""
    async with connect(url, **OPTIONS) as controller:
        found = []
        for disk in controller.namespaces:
            data = bytes([disk.nsid]) * disk.block_size
            await disk.write(1, data)
            assert await disk.read(1, 1) == data
            found.append((disk.nsid, disk.blocks, disk.block_size))
        return found


async def test_memory() -> None:
    async with serve(ram="64MiB") as target:
        assert target.url == target.urls[0]
        assert target.url in repr(target)
        assert await holds(target.url) == [(1, 131072, 512)]


async def test_namespaces_of_both_kinds(tmp_path: Path) -> None:
    disk = tmp_path / "disk.img"
    with disk.open("wb") as file:
        file.truncate(1 << 20)
    async with serve(ram=["1MiB", 2 << 20], file=disk, nqn=NQN, block_size=4096) as target:
        assert target.url.endswith(f"/{NQN}")
        assert await holds(target.url) == [(1, 256, 4096), (2, 512, 4096), (3, 256, 4096)]
    assert disk.read_bytes()[4096:8192] == bytes([3]) * 4096


async def test_any_form_of_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_text(TEXT)
    table = {
        "port": [{"trsvcid": 0, "device": "iwarp"}],
        "subsystem": [
            {"nqn": NQN, "allow_any_host": True, "namespace": [{"store": "ram", "size": "1MiB"}]}
        ],
    }
    for source in (TEXT, path, loads(TEXT), table):
        async with serve(source) as target:
            assert await holds(target.url) == [(1, 2048, 512)]


async def test_several_in_one_process() -> None:
    async with serve(ram="1MiB") as one, serve(ram="2MiB") as two:
        assert one.ports != two.ports
        assert await holds(one.url) == [(1, 2048, 512)]
        assert await holds(two.url) == [(1, 4096, 512)]


async def test_another_configuration_while_it_runs() -> None:
    target = await serve(TEXT)
    try:
        url = target.url
        port = url.rpartition(":")[0]
        assert port
        more = TEXT + '[[subsystem.namespace]]\nstore = "ram"\nsize = "2MiB"\n'
        await target.apply(more)
        assert target.url == url
        assert len(await holds(url)) == 2
        await target.apply("port = []")
        assert target.ports == []
        with pytest.raises(LookupError, match="no subsystem on an open port"):
            _ = target.url
        assert "without a reachable subsystem" in repr(target)
    finally:
        await target.stop()
    await target.stop()


async def test_its_end_frees_the_port() -> None:
    async with serve(ram="1MiB") as target:
        ((address, port),) = target.ports
        with socket.socket() as one, pytest.raises(OSError) as caught:
            one.bind((address, port))
        assert caught.value.errno == errno.EADDRINUSE
    async with serve(ram="1MiB", trsvcid=port) as target:
        assert target.ports == [(address, port)]


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({}, TypeError, "either a configuration or namespaces"),
        ({"source": TEXT, "ram": "1MiB"}, TypeError, "either a configuration or namespaces"),
        ({"ram": "much"}, ConfigError, "size"),
        ({"ram": "1MiB", "block_size": 520}, ConfigError, "block_size"),
        ({"ram": "1MiB", "device": "tcp"}, ConfigError, "device"),
        ({"source": "port = 7"}, ConfigError, "port"),
        ({"source": Path("/nowhere/target.toml")}, ConfigError, "cannot be read"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        serve(**arguments)


async def test_what_cannot_be_served() -> None:
    with pytest.raises(ServerError, match=r"/nowhere/disk\.img does not exist"):
        await serve(file="/nowhere/disk.img")


def test_what_is_public() -> None:
    assert set(dir(nvmf.target)) == set(nvmf.target.__all__)
    for name in nvmf.target.__all__:
        assert getattr(nvmf.target, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'server'"):
        nvmf.target.server  # noqa: B018


def test_one_room_does_not_load_the_others() -> None:
    program = (
        "import sys, nvmf.target.command.request\n"
        "print(*(n for n in sys.modules if n.startswith('nvmf.target.service')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == ""
