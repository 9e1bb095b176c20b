# SPDX-License-Identifier: BSD-3-Clause
"""The Python interface as users see it: signatures, help(), repr, wrong names, warnings."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pydoc
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import nvmf.initiator
from nvmf.cli.app import make_parser
from nvmf.initiator import ConnectOptions, connect, connect_multipath, discover, sync
from nvmf.initiator.base.options import OPTIONS as ABOUT
from nvmf.initiator.hostfiles.model import PARAMETERS
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.multipath import Subsystem
from nvmf.spec.fabrics import DiscoveryEntry
from nvmf.target.change import edit
from support.clientlab import NQN, OPTIONS, RAM, serving, url
from support.multipathrig import STEADY, two_ports

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = [name for name in nvmf.initiator.__all__ if name.islower()]
CONNECTING: list[Callable[..., Any]] = [
    *(getattr(nvmf.initiator, name) for name in FUNCTIONS),
    *(getattr(sync, name) for name in FUNCTIONS),
    Subsystem.add_path,
    sync.Subsystem.add_path,
]
KATO = {"discover": 0, "discovery_log": 0, "discover_all": 0, "find_paths": 0, "watch": 30}
"""Functions with their own default."""


@pytest.mark.parametrize("function", CONNECTING, ids=lambda one: f"{one.__module__}.{one.__name__}")
def test_every_option_is_a_keyword(function: Callable[..., Any]) -> None:
    """In the order, with the types and the defaults of ConnectOptions."""
    parameters = inspect.signature(function).parameters
    kinds = {one.kind for one in parameters.values()}
    assert kinds <= {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY} | (
        {inspect.Parameter.POSITIONAL_OR_KEYWORD} if "self" in parameters else set()
    )
    names = [item.name for item in fields(ConnectOptions)]
    assert [name for name in parameters if name in names] == names
    for item in fields(ConnectOptions):
        found = parameters[item.name]
        default = KATO.get(function.__name__, item.default) if item.name == "kato" else item.default
        assert found.annotation == item.type
        assert found.default == default
        assert repr(found.default) == repr(default) or item.name == "kato"
    assert function.__doc__


@pytest.mark.parametrize("function", CONNECTING, ids=lambda one: f"{one.__module__}.{one.__name__}")
def test_wrong_names(function: Callable[..., Any]) -> None:
    needed = 2 if "self" in inspect.signature(function).parameters else 1
    with pytest.raises(TypeError, match="unexpected keyword argument 'quues'"):
        function(*[url(1)] * needed, quues=3)


def test_what_counts_first() -> None:
    """A keyword has precedence, even if it is the default; then the URL; then the object."""
    place = url(1) + "?queues=7&in_capsule=no"
    seen: list[ConnectOptions] = []

    async def stop(_: object, wanted: ConnectOptions) -> None:
        seen.append(wanted)
        raise ConnectionError

    async def main() -> None:
        for given in ({}, {"queues": ConnectOptions().queues}, {"in_capsule": True}):
            with pytest.raises(ConnectionError):
                await connect(place, ConnectOptions(queues=9, kato=3), **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nvmf.initiator.connecting.connect.connect_controller", stop)
        asyncio.run(main())
    assert [(one.queues, one.in_capsule, one.kato) for one in seen] == [
        (7, False, 3),
        (ConnectOptions().queues, False, 3),
        (7, True, 3),
    ]


def flags_of(command: str) -> set[str]:
    """Return all flags of a command."""
    parser = make_parser(command)
    (commands,) = [one.choices for one in parser._actions if isinstance(one.choices, dict)]
    return {flag for one in commands[command]._actions for flag in one.option_strings}


def test_names_of_an_option_elsewhere() -> None:
    """Flags, kernel option names and keys of host files all exist."""
    client, kernel = flags_of("read"), flags_of("connect")
    words = {item.name for item in fields(FabricsOptions)}
    for name, option in ABOUT.items():
        assert option.doc.endswith("."), name
        assert option.brief, name
        if not option.kernel_only:
            assert set(option.flags) <= client, name
        if option.word:
            assert {*option.flags, *option.kernel_flags} <= kernel, name
        assert not option.word or option.word in words, name
        assert not option.key or option.key in PARAMETERS, name
        assert f"\n    {name} (" in (ConnectOptions.__doc__ or "")


def test_help_is_short() -> None:
    text = pydoc.plain(pydoc.render_doc(nvmf.initiator))
    lines = text.splitlines()
    assert len(lines) < 160
    members = text[text.index("\nFUNCTIONS\n") :]
    for name in FUNCTIONS:
        assert f"    {name}(" in members or f"    async {name}(" in members
    for private in ("importlib", "TYPE_CHECKING", "_PLACES", "annotations", "__getattr__"):
        assert private not in members
    for name in nvmf.initiator.__all__:
        assert name in text, "each is named, with a word about it"
    assert set(dir(nvmf.initiator)) == set(FUNCTIONS)


def test_mypy(tmp_path: Path) -> None:
    """A user's script: types are known, and wrong names and types are errors."""
    script = tmp_path / "script.py"
    script.write_text("""\
from nvmf.initiator import connect, connect_multipath, discover, sync

URL = "nvme+rdma://192.0.2.1"

async def main() -> None:
    async with connect(URL, queues=2, kato=1.5) as controller:
        reveal_type(controller)
        reveal_type(await controller.namespace(1).pread(10, 3))
        with controller.on_event(print):
            pass
    async with connect(URL, backend="kernel") as kernel:
        reveal_type(kernel)
    async with connect_multipath([URL], policy="numa") as subsystem:
        reveal_type(subsystem.namespace(1))
    discover(URL, queue_depth="x")
    connect(URL, quues=2)

with sync.connect(URL, host_traddr=None) as found:
    reveal_type(found.namespace(1).open("rb"))
sync.connect(URL, quues=2)
reveal_type(sync.connect_multipath([URL]))
""")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", script],
        cwd=ROOT, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    said = [line.partition("script.py:")[2] for line in done.stdout.splitlines()]
    room = "nvmf.initiator"
    expected = [
        f'7: note: Revealed type is "{room}.client.controller.Controller"',
        '8: note: Revealed type is "bytes"',
        f'12: note: Revealed type is "{room}.kernel.controller.KernelController"',
        f'14: note: Revealed type is "{room}.multipath.namespace.MultipathNamespace"',
        '15: error: Argument "queue_depth" to "discover" has incompatible type "str"',
        '16: error: No overload variant of "connect" matches argument types "str", "int"',
        f'19: note: Revealed type is "{room}.sync.file.NamespaceFile"',
        '20: error: Unexpected keyword argument "quues" for "connect"',
        f'21: note: Revealed type is "{room}.sync.subsystem.Subsystem"',
    ]
    for line in expected:
        assert any(found.startswith(line) for found in said), (line, done.stdout, done.stderr)
    lines = {found.split(":")[0] for found in said if ": error:" in found}
    assert lines == {"15", "16", "20"}, done.stdout


