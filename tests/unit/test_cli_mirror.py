# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target mirror` and --leg, with a target in a second process."""

from __future__ import annotations

import asyncio
import contextlib
import io
from pathlib import Path

import pytest

from nvmf.auth import Key
from nvmf.cli.main import main
from nvmf.initiator import connect
from nvmf.target.client import connect as connect_rpc
from support.clientlab import url
from support.livelab import A, command, config
from support.mirrorlab import data_of, mirror_text, remotes
from support.replicas import files
from support.served import Served


async def in_sync(served: Served, legs: int) -> None:
    async with connect_rpc(served.rpc_socket) as rpc, asyncio.timeout(60):
        while True:
            (mirror,) = await rpc.mirrors()
            if mirror["state"] == "clean" and len(mirror["legs"]) == legs:
                assert {leg["state"] for leg in mirror["legs"]} == {"in-sync"}
                return
            await asyncio.sleep(0.05)


def text_of(served: Served, *words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["target", *words, "--rpc-socket", str(served.rpc_socket)]) == 0
    return out.getvalue()


async def test_legs_by_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = files(tmp_path, 4, 4 << 20)
    names = [str(path) for path in paths]
    monkeypatch.chdir(tmp_path)
    async with remotes(tmp_path / "legs", 1) as (other,):
        with Served(tmp_path, config()) as served:
            await asyncio.to_thread(served.wait_ready)
            said = await command(
                served, "namespace", "add", A, "--store", "mirror", "--leg", names[0], status=2
            )
            assert "--leg at least twice" in said
            words = ("namespace", "add", A, "-n", "2", "--store", "mirror", "--quorum", "1")
            await command(served, *words, "--leg", names[0], "--leg", f"{other.url}#1")
            await in_sync(served, 2)
            await command(served, "mirror", "add-leg", A, "2", names[1])
            await in_sync(served, 3)
            said = await command(served, "mirror", "add-leg", A, "2", names[1], status=1)
            assert "is already a leg" in said
            said = await command(served, "mirror", "remove-leg", A, "2", "nothing", status=1)
            assert "the mirror has no leg /" in said
            assert "/nothing: it has" in said
            await command(served, "mirror", "replace-leg", A, "2", names[1], names[2])
            await in_sync(served, 3)
            await command(served, "mirror", "remove-leg", A, "2", paths[2].name, "--quorum", "2")
            await in_sync(served, 2)
            said = await command(served, "mirror", "remove-leg", A, "2", names[0], status=1)
            assert "at least two legs" in said
            await command(served, "mirror", "add-leg", A, "2", names[3])
            await in_sync(served, 3)
            await command(served, "mirror", "remove-leg", A, "2", other.url)
            await in_sync(served, 2)
            said = await command(served, "mirror", "replace-leg", A, "2", names[3], other.url)
            assert said["leg"] == {"url": other.url}
            await in_sync(served, 2)
            await command(served, "mirror", "resync", A, "2")
            said = await command(served, "mirror", "resync", A, "1", status=1)
            assert "is no mirror" in said
            shown = await asyncio.to_thread(text_of, served, "mirror", "show")
            assert f"namespace 2 of {A}: clean, quorum 2 of 2" in shown
            assert f"leg {names[0]}: in-sync" in shown
            tree = await asyncio.to_thread(text_of, served, "ls")
            assert "(clean, quorum 2 of 2)" in tree
            assert f"leg {other.name}: in-sync" in tree
            async with connect(url(served.port, A)) as controller:
                await controller.namespace(2).write(0, b"\5" * 4096)
            await command(served, "save")
            text = (tmp_path / "target.toml").read_text()
            assert text.count("[[subsystem.namespace.leg]]") == 2
        with Served(tmp_path, text) as served:  # as it was saved
            await asyncio.to_thread(served.wait_ready)
            await in_sync(served, 2)
            async with connect(url(served.port, A)) as controller:
                assert await controller.namespace(2).read(0, 8) == b"\5" * 4096
            served.check_log()
        await other.stop()
        assert data_of(paths[0]) == data_of(other.path)


async def test_a_leg_that_requires_authentication(tmp_path: Path) -> None:
    """The key of the leg opens it; a wrong one is refused with the reason."""
    local, far, third = files(tmp_path, 3, 4 << 20)
    host = "nqn.2026-11.io.example:writer"
    for name in ("right", "wrong"):
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(Key.generate().text())
    leg = f"""
[[port]]
trsvcid = 0
device = "iwarp"
[[subsystem]]
nqn = "{A}"
[[subsystem.host]]
nqn = "{host}"
dhchap_key_file = "{tmp_path / "right"}"
[[subsystem.namespace]]
store = "file"
path = "{far}"
"""
    (tmp_path / "leg").mkdir()
    (tmp_path / "mirror").mkdir()
    with Served(tmp_path / "leg", leg) as served:
        await asyncio.to_thread(served.wait_ready)
        legs = [f'path = "{local}"', f'path = "{third}"']
        with Served(tmp_path / "mirror", mirror_text(legs)) as mirror:
            await asyncio.to_thread(mirror.wait_ready)
            await in_sync(mirror, 2)
            for name, said in (("wrong", "uthentication"), ("right", "")):
                table = (
                    f'url = "{url(served.port, A)}"\nhostnqn = "{host}"\n'
                    f'dhchap_key_file = "{tmp_path / name}"'
                )
                (tmp_path / "mirror" / "target.toml").write_text(mirror_text([*legs, table]))
                found = await command(mirror, "reload", status=1 if said else 0)
                assert said in str(found)
            await in_sync(mirror, 3)
