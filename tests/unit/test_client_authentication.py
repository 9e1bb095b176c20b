# SPDX-License-Identifier: BSD-3-Clause
"""The client with a served target that requires keys, over real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nvmf.auth import ControllerAuth, Key
from nvmf.cli.main import main
from nvmf.config import loads
from nvmf.engine import EngineError
from nvmf.engine import bench as engine_bench
from nvmf.initiator import AuthenticationError, ConnectOptions, TransportId, connect, sync
from nvmf.initiator.base.options import parse_options
from nvmf.initiator.client.admin import Admin
from nvmf.spec import commands
from nvmf.spec.auth import DhGroup
from nvmf.target.commands import authentication
from nvmf.target.service.server import Server
from nvmf.target.service.starting import serve
from support.clientlab import NQN, RAM, url
from wire import dhchap

HOST = "nqn.2014-08.org.example:keyed"
KEY, CTRL_KEY = dhchap.key_text(b"h" * 48, 2), dhchap.key_text(b"c" * 32, 1)
OTHER = dhchap.key_text(b"x" * 32)
OPTIONS: dict[str, Any] = {
    "device": "iwarp",
    "queues": 2,
    "hostnqn": HOST,
    "connect_timeout": 30.0,
    "ctrl_loss_tmo": 60.0,
}


async def until(reached: Callable[[], bool]) -> None:
    """Wait for a condition that must become true; the time limit ends a hang."""
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(lines: str) -> AsyncIterator[tuple[Server, str]]:
    """Yield a server with a subsystem for one host, and its URL; lines are added to the host's
    table.
    """
    text = f'[[port]]\ntrsvcid = 0\ndevice = "iwarp"\n[[subsystem]]\nnqn = "{NQN}"\n'
    text += f'[[subsystem.host]]\nnqn = "{HOST}"\n{lines}\n[[subsystem.namespace]]\n{RAM}\n'
    server = await serve(loads(text))
    try:
        yield server, url(server.ports[0].address[1])
    finally:
        await server.stop()


BOTH = f'dhchap_key = "{KEY}"\ndhchap_ctrl_key = "{CTRL_KEY}"\n'


@pytest.mark.feature("dhchap", "dhchap-mutual")
@pytest.mark.parametrize("hashed", ["sha256", "sha384", "sha512"])
@pytest.mark.parametrize("group", ["null", "ffdhe2048"])
async def test_one_way_and_both(hashed: str, group: str) -> None:
    lines = f'{BOTH}dhchap_hashes = ["{hashed}"]\ndhchap_dhgroups = ["{group}"]\n'
    async with serving(lines) as (_, where):
        ways: list[tuple[dict[str, Any], str]] = [
            ({}, "one way"), ({"dhchap_ctrl_secret": CTRL_KEY}, "both ways"),
        ]  # fmt: skip
        for more, way in ways:
            async with connect(where, dhchap_secret=KEY, **OPTIONS, **more) as controller:
                assert controller.queues == 2
                disk = controller.namespace(1)
                await disk.write(0, b"\x5a" * 4096)
                assert bytes(await disk.read(0, 8)) == b"\x5a" * 4096
                assert controller.session.authenticator.success.endswith(way)
                assert hashed[3:] in controller.session.authenticator.success


@pytest.mark.feature("dhchap")
@pytest.mark.parametrize("group", [group.title for group in DhGroup if group > 1])
async def test_larger_groups(group: str) -> None:
    async with serving(f'{BOTH}dhchap_dhgroups = ["{group}"]\n') as (_, where):
        options = OPTIONS | {"queues": 1, "dhchap_ctrl_secret": CTRL_KEY}
        async with connect(where, dhchap_secret=KEY, **options) as controller:
            assert group in controller.session.authenticator.success


@pytest.mark.parametrize(
    ("given", "lines", "says"),
    [
        ({"dhchap_secret": OTHER}, BOTH, "controller refused: Authentication failed; check that"),
        (
            {"dhchap_secret": KEY, "dhchap_ctrl_secret": OTHER},
            BOTH,
            "may not be the controller that it claims to be",
        ),
        (
            {"dhchap_secret": KEY, "dhchap_ctrl_secret": CTRL_KEY},
            f'dhchap_key = "{KEY}"',
            "has a controller key for it",
        ),
        ({}, BOTH, "it asks for in-band authentication: give the key"),
        (
            {"dhchap_secret": KEY, "dhchap_ctrl_secret": CTRL_KEY},
            "",
            "does not ask for authentication",
        ),
    ],
)
async def test_refusals(given: dict[str, Any], lines: str, says: str) -> None:
    async with serving(lines) as (server, where):
        with pytest.raises(AuthenticationError) as caught:
            await connect(where, **OPTIONS, **given)
        said = str(caught.value)
        assert says in said
        assert said.startswith(f"{NQN} at 127.0.0.1:")
        assert not any(key[10:40] in said for key in (KEY, CTRL_KEY, OTHER))
        await until(lambda: not server.connections)  # nothing of it remains


@pytest.mark.feature("dhchap-mutual")
async def test_admin_queue_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As nvmet since Linux 7.3: I/O queues do not require authentication, and refuse it."""
    begun = authentication.begin
    queues = 0

    def begin(*arguments: Any) -> ControllerAuth | None:
        nonlocal queues
        queues += 1
        return begun(*arguments) if queues == 1 else None

    monkeypatch.setattr(authentication, "begin", begin)
    options = OPTIONS | {"dhchap_secret": KEY, "dhchap_ctrl_secret": CTRL_KEY}
    async with serving(BOTH) as (server, where), connect(where, **options) as controller:
        disk = controller.namespace(1)
        await disk.write(0, b"\x3c" * 512)
        await controller.reauthenticate()
        assert bytes(await disk.read(0, 1)) == b"\x3c" * 512
        assert queues == 3
        (there,) = server.core.subsystems[NQN].controllers.values()
        assert [queue.authentications for queue in there.queues()] == [2, 0, 0]


