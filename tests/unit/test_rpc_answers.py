# SPDX-License-Identifier: BSD-3-Clause
"""The Python clients without a target, and with answers that they do not expect."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvmf.check import WrongTypeError, checked
from nvmf.json import JSON
from nvmf.rpc import alive
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
from nvmf.target.rpc.socket import RpcSocket
from nvmf.target.service.administration import Administration


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


# ---- targets that answer late, or nothing ----


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask after a short time, and wait for a short time."""
    monkeypatch.setattr(alive, "ASK_AFTER", 0.05)
    monkeypatch.setattr(alive, "STEP", 0.05)


@pytest.fixture
def stopped(tmp_path: Path, soon: None) -> Iterator[Path]:
    """The path of a target that has stopped: the kernel takes connections for it."""
    path = tmp_path / "stopped.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen(8)
        yield path


@pytest.mark.parametrize("size", [1, 1 << 22])
async def test_a_stopped_target(stopped: Path, size: int) -> None:
    """Also while a request does not fit into the buffer of the socket."""
    said = rf"{stopped} has not answered for \d+ s: is it stopped, or busy\?"
    for _ in range(2):
        with connect_sync(stopped) as client, pytest.raises(AnswerTimeoutError, match=said):
            client.request("any", {"text": "x" * size})
        async with connect(stopped) as rpc:
            with pytest.raises(AnswerTimeoutError, match=said):
                await rpc.request("any", {"text": "x" * size})


async def test_a_stopped_target_with_many_clients(stopped: Path) -> None:
    """The kernel takes no more connections: the first one may still notice that it is stopped."""
    said = r"Resource temporarily unavailable; .* is it stopped, or busy\?"
    with contextlib.ExitStack() as stack, connect_sync(stopped) as client:
        async with connect(stopped) as rpc:
            with pytest.raises(NoTargetError, match=said):
                while True:
                    stack.enter_context(connect_sync(stopped))
            with pytest.raises(NoTargetError, match=said):
                await connect(stopped)
            with pytest.raises(AnswerTimeoutError, match="is it stopped, or busy"):
                await rpc.version()
            with pytest.raises(AnswerTimeoutError, match="is it stopped, or busy"):
                client.version()


class Late:
    """Answers a request after three questions on other connections; then it is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.questions: list[bytes] = []
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(str(path))
        self.listening.listen()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with self.listening, self.listening.accept()[0] as peer:
            peer.recv(1 << 16)
            for _ in range(3):
                with self.listening.accept()[0] as asking:
                    self.questions.append(asking.recv(64))
                    asking.sendall(b"{}\n")
            self.path.unlink()
            with contextlib.suppress(TimeoutError):
                self.listening.settimeout(0.3)
                self.listening.accept()
            peer.sendall(b'{"jsonrpc": "2.0", "id": 1, "result": 7}\n')


async def test_a_slow_method(tmp_path: Path, soon: None) -> None:
    """It may take longer than the target has to answer questions."""
    for number in range(2):
        path = tmp_path / f"{number}.sock"
        late = Late(path)
        if number:
            async with connect(path) as rpc:
                assert await rpc.request("any") == 7
        else:
            with connect_sync(path) as client:
                assert await asyncio.to_thread(client.request, "any") == 7
        late.thread.join()
        assert late.questions == [b"[]"] * 3


async def test_a_target_that_starts(tmp_path: Path, soon: None) -> None:
    """Requests wait until it has started, and questions are answered."""
    starting: asyncio.Future[Administration] = asyncio.get_running_loop().create_future()
    served = RpcSocket(starting, tmp_path / "starting.sock")
    await served.start()
    try:
        async with connect(served.path) as rpc:
            asked = asyncio.create_task(rpc.version())
            with connect_sync(served.path) as client:
                also = asyncio.create_task(asyncio.to_thread(client.version))
                done, _ = await asyncio.wait([asked, also], timeout=1)
                assert not done
                client.close()
                with pytest.raises(AnswerLostError):
                    await also
            asked.cancel()
            await asyncio.wait([asked])
    finally:
        await served.close()
        starting.cancel()


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


async def test_a_queue_of_connections_that_is_full_for_a_moment(tmp_path: Path) -> None:
    """A client waits for its place, as it would on a connection that blocks."""
    for number in range(2):
        path = tmp_path / f"{number}.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(path))
            listening.listen(0)
            with alive.dial(path):
                with pytest.raises(BlockingIOError):
                    alive.dial(path)
                accepting = threading.Timer(0.3, lambda at=listening: at.accept()[0].close())
                accepting.start()
                if number:
                    async with connect(path):
                        pass
                else:
                    with connect_sync(path):
                        pass
                accepting.join()
