# SPDX-License-Identifier: BSD-3-Clause
"""The Python clients without a target, and with answers that they do not expect."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from nvmf.check import WrongTypeError, checked
from nvmf.json import JSON
from nvmf.target.client import (
    AnswerError,
    AnswerLostError,
    AnswerTimeoutError,
    ClientError,
    NoTargetError,
    RpcError,
    connect,
    connect_sync,
    results,
)


async def test_no_target(tmp_path: Path) -> None:
    path = tmp_path / "none.sock"
    for error in (ConnectionError, ClientError, NoTargetError):
        with pytest.raises(error, match="cannot connect to a target"):
            connect_sync(path)
        with pytest.raises(error, match="cannot connect to a target"):
            await connect(path)


class Impostor:
    """Answers one request with these bytes, and closes the connection."""

    def __init__(self, path: Path, answer: bytes | None) -> None:
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(str(path))
        self.listening.listen()
        self.answer = answer
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with self.listening, self.listening.accept()[0] as peer:
            if peer.recv(1 << 16) and self.answer is not None:
                peer.sendall(self.answer)
            if self.answer is None:
                self.done.wait(60)

    def end(self) -> None:
        self.done.set()
        self.thread.join()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", AnswerLostError),
        (b"SSH-2.0-OpenSSH\n", AnswerError),
        (b'{"jsonrpc": "2.0", "id": 1}\n', AnswerError),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {"version": 7}}\n', AnswerError),
        (b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}}', RpcError),
        (b"[" * 100_000, AnswerError),
    ],
    ids=["nothing", "other", "empty", "type", "error", "deep"],
)
async def test_unexpected_answers(tmp_path: Path, answer: bytes, error: type[Exception]) -> None:
    for number in range(2):
        path = tmp_path / f"{number}.sock"
        impostor = Impostor(path, answer)
        with pytest.raises(error):
            if number:
                async with connect(path) as rpc:
                    await rpc.version()
            else:
                with connect_sync(path) as client:
                    client.version()
        impostor.end()


async def test_no_answer(tmp_path: Path) -> None:
    for number in range(2):
        path = tmp_path / f"{number}.sock"
        impostor = Impostor(path, None)
        with pytest.raises(AnswerTimeoutError, match="it may still complete"):
            if number:
                async with connect(path, timeout=0.1) as rpc:
                    await rpc.version()
            else:
                with connect_sync(path, timeout=0.1) as client:
                    client.version()
        impostor.end()


# ---- types of results ----


ADDRESS: dict[str, JSON] = {
    "trtype": "RDMA", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": "4420",
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (results.Address, {**ADDRESS, "traddr": 1}, "result.traddr is 1, expected str"),
        (results.Address, {"trtype": "RDMA"}, "result has no adrfam, traddr, trsvcid"),
        (results.Address, {**ADDRESS, "more": 1}, "result has the unknown more"),
        (list[results.Address], [ADDRESS, []], r"result\[1\] is \[\], expected an object"),
        (results.Limits, {"iops": True}, "result.iops is True, expected int"),
        (results.KeyFile, None, "result is None, expected an object"),
        (dict[str, int], {"a": "b"}, "result.a is 'b', expected int"),
        (bool, 1, "expected bool"),
    ],
)
def test_wrong_types(kind: type[object], value: JSON, said: str) -> None:
    with pytest.raises(WrongTypeError, match=said):
        checked(kind, value, exact=True)


def test_a_newer_target_may_have_more_fields() -> None:
    assert checked(results.Address, {**ADDRESS, "more": 1})["traddr"] == "127.0.0.1"
    assert checked(results.OpenedPort, {**ADDRESS}, exact=True)
    assert checked(float, 1) == 1
