# SPDX-License-Identifier: BSD-3-Clause
"""Lines of the log: their forms, their fields, and the limit on lines that a peer can cause."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nvmf.spec.cm import CmRejectError, CmStatus
from nvmf.spec.status import NvmStatus, Status, StatusError
from nvmf.target.logs import limit
from nvmf.target.logs.fields import fields_of
from nvmf.target.logs.formats import JsonFormatter, PrefixFormatter, TextFormatter
from nvmf.target.logs.journal import JournalHandler, is_journal
from nvmf.target.logs.limit import LimitedHandler, source
from nvmf.target.logs.output import LogOutput
from support.faketarget import HOST, NQN, Bench


def line(words: str, *args: object, level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    record = logging.LogRecord("nvmf.target", level, "x.py", 1, words, args, None)
    record.__dict__.update(extra)
    return record


class Kept(logging.Handler):
    """A handler that keeps the records."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


# ---- fields ----


def test_a_queue_brings_its_fields() -> None:
    bench = Bench()
    admin = bench.admin()
    io = bench.io(admin)
    controller = {"peer": "10.0.0.2:1000", "hostnqn": HOST, "subnqn": NQN, "cntlid": 1}
    assert fields_of(line("%s: x", io)) == {**controller, "qid": 1}
    assert fields_of(line("%s: x", admin.controller)) == controller
    assert fields_of(line("%s: x", bench.queue(3))) == {"peer": "10.0.0.2:1000", "qid": 3}


def test_a_refusal_brings_its_status() -> None:
    error = StatusError(Status.CONNECT_INVALID_HOST, "no")
    assert fields_of(line("%s", error)) == {"status": "Connect Invalid Host"}
    of_io = StatusError.from_wire(NvmStatus.COMMAND_SIZE_LIMIT_EXCEEDED, io=True)
    assert fields_of(line("%s", of_io)) == {"status": "Command Size Limit Exceeded"}
    refused = CmRejectError(CmStatus.INVALID_QID, "no")
    found = fields_of(line("%s", refused, peer="[::1]:5", other=1))
    assert found == {"peer": "[::1]:5", "status": "Invalid Queue ID"}
    assert fields_of(line("nothing of it")) == {}


# ---- forms ----


def test_a_host_cannot_write_lines_of_its_own() -> None:
    record = line("%s may not", "nqn.x\nERROR: all is lost\x1b[2J")
    expected = r"nqn.x\nERROR: all is lost\x1b[2J may not"
    assert TextFormatter().format(record) == f"INFO: {expected}"
    assert PrefixFormatter().format(record) == f"<6>{expected}"
    assert "\n" not in JsonFormatter().format(record)


def test_json() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        record = line("it %s", "failed", level=logging.ERROR, cntlid=7)
        record.exc_info = sys.exc_info()
    found = json.loads(JsonFormatter().format(record))
    assert found.pop("timestamp").endswith("+00:00")
    assert found.pop("exception").endswith("ValueError: why")
    assert found == {
        "level": "error", "logger": "nvmf.target", "message": "it failed", "cntlid": 7
    }  # fmt: skip
    assert TextFormatter().format(record).startswith("ERROR: it failed\nTraceback")
    assert all(one.startswith("<3>") for one in PrefixFormatter().format(record).splitlines())


