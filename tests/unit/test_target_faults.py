# SPDX-License-Identifier: BSD-3-Clause
"""The target's log lines when a store fails, and their number."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from nvmf.config import loads
from nvmf.target.change import edit
from nvmf.target.io import faults
from nvmf.target.io.faults import sentence
from nvmf.target.service.server import Server
from nvmf.target.service.starting import serve
from support.fakeengine import FakeEngine, Faulted
from support.faketarget import NQN

TEXT = f"""
[[port]]
trsvcid = 0
device = "iwarp"
[[subsystem]]
nqn = "{NQN}"
[[subsystem.namespace]]
store = "ram"
size = "1MiB"
"""


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
async def server(engine: FakeEngine) -> AsyncIterator[Server]:
    async with serve(loads(TEXT), listening=lambda _: None, engine=engine) as one:
        yield one


async def _fails(engine: FakeEngine) -> None:
    """Make the store of the first namespace fail a command."""
    engine.target.put(Faulted(engine.namespaces[0]))
    for _ in range(5):
        await asyncio.sleep(0)


def _sentences(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.usefixtures("server")
async def test_said_at_once(engine: FakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    """Namespace, command, the status for the host, the system's error, and what to do."""
    await _fails(engine)
    assert _sentences(caplog) == [
        f"namespace 1 of {NQN}: Write of 4096 bytes at byte 8192 failed with Capacity Exceeded:"
        " the ram store: No space left on device; free space on its file system"
    ]
    assert engine.namespaces[0].rearmed == 0, "the engine says no more until the pause is over"


@pytest.mark.usefixtures("server")
async def test_said_again_after_a_pause(
    engine: FakeEngine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "PAUSE", 0.0)
    await _fails(engine)
    assert engine.namespaces[0].rearmed == 1
    engine.namespaces[0].stats["errors"] = 7
    await _fails(engine)
    first, second = _sentences(caplog)
    assert second == f"{first} (7 commands have failed so far)"


async def test_detached_meanwhile(engine: FakeEngine, server: Server) -> None:
    """The pause of a removed namespace ends with it."""
    await _fails(engine)
    await server.edit(lambda config: edit.remove_namespace(config, NQN, 1))
    await _fails(engine)
    assert engine.namespaces[0].closed
    assert engine.namespaces[0].rearmed == 0


@pytest.mark.parametrize(
    ("opcode", "status", "error", "words"),
    [
        (0, 0x0280, errno.EIO, "Flush failed with Write Fault: the ram store: Input/output error"),
        (2, 0x0281, 0, "Unrecovered Read Error: the ram store: no error reported by the system"),
        (1, 0x4006, errno.EPIPE, "Internal Error: the ram store: Broken pipe; see this machine"),
        (8, 0x0020, errno.EROFS, "Write Zeroes of 512 bytes at byte 0 failed"),
    ],
)
def test_sentences(opcode: int, status: int, error: int, words: str) -> None:
    store = SimpleNamespace(kind="ram", path=None)
    fault = SimpleNamespace(
        opcode=opcode, status=status, error=error, offset=0, length=512 if opcode else 0
    )
    assert words in sentence(store, fault, 1)