@pytest.mark.parametrize(
    "make",
    [lambda: connect(url(1)), lambda: connect_multipath([url(1)])],
    ids=["connect", "connect_multipath"],
)
def test_forgotten(make: Callable[[], object]) -> None:
    """A missing await causes a warning with its location."""
    pending = make()
    assert repr(pending).startswith("<Pending connect")
    assert repr(pending).endswith(", not awaited yet>")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del pending
        gc.collect()
    (warning,) = caught
    assert warning.category is RuntimeWarning
    words = rf"connect.*{NQN}.* at .*test_client_api.py:\d+ was neither awaited"
    assert re.match(words, str(warning.message))


async def test_not_forgotten() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with serving(RAM) as (_, where):
            async with connect(where, **OPTIONS):
                pass
            await (await connect(where, **OPTIONS)).close()
            gc.collect()


async def test_repr() -> None:
    async with two_ports(RAM) as lab, connect_multipath(lab.urls, **STEADY) as subsystem:
        assert repr(subsystem) == f"<Subsystem {NQN} by 2 paths, live>"
        assert repr(subsystem.namespace(1)) == "<Namespace 1 of 16384 blocks of 512 bytes>"
        assert repr(subsystem.paths[0]) == f"<Path 127.0.0.1:{lab.services[0]} live>"
        where = f"{NQN} at 127.0.0.1:{lab.services[0]}"
        async with connect(lab.urls[0], **OPTIONS) as controller:
            assert repr(controller) == f"<Controller {where}, live>"
        assert repr(controller) == f"<Controller {where}, closed>"
        with subsystem.register(bytearray(5)) as borrowed, subsystem.alloc(4096) as memory:
            assert repr(borrowed) == "<BorrowedMemory 5 bytes>"
            assert repr(memory) == "<KernelMemory 4096 bytes>"
        with pytest.raises(ValueError, match=f"memory to allocate has 1 to .* not {1 << 70}"):
            subsystem.alloc(1 << 70)
        assert repr(borrowed) == "<BorrowedMemory closed>"
        assert repr(memory) == "<KernelMemory closed>"
        *_, entry = await discover(lab.urls[0], device="iwarp")
        at = f"rdma '127.0.0.1' port '{entry.trsvcid}', portid {entry.portid}"
        assert repr(entry) == f"<DiscoveryEntry nvme '{NQN}' at {at}>"
    assert repr(DiscoveryEntry(trtype=77, subtype=9)).startswith("<DiscoveryEntry 9 '' at 77 ''")


async def test_events_until_they_are_unsubscribed() -> None:
    async with serving(RAM) as (server, where), connect(where, **OPTIONS) as controller:
        seen: list[str] = []
        came = asyncio.Event()
        first = controller.on_event(lambda _: seen.append("first"))
        with controller.on_event(lambda _: seen.append("second")) as second:
            again = controller.on_event(seen.append)
            controller.on_event(lambda _: came.set())
            assert repr(again) == "<Subscription of list.append>"
            again()
            again()
            assert repr(again) == "<Subscription of list.append, ended>"
            await server.edit(lambda config: edit.remove_namespace(config, NQN, 1))
            async with asyncio.timeout(60):
                await came.wait()
            assert seen == ["first", "second"]
        assert repr(second).endswith(", ended>")
        first()
        assert len(controller._callbacks) == 1
