# SPDX-License-Identifier: BSD-3-Clause
"""A served target is changed while hosts write and verify: by commands, SIGHUP and bad files."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nvmf.initiator import ConnectionLost, Controller, NvmeError, connect
from nvmf.initiator.base.errors import ConnectError
from support.clientlab import OPTIONS, url
from support.livelab import H1, H2, HANG, A, B, busy, command, config, run
from support.served import Served

TARGET_CONFIG = f"# mine\n{config()}"


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(HANG):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def rewrite(served: Served, text: str) -> None:
    (served.folder / "target.toml").write_text(text)


async def hang_up(served: Served, sign: str) -> None:
    """Send SIGHUP, and wait until the log has the result."""
    before = served.log.count(sign)
    served.process.send_signal(signal.SIGHUP)
    await until(lambda: served.log.count(sign) > before)


@asynccontextmanager
async def host(served: Served, nqn: str = A, **options: Any) -> AsyncIterator[Controller]:
    async with connect(url(served.port, nqn), **{**OPTIONS, **options}) as controller:
        yield controller


async def seen(controller: Controller, *nsids: int) -> None:
    """Wait until the host knows these namespaces, by the target's events alone."""
    await until(lambda: [space.nsid for space in controller.namespaces] == list(nsids))


def identifiers(served: Served) -> list[str]:
    """UUIDs of the first subsystem's namespaces."""
    (found,) = [s for s in run(served, "ls")["subsystems"] if s["nqn"] == A]
    return [space["uuid"] for space in found["namespaces"]]


@pytest.mark.feature("live", "resize", "masks")
async def test_namespaces_by_command(served: Served, tmp_path: Path) -> None:
    """Added, resized, replaced, masked, removed: the host sees each change, and its I/O
    continues.
    """
    disk = tmp_path / "disk.img"
    disk.write_bytes(bytes(1 << 20))
    async with host(served, hostnqn=H1) as one, host(served, hostnqn=H2) as two, busy(one):
        added = await command(
            served, "namespace", "add", A, "--store", "file", "--path", disk, "--block-size", 512
        )
        assert added == {"nqn": A, "nsid": 2}
        await seen(one, 1, 2)
        await seen(two, 1, 2)
        await one.namespace(2).write(0, b"x" * 512)
        assert (await two.namespace(2).read(0, 1))[:1] == b"x"

        os.truncate(disk, 2 << 20)
        assert (await command(served, "namespace", "resize", A, 2))["size"] == 2 << 20
        await until(lambda: one.namespace(2).blocks == 4096)

        await command(served, "namespace", "mask", A, 2, "--host", H1)
        await seen(two, 1)
        assert (await one.namespace(2).read(0, 1))[:1] == b"x"
        await command(served, "namespace", "mask", A, 2, "--all")
        await seen(two, 1, 2)
        assert (await two.namespace(2).read(0, 1))[:1] == b"x"

        before = identifiers(served)
        await command(served, "namespace", "replace", A, 2, "--store", "ram", "--size", "1MiB")
        await until(lambda: one.namespace(2).blocks == 2048)
        assert identifiers(served) == before
        assert (await one.namespace(2).read(0, 1))[:1] == b"\0"

        await command(served, "namespace", "remove", A, 2)
        await seen(one, 1)
        await seen(two, 1)


@pytest.mark.feature("atomic")
async def test_conflicts_change_nothing(served: Served) -> None:
    before = run(served, "ls")
    ram = ("--store", "ram", "--size", "1MiB")
    for args, said in (
        (("namespace", "add", A, *ram, "-n", 1), f"namespace 1 already exists in {A}"),
        (("namespace", "add", A, *ram, "-n", 99), "above max_namespaces"),
        (("namespace", "add", f"{A}x", *ram), f"there is no subsystem {A}x"),
        (("namespace", "add", A, "--store", "file", "--path", "/nowhere"), "/nowhere"),
        (("namespace", "remove", A, 5), "there is no namespace 5"),
        (("namespace", "resize", A, 1, "1GiB"), "cannot grow"),
        (("subsystem", "add", A), f"subsystem {A} already exists"),
        (("host", "allow", B, H1), "is already allowed"),
        (("host", "remove", B, f"{H1}x"), "is not an allowed host"),
        (("port", "add", "-a", "192.0.2.1", "--device", "iwarp"), "192.0.2.1"),
        (("port", "add", "-a", "192.0.2.1", "--hotplug"), "what to wait for"),
        (("namespace", "add", A, *ram, "--hotplug"), "hotplug requires path"),
    ):
        sentence = run(served, *args, status=1)
        assert said in sentence
        assert run(served, "ls") == before


