# SPDX-License-Identifier: BSD-3-Clause
"""The log of a served target: one line with fields for each event of hosts."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from nvmf import initiator
from nvmf.initiator import ConnectionLost, NvmeError
from nvmf.initiator.sync import connect
from nvmf.spec import commands
from nvmf.spec.cm import CmRequest
from support.served import PRIVATE_NQN, SUBNQN, TIMEOUT, Served, config
from wire import dhchap
from wire.errors import Rejected
from wire.peer import IwarpPeer

KEY, OTHER = dhchap.key_text(b"k" * 32), dhchap.key_text(b"x" * 32)
KEYED_NQN, HOST = "nqn.2026-11.io.example:keyed", "nqn.2026-11.io.example:host"
OPTIONS: dict[str, Any] = {
    "device": "iwarp", "queues": 1, "connect_timeout": TIMEOUT, "hostnqn": HOST
}  # fmt: skip


class Json(Served):
    """A target whose log has JSON objects."""

    program = (*Served.program, "--log-format", "json")

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Return the complete lines."""
        return [json.loads(line) for line in self.log.split("\n")[:-1]]

    def line(self, words: str, **fields: object) -> dict[str, Any]:
        """Return the first line with these words and fields, after waiting for it."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            for line in self.lines:
                if words in line["message"] and fields.items() <= line.items():
                    return line
            time.sleep(0.02)
        raise AssertionError(f"no line with {words!r} and {fields}:\n{self.log}")

    def url(self, nqn: str = SUBNQN) -> str:
        return f"nvme+rdma://127.0.0.1:{self.port}/{nqn}"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, need_product: None) -> Iterator[Json]:
    folder = tmp_path_factory.mktemp("log")
    disk = folder / "disk.img"
    disk.write_bytes(bytes(1 << 20))
    text = config([f'store="file"\npath="{disk}"'])
    text += f'[[subsystem]]\nnqn="{KEYED_NQN}"\n[[subsystem.host]]\nnqn="{HOST}"\n'
    text += f'dhchap_key="{KEY}"\ndhchap_dhgroups=["null"]\n[metrics]\nenabled=true\nport=0\n'
    with Json(folder, text) as one:
        one.wait_ready()
        yield one
        assert one.end() == 0
        one.check_log()
        for line in one.lines:
            assert {"timestamp", "level", "logger", "message"} <= line.keys()
        for key in (KEY, OTHER):
            assert key[10:30] not in one.log


def test_a_connection_has_a_line_at_each_end(target: Json) -> None:
    with connect(target.url(), **OPTIONS) as controller:
        controller.namespace(1).write(0, bytes(4096))
    ids = {"hostnqn": HOST, "subnqn": SUBNQN, "level": "info"}
    for qid in (0, 1):
        began = target.line(": connected, ", qid=qid, **ids)
        ended = target.line(": closed: ", qid=qid, peer=began["peer"], **ids)
        assert ended["cntlid"] == began["cntlid"]
        assert re.search(r"\(\d+ commands, 0 errors, .* written\)$", ended["message"])
        about = [one for one in target.lines if one.get("peer") == began["peer"]]
        assert len(about) == 2 + (qid == 0) * sum("CSTS" in one["message"] for one in about)


def test_refusals(target: Json) -> None:
    with pytest.raises(NvmeError):
        connect(target.url("nqn.2026-11.io.example:none"), **OPTIONS)
    asked = {"hostnqn": HOST, "subnqn": "nqn.2026-11.io.example:none", "qid": 0}
    line = target.line("Connect refused", status="Connect Invalid Parameters", **asked)
    assert line["level"] == "warning"
    assert f"{line['peer']} host {HOST} queue 0: " in line["message"]
    with pytest.raises(NvmeError):
        connect(target.url(PRIVATE_NQN), **OPTIONS)
    line = target.line("Connect refused", status="Connect Invalid Host", hostnqn=HOST)
    assert HOST in line["message"]
    target.line(": closed before Connect: ", peer=line["peer"], hostnqn=HOST, subnqn=PRIVATE_NQN)
    with pytest.raises(Rejected):
        IwarpPeer.connect(target.address, CmRequest(qid=0x7FFF).encode()).close()
    line = target.line("connection refused", level="warning", status="Invalid Queue ID")
    assert line["peer"].startswith("127.0.0.1:")
    assert line["qid"] == 0x7FFF


def test_errors_and_states(target: Json) -> None:
    """Errors found by the engine itself are logged, at the latest when the queue ends."""
    ids = {"hostnqn": HOST, "subnqn": SUBNQN, "level": "info"}
    with connect(target.url(), **OPTIONS) as controller, pytest.raises(NvmeError):
        disk = controller.namespace(1)  # this would not send it
        sqe = commands.verify(1, 1 << 40, 1)
        controller._loop.call(disk._namespace._run(sqe, "Verify"))  # type: ignore[attr-defined]
    line = target.line(f"Verify of namespace 1 at block {1 << 40} refused", qid=1, nsid=1, **ids)
    assert line["status"] == "LBA Out of Range"
    assert {"peer", "cntlid"} <= line.keys()
    for state in ("ready", "shut down"):
        line = target.line(f": CSTS is now {state}", qid=0, cntlid=line["cntlid"], **ids)
        assert line["message"].startswith(line["peer"])


async def test_a_reservation(target: Json) -> None:
    async with initiator.connect(target.url(), **OPTIONS) as controller:
        await controller.namespace(1).reservations.register(5)
        await controller.namespace(1).reservations.unregister(5)
    line = target.line("namespace 1: 1 registrants, reservation none", hostnqn=HOST, nsid=1)
    assert {"peer", "subnqn", "cntlid"} <= line.keys()


def test_authentication(target: Json) -> None:
    connect(target.url(KEYED_NQN), dhchap_secret=KEY, **OPTIONS).close()
    target.line(": authenticated ", hostnqn=HOST, subnqn=KEYED_NQN, qid=1, level="info")
    with pytest.raises((NvmeError, ConnectionLost)):
        connect(target.url(KEYED_NQN), dhchap_secret=OTHER, **OPTIONS)
    target.line("authentication failed", hostnqn=HOST, subnqn=KEYED_NQN, qid=0, level="warning")


def test_a_store_that_fails(target: Json) -> None:
    with connect(target.url(), **OPTIONS) as controller:
        (target.folder / "disk.img").write_bytes(b"")
        with pytest.raises(NvmeError):
            controller.namespace(1).read(8, 1)
        target.line(f"namespace 1 of {SUBNQN}: Read", level="error", nsid=1)


def test_the_endpoint_counted_it(target: Json) -> None:
    """After the tests above: their counts are in a scrape."""
    found = re.search(r"metrics at http://127.0.0.1:(\d+)/metrics", target.log)
    assert found is not None
    client = HTTPConnection("127.0.0.1", int(found[1]), timeout=TIMEOUT)
    client.request("GET", "/metrics")
    text = client.getresponse().read().decode()
    client.close()
    assert f'nvmeof_namespace_commands_total{{nsid="1",op="write",subsystem="{SUBNQN}"}}' in text
    assert "process_resident_memory_bytes" in text


def test_text_is_for_people(tmp_path: Path, need_product: None) -> None:
    with Served(tmp_path, config()) as one:
        one.wait_ready()
        with connect(f"nvme+rdma://127.0.0.1:{one.port}/{SUBNQN}", **OPTIONS):
            pass
        end = time.monotonic() + TIMEOUT
        while one.log.count(": closed: ") < 2:
            assert time.monotonic() < end, one.log
            time.sleep(0.02)
        said = r"^20\S+ INFO: 127\.0\.0\.1:\d+ controller 1 of .* queue 0: connected, keep"
        assert re.search(said, one.log, re.M)