@pytest.fixture
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[socket.socket, str]]:
    path = str(tmp_path_factory.mktemp("j") / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.bind(path)
        ours.settimeout(60)
        yield ours, path


def test_the_journal_gets_fields(
    journal: tuple[socket.socket, str], capsys: pytest.CaptureFixture[str]
) -> None:
    ours, path = journal
    handler = JournalHandler(logging.StreamHandler(sys.stderr), path)
    bench = Bench()
    handler.handle(line("%s: hello\nyou", bench.admin(), level=logging.WARNING))
    raw = ours.recv(65536)
    assert b"PRIORITY=4\nSYSLOG_IDENTIFIER=nvmeof-target\n" in raw
    assert f"NVMEOF_HOSTNQN={HOST}\n".encode() in raw
    assert b"NVMEOF_QID=0\n" in raw
    name, _, rest = raw.partition(b"\n")
    size = int.from_bytes(rest[:8], "little")
    assert (name, rest[8 : 8 + size].endswith(b"hello\nyou")) == (b"MESSAGE", True)
    assert capsys.readouterr().err == ""
    handler.close()


def test_what_the_journal_does_not_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handler = JournalHandler(logging.StreamHandler(sys.stderr), str(tmp_path / "none"))
    handler.handle(line("hello", level=logging.ERROR))
    assert capsys.readouterr().err == "<3>hello\n"
    handler.close()


def test_whether_stderr_is_the_journal(tmp_path: Path) -> None:
    with (tmp_path / "x").open("w") as file:
        found = os.fstat(file.fileno())
        stream = f"{found.st_dev}:{found.st_ino}"
        assert is_journal(file.fileno(), {"JOURNAL_STREAM": stream})
        assert not is_journal(file.fileno(), {"JOURNAL_STREAM": f"{stream}1"})
        assert not is_journal(file.fileno(), {})
    assert not is_journal(-1, {"JOURNAL_STREAM": stream})


def test_the_handlers_before_come_back() -> None:
    root = logging.getLogger()
    before = list(root.handlers)
    with LogOutput("json"):
        assert any(isinstance(one, LimitedHandler) for one in root.handlers)
    assert root.handlers == before


# ---- the limit ----


class Limited:
    """A limited handler, and its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.kept = Kept()
        self.handler = LimitedHandler(self.kept, lambda: self.now)

    def say(self, peer: str | None, count: int, *, wrong: bool = False) -> int:
        """Return how many of count lines are written."""
        before = len(self.kept.lines)
        level = logging.WARNING if wrong else logging.INFO
        extra = {"peer": peer} if peer is not None else {}
        for _ in range(count):
            self.handler.handle(line("hello", level=level, **extra))
        return len(self.kept.lines) - before


def test_a_peer_that_floods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "PEER_BURST", 10)
    limited = Limited()
    assert limited.say("10.0.0.1:1", 25) == 10
    assert limited.say("10.0.0.1:2", 5) == 0, "its port is its own choice"
    assert limited.say("10.0.0.1:1", 3, wrong=True) == 3, "refusals are counted apart"
    assert limited.say("10.0.0.2:1", 3) == 3
    assert limited.say(None, 30) == 30, "what no peer causes is always said"
    limited.now += 1 / limit.PEER_RATE
    assert limited.say("10.0.0.1:1", 5) == 2
    words = "10.0.0.1: 20 lines about it were suppressed: more than 2 per second"
    assert limited.kept.lines[-2:] == [words, "hello"]
    limited.handler.tell()
    limited.handler.tell()
    assert limited.kept.lines[-1].startswith("10.0.0.1: 4 lines about it")
    assert limited.kept.lines[-2] == "hello"


def test_a_namespace_that_is_changed_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines without a peer are counted by their subject."""
    monkeypatch.setattr(limit, "PEER_BURST", 10)
    limited = Limited()
    for nsid in (1, 2):
        for _ in range(25):
            limited.handler.handle(line("reserved", subnqn="nqn.x", nsid=nsid))
    assert len(limited.kept.lines) == 20
    limited.handler.tell()
    words = "namespace 1 of nqn.x: 15 lines about it were suppressed: more than 2 per second"
    assert limited.kept.lines[-2] == words


def test_peers_without_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "PEERS_MOST", 4)
    monkeypatch.setattr(limit, "ALL_BURST", 20)
    limited = Limited()
    written = sum(limited.say(f"10.0.{n // 200}.{n % 200}:1", 1) for n in range(1000))
    assert len(limited.handler._peers) == 4
    assert written == len(limited.kept.lines) == 20
    limited.handler.tell()
    assert limited.kept.lines[-1] == "976 lines about many other peers were suppressed"
    assert len(limited.kept.lines) == 25


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("10.0.0.1:5", "10.0.0.1"),
        ("[2001:db8:1:2:3::4]:5", "2001:db8:1:2::/64"),
        ("[fe80::1%eth0]:5", "fe80::/64"),
        ("[::ffff:10.0.0.1]:5", "::ffff:10.0.0.1"),
        ("10.0.0.1", ""),
        ("", ""),
    ],
)
def test_whom_lines_are_counted_for(peer: str, counted: str) -> None:
    assert source(peer) == counted
