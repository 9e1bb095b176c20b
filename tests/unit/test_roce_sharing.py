# SPDX-License-Identifier: BSD-3-Clause
"""Several processes with the embedded RoCEv2 device on one address."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from nvmf.config.models import Config
from nvmf.doctor import roce
from nvmf.doctor.machine import Level, Machine
from nvmf.initiator import ConnectError, connect
from nvmf.target import ServerError, serve
from support.roce import own_address

OPTIONS: dict[str, Any] = {"device": "roce", "queues": 1, "connect_timeout": 60.0}
SERVE = """
import asyncio, sys
from nvmf.target import serve
async def main():
    where = {"traddr": sys.argv[1], "trsvcid": int(sys.argv[2])}
    async with serve(ram="4MiB", device="roce", **where) as target:
        print(target.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


class Other:
    """A target in another process."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process, self.url = process, url

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@contextlib.asynccontextmanager
async def other(address: str, port: int = 0) -> AsyncIterator[Other]:
    """Serve in another process, which ends by itself with this context."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVE, address, str(port)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode().strip()
        assert line, "the other process did not start"
        yield Other(process, line)
    finally:
        await process.communicate(b"")  # the end of its input


async def exchange(controller: Any, seed: int) -> None:
    for size in (512, 4096, 131072):
        data = bytes([seed]) * size
        await controller.namespaces[0].write(seed * 256, data)
        assert await controller.namespaces[0].read(seed * 256, size // 512) == data


async def once(url: str, seed: int = 1) -> None:
    async with connect(url, **OPTIONS) as controller:
        await exchange(controller, seed)


async def test_targets_on_one_address() -> None:
    address = own_address()
    async with other(address) as one, other(address) as two, other(address) as three:
        urls = one.url, two.url, three.url
        async with contextlib.AsyncExitStack() as stack:
            hosts = [await stack.enter_async_context(connect(url, **OPTIONS)) for url in urls]
            await asyncio.gather(*(exchange(host, n) for n, host in enumerate(hosts)))


async def test_a_target_and_clients_on_one_address() -> None:
    """IPv6 has one loopback address, which all processes share."""
    async with other("::1") as target:
        await asyncio.gather(*(once(target.url, seed) for seed in range(3)))
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "nvmf.cli.main", "id-ctrl", target.url, "--device", "roce"),
            stdout=subprocess.PIPE,
        )
        async with connect(target.url, **OPTIONS) as controller:
            await exchange(controller, 4)
            await client.communicate()
            await exchange(controller, 5)
        assert client.returncode == 0


@pytest.mark.parametrize("which", ["founder", "second", "third"])
async def test_one_that_dies_takes_nobody_with_it(which: str) -> None:
    address = own_address()
    async with contextlib.AsyncExitStack() as stack:
        targets = {
            name: await stack.enter_async_context(other(address))
            for name in ("founder", "second", "third")
        }
        hosts = {
            name: await stack.enter_async_context(connect(target.url, **OPTIONS))
            for name, target in targets.items()
            if name != which
        }
        for host in hosts.values():
            await exchange(host, 1)
        await targets[which].kill()
        for host in hosts.values():
            await exchange(host, 2)
        # another process can use its port, and no one else has lost a port
        port = int(targets[which].url.rpartition("/")[0].rpartition(":")[2])
        async with other(address, port) as again:
            await once(again.url)
            for name in hosts:
                await once(targets[name].url)
            for host in hosts.values():
                await exchange(host, 3)


async def test_all_come_and_go() -> None:
    """The address is free once the last process has ended, in whatever order they end."""
    address = own_address()
    for _ in range(3):
        async with contextlib.AsyncExitStack() as stack:
            async with other(address) as founder:
                second = await stack.enter_async_context(other(address))
                await once(founder.url)
            third = await stack.enter_async_context(other(address))
            await once(second.url)
            await once(third.url)


async def test_a_service_belongs_to_one_process() -> None:
    address = own_address()
    async with other(address) as target:
        port = int(target.url.rpartition("/")[0].rpartition(":")[2])
        with pytest.raises(ServerError, match="in use"):
            await serve(ram="1MiB", device="roce", traddr=address, trsvcid=port)
        await once(target.url)


async def test_nobody_listens_on_a_port_of_a_shared_address() -> None:
    address = own_address()
    async with other(address) as one, other(address):
        host, _, nqn = one.url.rpartition("/")
        with pytest.raises(ConnectError, match="REJECTED"):
            await once(host.rpartition(":")[0] + ":1/" + nqn)
        await one.kill()  # another member refuses from then on, once one of them has changed
        async with other(address):
            with pytest.raises(ConnectError, match="REJECTED"):
                await once(host.rpartition(":")[0] + ":1/" + nqn)


async def test_all_start_at_once() -> None:
    """The first process founds the group; the others join it."""
    address = own_address()
    async with contextlib.AsyncExitStack() as stack:
        others = [stack.enter_async_context(other(address)) for _ in range(4)]
        targets = await asyncio.gather(*others)
        await asyncio.gather(*(once(target.url) for target in targets))


async def test_wildcards_at_once() -> None:
    """Each process founds the groups of some addresses, and joins those of others."""
    async with contextlib.AsyncExitStack() as stack:
        others = [stack.enter_async_context(other("0.0.0.0")) for _ in range(3)]
        targets = await asyncio.gather(*others)
        for target in targets:
            await once(target.url.replace("0.0.0.0", "127.0.0.1"))


async def test_doctor_says_who_shares() -> None:
    address = own_address()
    port = {"traddr": address, "trsvcid": 4420, "device": "roce"}
    wanted = Config.model_validate({"port": [port]})
    async with other(address) as one:
        found = next(iter(roce.addresses(Machine(), wanted)))
        assert found.level is Level.OK
        assert f"is in use by process {one.process.pid} (" in found.text
        assert "which shares it with this user's" in found.text
        async with other(address) as two:
            found = next(iter(roce.addresses(Machine(), wanted)))
            assert "is in use by processes " in found.text
            assert all(f"{each.process.pid} (" in found.text for each in (one, two))
            assert "which share it with this user's" in found.text


def listed() -> set[str]:
    with open("/proc/net/unix") as lines:
        return {line.split()[-1] for line in lines if f"@nvmf-roce.{os.geteuid()}." in line}


async def test_the_names_go_with_the_port() -> None:
    address = own_address()
    async with serve(ram="1MiB", device="roce", traddr=address):
        assert f"@nvmf-roce.{os.geteuid()}.{address}" in listed()
    assert f"@nvmf-roce.{os.geteuid()}.{address}" not in listed()
