# SPDX-License-Identifier: BSD-3-Clause
"""Commands for a running target, without a target, or with a different program at its socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nvmf.cli.main import main


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[None]:
    """A socket that sends this answer to every client, and nothing else."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            client, _ = server.accept()
            with client:
                if client.recv(65536):
                    client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(60)


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 400 Bad Request", b"{}", b"[]", b'{"error": "no"}', b"[" * 100_000, b"\xff"],
)
def test_no_target_answers(
    answer: bytes,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path_factory.mktemp("s") / "s"
    with answering(path, answer):
        assert main(["target", "ls", "--rpc-socket", str(path)]) == 1
    said = f"nvmeof target ls: the server at {path} is not a target"
    if not answer:
        said = f"nvmeof target ls: the target at {path} closed the connection before it answered"
    assert said in capsys.readouterr().err


def test_what_the_target_says(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path_factory.mktemp("s") / "s"
    with answering(path, b'{"error": {"code": -1, "message": "not today"}}'):
        assert main(["target", "ls", "--rpc-socket", str(path)]) == 1
    assert capsys.readouterr().err == "nvmeof target ls: not today\n"


def test_an_empty_path_is_not_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["target", "ls", "--rpc-socket", ""]) == 2
    assert "--rpc-socket is empty" in capsys.readouterr().err
