# SPDX-License-Identifier: BSD-3-Clause
"""A target inside a program: its start, its namespaces, and the state after its end."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import nvmf.target
from nvmf.auth import HostKeys
from nvmf.config import ConfigError, loads
from nvmf.config.models import SubsystemConfig
from nvmf.initiator import connect
from nvmf.target import ServerError, serve
from nvmf.target.io.stores import read_keys
from nvmf.target.service import server

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


def slow_keys(monkeypatch: pytest.MonkeyPatch, seconds: float) -> asyncio.Event:
    """Reading keys takes this long; the event is set when it begins."""
    began, loop = asyncio.Event(), asyncio.get_running_loop()

    def slow(config: SubsystemConfig) -> dict[str, HostKeys]:
        loop.call_soon_threadsafe(began.set)
        time.sleep(seconds)
        return read_keys(config)

    monkeypatch.setattr("nvmf.target.change.apply.read_keys", slow)
    return began


PORT = f'[[port]]\ntrsvcid = {{}}\ndevice = "iwarp"\n{{}}{TEXT}'
SECOND = '[[subsystem]]\nnqn = "nqn.2026-11.io.example:second"\nallow_any_host = true\n'


@pytest.mark.parametrize(
    "space", ["", '[[subsystem.namespace]]\nstore = "ram"\nsize = "1MiB"'], ids=["port", "store"]
)
async def test_a_change_that_outlasts_the_target(
    space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails with the documented exception, and leaves no port open."""
    monkeypatch.setattr(server, "_CHANGE_TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    target = await serve(TEXT)
    began = slow_keys(monkeypatch, 1.5)
    change = asyncio.create_task(target.apply(f"{PORT.format(number, '')}{SECOND}{space}"))
    await began.wait()
    await target.stop()
    with pytest.raises(ServerError, match="the target is stopping"):
        await change
    with socket.create_server(("127.0.0.1", number)):
        pass


async def test_a_change_while_the_target_stops_watches_no_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = await serve(TEXT)
    began = slow_keys(monkeypatch, 0.2)
    absent = PORT.format(4420, 'traddr = "203.0.113.1"\nhotplug = true\n')
    change = asyncio.create_task(target.apply(f"{absent}{SECOND}"))
    await began.wait()
    before = asyncio.all_tasks()
    await target.stop()
    await change
    assert asyncio.all_tasks() <= before