async def test_key_that_is_not_asked_for() -> None:
    async with (
        serving("") as (_, where),
        connect(where, dhchap_secret=KEY, **OPTIONS) as controller,
    ):
        assert controller.session.authenticator.success == ""


@pytest.mark.feature("dhchap-again")
async def test_again_under_load(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nvmf.target")
    async with (
        serving(BOTH) as (_, where),
        connect(where, dhchap_secret=KEY, dhchap_ctrl_secret=CTRL_KEY, **OPTIONS) as controller,
    ):
        disk = controller.namespace(1)

        async def load() -> None:
            for lba in range(200):
                await disk.write(lba, bytes([lba]) * 512)

        await asyncio.gather(load(), controller.reauthenticate(), load())
        assert controller.reconnects == 0
        assert bytes(await disk.read(199, 1)) == bytes([199]) * 512
    assert sum("authenticated again" in record.message for record in caplog.records) == 3


@pytest.mark.feature("dhchap-again")
async def test_again_with_a_key_that_has_changed(tmp_path: Path) -> None:
    """The next transaction uses the new key; a host without it is disconnected, and may return."""
    path = tmp_path / "key"
    path.write_text(KEY)
    async with serving(BOTH) as (server, where):
        options = OPTIONS | {"reconnect_delay": 0.05}
        async with connect(where, dhchap_secret_file=str(path), **options) as controller:
            disk = controller.namespace(1)
            await disk.write(0, b"a" * 512)
            keys = server.core.subsystems[NQN].keys
            keys[HOST] = replace(keys[HOST], key=Key.parse(OTHER))
            path.write_text(OTHER)
            with pytest.raises(AuthenticationError, match="queue 0 failed: the controller refused"):
                await controller.reauthenticate()
            await until(lambda: controller.reconnects > 0)
            assert bytes(await disk.read(0, 1)) == b"a" * 512


async def test_stalled(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A host that sends nothing after Connect loses its connection."""
    monkeypatch.setattr("nvmf.auth.controller.STEP_TIMEOUT", 1.0)

    async def silent(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("nvmf.initiator.client.authentication.Authenticator.authenticate", silent)
    assert await _failures() == 1
    (record,) = [r for r in caplog.records if "authentication failed" in r.message]
    assert "no message for" in record.message
    assert "AUTH_Negotiate" in record.message
    assert HOST in record.message


async def test_stalled_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure is counted and logged once, although the host does not ask for its reason."""
    monkeypatch.setattr("nvmf.auth.controller.STEP_TIMEOUT", 1.0)

    async def wrong(_: object, queue: Admin, qid: int) -> None:
        await queue.send(commands.authentication_send(16), "Authentication Send", bytes(16))
        await asyncio.Event().wait()

    monkeypatch.setattr("nvmf.initiator.client.authentication.Authenticator.authenticate", wrong)
    assert await _failures() == 1
    (record,) = [r for r in caplog.records if "authentication failed" in r.message]
    assert "AUTH_Negotiate" in record.message


async def _failures() -> int:
    """Connect until the target has ended the connection; return the failures that it counted."""
    async with serving(BOTH) as (server, where):
        connecting = asyncio.ensure_future(_open(where))
        await until(lambda: server.connections > 0)
        await until(lambda: not server.connections)
        connecting.cancel()
        await asyncio.wait({connecting})
        return server.core.tally.events.authentication_failures


async def _open(where: str) -> None:
    async with connect(where, dhchap_secret=KEY, **OPTIONS):
        pass


async def test_the_native_host_says_that_it_cannot() -> None:
    """fio's engine and bench connect in C."""
    async with serving(BOTH) as (server, _):
        with pytest.raises(EngineError, match="to authenticate, which the fio engine"):
            await asyncio.to_thread(
                engine_bench,
                traddr="127.0.0.1",
                trsvcid=str(server.ports[0].address[1]),
                subnqn=NQN,
                rw="randread",
                block_size=4096,
                queue_depth=1,
                seconds=0.1,
                hostnqn=HOST,
            )


async def test_without_asyncio() -> None:
    def script(where: str) -> str:
        with sync.connect(where, dhchap_secret=KEY, **OPTIONS) as controller:
            controller.reauthenticate()
            return bytes(controller.namespace(1).read(0, 1)).hex()

    async with serving(BOTH) as (_, where):
        assert await asyncio.to_thread(script, where) == "00" * 512


# ---- options and commands ----


def test_options_hide_their_keys(tmp_path: Path) -> None:
    options = ConnectOptions(dhchap_secret=KEY, dhchap_ctrl_secret=CTRL_KEY)
    assert KEY[10:40] not in repr(options)
    assert options.keys() == (Key.parse(KEY), Key.parse(CTRL_KEY))
    (tmp_path / "k").write_text(KEY)
    options = ConnectOptions(dhchap_secret_file=str(tmp_path / "k"))
    assert options.keys() == (Key.parse(KEY), None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"dhchap_secret": "x"}, "dhchap_secret: a DH-HMAC-CHAP key has the form"),
        ({"dhchap_secret": KEY, "dhchap_secret_file": "k"}, "dhchap_secret or dhchap_secret_file"),
        ({"dhchap_ctrl_secret": KEY}, "requires dhchap_secret"),
    ],
)
def test_bad_options(given: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ConnectOptions(**given)  # type: ignore[arg-type]


def test_a_url_carries_no_key() -> None:
    with pytest.raises(ValueError, match="give dhchap_secret_file"):
        parse_options({"dhchap_secret": KEY})
    with pytest.raises(ValueError, match="give dhchap_ctrl_secret_file") as caught:
        TransportId.parse(f"{url(4420)}?dhchap_ctrl_secret={KEY}")
    assert KEY[10:40] not in str(caught.value)
    assert parse_options({"dhchap_secret_file": "k"}) == {"dhchap_secret_file": "k"}


def call(capfd: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    try:
        status = main(args)
    except SystemExit as ending:
        status = int(ending.code or 0)
    return status, *capfd.readouterr()


X = "nqn.2014-08.org.example:x"


def test_gen_dhchap_key(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capfd, "gen-dhchap-key")
    assert status == 0
    assert Key.parse(out).size == 32
    for number, size in (("1", 32), ("2", 48), ("3", 64)):
        status, out, _ = call(capfd, "gen-dhchap-key", "-m", number, "-o", "json")
        found = json.loads(out)
        assert (found["hmac"], found["length"]) == (int(number), size)
        assert Key.parse(found["key"]).hash == int(number)
    status, out, _ = call(capfd, "gen-dhchap-key", "-l", "64")
    assert Key.parse(out).size == 64
    status, out, _ = call(capfd, "gen-dhchap-key", "-m", "1", "-n", X, "-s", "ab" * 32)
    assert out == "DHHC-1:01:oLKvCGus1m19vAPkJRD/Zfk1mLuKi/yx47dPkT1LZeAU4yok:\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("-s", "xy"), "hexadecimal"),
        (("-s", "ab"), "has 1"),
        (("-m", "1", "-l", "64"), "SHA-256 must have 32 bytes"),
        (("-m", "4"), "invalid choice"),
        (("-n", "x" * 300), "223"),
    ],
)
def test_gen_dhchap_key_called_wrongly(
    capfd: pytest.CaptureFixture[str], args: tuple[str, ...], says: str
) -> None:
    status, out, err = call(capfd, "gen-dhchap-key", *args)
    assert (status, out) == (2, "")
    assert says in err


def test_check_dhchap_key(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert call(capfd, "check-dhchap-key", "-k", KEY)[:2] == (
        0,
        "Key is valid (HMAC 2, length 48): transformed by SHA-384\n",
    )
    status, out, _ = call(capfd, "check-dhchap-key", "-k", OTHER, "-o", "json")
    assert json.loads(out) == {"valid": True, "hmac": 0, "length": 32}
    (tmp_path / "k").write_text(KEY)
    (tmp_path / "k").chmod(0o644)
    status, _, err = call(capfd, "check-dhchap-key", "-f", str(tmp_path / "k"))
    assert status == 0
    assert "is world-readable" in err
    status, _, err = call(capfd, "check-dhchap-key", "-k", KEY[:-3] + "A=:")
    assert status == 1
    assert KEY[10:40] not in err
    assert call(capfd, "check-dhchap-key")[0] == 2
