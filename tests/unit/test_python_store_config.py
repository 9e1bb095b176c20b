# SPDX-License-Identifier: BSD-3-Clause
"""Stores written in Python: how configurations name them, and how they are opened and resized."""

from __future__ import annotations

import asyncio
import errno
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nvmf.cli.app import make_parser
from nvmf.cli.main import main
from nvmf.cli.target.quick import quick_config
from nvmf.config import ConfigError, loads
from nvmf.initiator import connect
from nvmf.target import ServerError, register_store, serve, sync
from nvmf.target.change.edit import EditError
from nvmf.target.io.pystore import unregister_store
from nvmf.target.rpc.namespaces import _namespace
from nvmf.target.rpc.socket import RpcSocket
from nvmf.target.service.administration import Administration
from support.clientlab import NQN, OPTIONS, RAM, serving
from support.pystores import SIZE, TEXT, Memory


async def test_a_configuration_names_a_class_or_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("stores_of_a_test")
    module.Memory = Memory  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "stores_of_a_test", module)
    register_store("of-a-test", Memory)
    try:
        for name in ("stores_of_a_test:Memory", "of-a-test"):
            async with (
                serve(TEXT.format(name=name)) as target,
                connect(target.url, device="iwarp") as controller,
            ):
                assert controller.namespaces[0].blocks == 2048
        with pytest.raises(ValueError, match="already a Python store"):
            register_store("of-a-test", Memory)
    finally:
        unregister_store("of-a-test")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent", "no Python store has the name"),
        ("nowhere.at.all:Class", "cannot import the Python store"),
        ("json:Class", "cannot import the Python store"),
        ("os:path", "the Python store os:path is a module, not a class or a function"),
        ("json:loads", "cannot open the python store: TypeError: loads"),
    ],
)
async def test_a_store_that_cannot_be_made(name: str, said: str) -> None:
    with pytest.raises(ServerError, match=said):
        await serve(TEXT.format(name=name))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('store = "python"', "needs python"),
        ('store = "python"\npython = "a b"', "expected a name"),
        ('store = "python"\npython = "a"\npath = "/dev/null"', "has no path"),
        ('store = "null"\nsize = 512\npython = "a"', "python requires"),
        ('store = "null"\nsize = 512\noptions = { a = 1 }', "options requires"),
    ],
)
def test_a_wrong_configuration(line: str, said: str) -> None:
    head = TEXT.partition("store =")[0]
    with pytest.raises(ConfigError, match=said):
        loads(head + line)