@pytest.mark.feature("rpc", "allow-list")
async def test_hosts_and_ports_by_command(served: Served) -> None:
    """A host that is no longer allowed is disconnected; a second one is unaffected."""
    quick: dict[str, Any] = {"reconnect_delay": 0.05, "ctrl_loss_tmo": 0.2}
    async with host(served, A) as bystander, busy(bystander):
        async with host(served, B, hostnqn=H1) as stays, busy(stays):
            async with host(served, B, hostnqn=H2, **quick) as goes:
                await command(served, "host", "remove", B, H2)
                with pytest.raises((ConnectionLost, NvmeError, ConnectError)):
                    async with asyncio.timeout(HANG):
                        while True:
                            await goes.namespace(1).read(0, 1)
            await command(served, "host", "allow", B, H2)
            async with host(served, B, hostnqn=H2) as again:
                await again.namespace(1).read(0, 1)
        opened = await command(
            served, "port", "add", "-a", "127.0.0.1", "-s", 0, "--device", "iwarp"
        )
        place = url(int(opened["trsvcid"]), A)
        async with connect(place, **OPTIONS, **quick) as by_port:
            await by_port.namespace(1).read(0, 1)
            await command(served, "port", "remove", "-a", "127.0.0.1", "-s", opened["trsvcid"])
            with pytest.raises((ConnectionLost, NvmeError, ConnectError)):
                async with asyncio.timeout(HANG):
                    while True:
                        await by_port.namespace(1).read(0, 1)


@pytest.mark.feature("rpc")
async def test_the_last_port_goes_and_comes(served: Served) -> None:
    """A target without a port continues: its hosts are disconnected, and connect again later."""
    place = ("-a", "127.0.0.1", "-s", served.port)
    async with host(served, A, reconnect_delay=0.05, ctrl_loss_tmo=HANG) as one:
        await one.namespace(1).write(0, bytes([7]) * 512)
        await command(served, "port", "remove", *place)
        assert (await command(served, "ls"))["ports"] == []
        await command(served, "save")
        assert "port = []" in (served.folder / "target.toml").read_text()
        await command(served, "port", "add", *place, "--device", "iwarp")
        async with asyncio.timeout(HANG):
            assert await one.namespace(1).read(0, 1) == bytes([7]) * 512


async def test_what_is_waited_for(served: Served, tmp_path: Path) -> None:
    """With --hotplug a missing file is not an error: its namespace is added and removed with it."""
    disk, missing = tmp_path / "later.img", "No such file or directory"
    place = ("-a", "192.0.2.1", "-s", 4420)
    opened = await command(served, "port", "add", *place, "--device", "iwarp", "--hotplug")
    assert (opened["traddr"], opened["trsvcid"]) == ("192.0.2.1", "4420")
    assert "no interface of this machine has that address" in opened["absent"]
    file = ("namespace", "add", A, "--store", "file", "--path", disk, "--hotplug")
    assert await command(served, *file) == {"nqn": A, "nsid": 2, "absent": missing}
    await command(served, "save")
    text = (served.folder / "target.toml").read_text()
    assert text.count("hotplug = true") == 2
    async with host(served, A) as one, busy(one):
        await seen(one, 1)
        disk.write_bytes(bytes(1 << 20))
        await seen(one, 1, 2)
        assert await one.namespace(2).read(0, 1) == bytes(512)
        disk.unlink()
        await seen(one, 1)
    # It waits for nothing now, and its replacement needs no hotplug.
    ram = ("--store", "ram", "--size", "1MiB")
    await command(served, "namespace", "replace", A, 2, *ram)
    await command(served, "port", "remove", *place)
    tree = await command(served, "ls")
    assert len(tree["ports"]) == 1
    assert not any(one.get("absent_namespaces") for one in tree["subsystems"])


@pytest.mark.feature("reload")
async def test_reload_by_difference(served: Served) -> None:
    """A file that adds, removes and changes: hosts outside of these changes are not affected."""
    done = "reloaded "
    second = '[[subsystem.namespace]]\nnsid = 2\nstore = "ram"\nsize = "1MiB"\n'
    async with host(served, A) as one, host(served, B, hostnqn=H1) as two, busy(one), busy(two):
        rewrite(served, config(a=second, more=f'[[subsystem]]\nnqn = "{A}c"\n'))
        await hang_up(served, done)
        await seen(one, 1, 2)
        rewrite(served, config(a=second.replace('"1MiB"', '"512KiB"')))
        await hang_up(served, done)
        await until(lambda: one.namespace(2).blocks == 1024)
        rewrite(served, config(b=second))
        await hang_up(served, done)
        await seen(one, 1)
        await seen(two, 1, 2)
        rewrite(served, f"[target]\nreactors = 2\n{config()}")
        await hang_up(served, "[target] changed (reactors) but is read only at start")
        await seen(two, 1)
        (tree,) = [s for s in run(served, "ls")["subsystems"] if s["nqn"] == A]
        assert len(tree["controllers"]) == 1