async def test_the_size_follows_the_store() -> None:
    store = Memory()
    register_store("grows", lambda: store)
    text = TEXT.format(name="grows").replace("options = { size = 1048576 }", "size = 1048576")
    try:
        async with serve(text) as target, connect(target.url, device="iwarp") as controller:
            disk = controller.namespaces[0]
            assert disk.blocks == 2048
            await target.apply(text.replace("1048576", "2097152"))
            await disk.read(4095, 1)
            with pytest.raises(ServerError, match="it has 4194304 bytes, fewer than"):
                await target.apply(text.replace("1048576", "8388608"))
            await target.apply(text.replace("size = 1048576", ""))
            await disk.read(SIZE // 512 - 1, 1)
    finally:
        unregister_store("grows")


@pytest.mark.parametrize("size", [None, "1MiB", 0, -512, 1.5, 1 << 70])
async def test_a_size_that_is_none(size: object) -> None:
    """A change to it is refused with the reason, and the namespace stays as it is."""
    store = Memory()
    register_store("odd", lambda: store)
    text = TEXT.format(name="odd").replace("options = { size = 1048576 }", "size = 1048576")
    try:
        async with serve(text) as target, connect(target.url, device="iwarp") as controller:
            store.size = size  # type: ignore[assignment]
            with pytest.raises(ServerError, match=r"cannot resize .*: size of odd must be bytes"):
                await target.apply(text.replace("1048576", "2097152"))
            await controller.namespaces[0].read(2047, 1)
    finally:
        unregister_store("odd")


def test_no_class_is_imported_for_the_administration_socket() -> None:
    with pytest.raises(EditError, match="a class cannot be named here"):
        _namespace({"store": "python", "python": "os:system"})
    assert _namespace({"store": "python", "python": "archive"}).python == "archive"


async def test_open_fails() -> None:
    class Shut(Memory):
        async def open(self) -> None:
            raise OSError(errno.ECONNREFUSED, "the archive does not answer")

    with pytest.raises(ServerError, match="the archive does not answer"):
        await serve(store=Shut())


def test_without_asyncio(tmp_path: Path) -> None:
    store = Memory()
    with sync.serve(store=store) as target:
        from nvmf.initiator.sync import connect as connect_sync

        with connect_sync(target.url, device="iwarp") as controller:
            controller.namespaces[0].write(3, b"\7" * 512)
    assert store.bytes[1536:2048] == b"\7" * 512
    assert store.closed == 1


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (Memory, "Memory is a class of stores: give an object of it"),
        (object(), "is not a store"),
        ([Memory(), 4096], "4096 is not a store: its class must be derived"),
    ],
)
def test_what_is_not_a_store(store: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        serve(store=store)


async def test_an_object_is_served_once() -> None:
    async with serve(store=Memory()) as target:
        wrong = target.config.subsystems[0].namespaces[0].model_copy(update={"nsid": 2})
        subsystem = target.config.subsystems[0]
        both = subsystem.model_copy(update={"namespaces": (*subsystem.namespaces, wrong)})
        with pytest.raises(ServerError, match="serves one namespace once"):
            await target.apply(target.config.model_copy(update={"subsystems": (both,)}))
        assert len(target.config.subsystems[0].namespaces) == 1


async def test_a_command_adds_a_registered_store(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sock"

    async def run(*words: str) -> tuple[int, str]:
        argv = ["target", "namespace", *words, "--rpc-socket", str(path)]
        return await asyncio.to_thread(main, argv), capfd.readouterr().err

    register_store("of-a-command", Memory)
    try:
        async with serving(RAM) as (server, where), connect(where, **OPTIONS) as controller:
            administration: asyncio.Future[Administration] = asyncio.Future()
            administration.set_result(Administration(server))
            rpc = RpcSocket(administration, path)
            await rpc.start()
            try:
                store = ("--store", "python", "--python")
                assert await run("add", NQN, *store, "of-a-command") == (0, "")
                async with asyncio.timeout(60):
                    while [one.nsid for one in controller.namespaces] != [1, 2]:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                await controller.namespace(2).write(3, b"x" * 512)
                assert await controller.namespace(2).read(3, 1) == b"x" * 512
                for name, said in (("absent", 'has the name "absent"'), ("json:loads", "a class")):
                    status, err = await run("add", NQN, *store, name)
                    assert (status, said in err) == (1, True), err
                options = ("--option", "size=1048576")
                assert await run("replace", NQN, "1", *store, "of-a-command", *options) == (0, "")
                made = server.config.subsystems[0].namespaces[0]
                assert made.options == {"size": 1 << 20}
                async with asyncio.timeout(60):
                    while controller.namespace(1).blocks != 2048:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                wrong = await run("add", NQN, *store, "of-a-command", "--option", "colour=red")
                assert (wrong[0], "colour" in wrong[1]) == (1, True), wrong
                ram = ("--store", "ram", "--size", "1MiB")
                assert await run("replace", NQN, "2", *ram) == (0, "")
                stores = [one.store for one in server.config.subsystems[0].namespaces]
                assert stores == ["python", "ram"]
            finally:
                await rpc.close()
    finally:
        unregister_store("of-a-command")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--store python", "--store python needs --python NAME"),
        ("--store ram --size 1MiB --python a", "--python NAME requires --store python, not ram"),
        ("--store python --python a --path /x", "--store python has no --path"),
        ("--store ram --size 1MiB --option a=1", "--option KEY=VALUE requires --store python"),
        ("--store python --python a --option a", "'a' is not KEY=VALUE"),
        ("--store python --python a --option 1=a", "'1=a' is not KEY=VALUE"),
    ],
)
def test_a_wrong_command(words: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert _status(["target", "namespace", "add", NQN, *words.split()]) == 2
    assert said in capfd.readouterr().err


def _status(words: list[str]) -> int | str | None:
    try:
        return main(words)
    except SystemExit as end:
        return end.code


def test_serving_a_class_from_the_command_line(capfd: pytest.CaptureFixture[str]) -> None:
    words = (
        'target serve --python a.b:C --option size=1048576 --option name=x"y --option flag=true '
        '--option ratio=0.5 --option text="1" --option list=[1] --option inf=1e999 '
        "--python other -s 4421"
    )
    parser = make_parser("target")
    found = quick_config(parser.parse_args(words.split()))
    assert found is not None
    first, second = found[0].subsystems[0].namespaces
    assert (first.python, second.python, second.options) == ("a.b:C", "other", {})
    assert first.options == {
        "size": 1 << 20, "name": 'x"y', "flag": True, "ratio": 0.5, "text": "1", "list": "[1]",
        "inf": "1e999",
    }  # fmt: skip
    assert _status(["target", "serve", "--option", "a=1"]) == 2
    assert "give it after --python" in capfd.readouterr().err