@pytest.mark.feature("reload", "atomic")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (config()[: len(config()) // 2], "is not TOML"),
        ("", "is empty"),
        ("\n# mine\n\n", "is empty"),
        (config() + "[[subsystem]]\n", "nqn: is missing"),
        (config() + f'[[subsystem]]\nnqn = "{A}"\n', "duplicate subsystem nqn"),
        (config() + '[[subsystem.namespace]]\nstore = "file"\npath = "none.img"\n', "none.img"),
        (config() + '[[port]]\ntraddr = "192.0.2.1"\ndevice = "iwarp"\n', "192.0.2.1"),
        ("\udcff", "is not UTF-8"),
        ("a = " + "[" * 100_000, "cannot be read as TOML"),
        ("a = " + "9" * 5000, "cannot be read as TOML"),
    ],
)
async def test_bad_files(served: Served, text: str, said: str) -> None:
    """The configuration in force remains, and the answer says so."""
    before = run(served, "ls")
    path = served.folder / "target.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    async with host(served) as one, busy(one):
        await hang_up(served, "the configuration is unchanged")
        assert said in served.log.rpartition("the configuration is unchanged")[2]
        assert said in await command(served, "reload", status=1)
    before_without = [{**s, "controllers": []} for s in before["subsystems"]]
    after = run(served, "ls")
    assert [{**s, "controllers": []} for s in after["subsystems"]] == before_without
    assert after["ports"] == before["ports"]


@pytest.mark.feature("reload", "atomic", "resize")
async def test_memory_is_not_cut_for_a_change_that_fails(served: Served) -> None:
    """Data after a smaller end is lost, so resizing follows all steps that can fail."""
    smaller = config().replace('size = "4MiB"', 'size = "1MiB"')
    async with host(served) as one:
        disk = one.namespace(1)
        last = disk.blocks - 1
        await disk.write(last, b"x" * disk.block_size)
        rewrite(served, smaller + '[[port]]\ntraddr = "192.0.2.1"\ndevice = "iwarp"\n')
        assert "192.0.2.1" in await command(served, "reload", status=1)
        assert await disk.read(last, 1) == b"x" * disk.block_size
        rewrite(served, smaller)
        await command(served, "reload")
        await until(lambda: one.namespace(1).size == 1 << 20)
        rewrite(served, config())
        await command(served, "reload")
        await until(lambda: one.namespace(1).size == 4 << 20)
        assert await one.namespace(1).read(last, 1) == bytes(disk.block_size)


@pytest.mark.feature("save")
async def test_saved(served: Served) -> None:
    """Changes by command are in the file, with the comment; a file edited meanwhile is kept."""
    path = served.folder / "target.toml"
    run(served, "namespace", "add", A, "--store", "ram", "--size", "1MiB")
    run(served, "save")
    text = path.read_text()
    assert text.startswith("# mine\n")
    assert text.count("[[subsystem.namespace]]") == 3
    assert run(served, "reload")["changed"] == "nothing to do"
    path.write_text(text + "# theirs\n")
    run(served, "namespace", "remove", A, 2)
    assert "was changed after the target read it" in run(served, "save", status=1)
    run(served, "save", "--force")
    assert path.read_text().count("[[subsystem.namespace]]") == 2
    assert path.read_text().endswith("# theirs\n")


def test_nobody_there(tmp_path: Path, need_product: None) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nvmf.cli.main", "target", "ls", "--rpc-socket", "none.sock"],
        capture_output=True, timeout=HANG, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert b"cannot connect to a target at none.sock" in done.stderr


def test_slow_clients_cost_nobody(served: Served) -> None:
    """An incomplete request may take any time; other clients are answered meanwhile."""
    import socket

    with socket.socket(socket.AF_UNIX) as slow:
        deadline = time.monotonic() + HANG
        while not served.rpc_socket.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        slow.connect(str(served.rpc_socket))
        slow.sendall(b'{"jsonrpc"')
        for _ in range(3):
            assert len(run(served, "ls")["subsystems"]) == 3
