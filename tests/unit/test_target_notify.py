# SPDX-License-Identifier: BSD-3-Clause
"""The target's messages to its service manager, read from a socket like a manager."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvmf.target.service.notify import Notifier
from support.served import Served, config


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name)
        listening.settimeout(30)
        yield name, listening


def test_messages(manager: tuple[str, socket.socket]) -> None:
    name, listening = manager
    notifier = Notifier({"NOTIFY_SOCKET": name})
    notifier.ready("serving 2 ports\nREADY=0")
    assert listening.recv(4096) == b"READY=1\nSTATUS=serving 2 ports READY=0"
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    notifier.reloading()
    first, second = listening.recv(4096).decode().split("\n")
    assert first == "RELOADING=1"
    assert second.startswith("MONOTONIC_USEC=")
    assert int(second.removeprefix("MONOTONIC_USEC=")) >= before
    notifier.stopping()
    assert listening.recv(4096) == b"STOPPING=1"
    assert notifier.watchdog is None


async def test_a_status_is_followed(manager: tuple[str, socket.socket]) -> None:
    """Only changes of the status are reported; without a service manager, nothing is watched."""
    name, listening = manager
    listening.setblocking(False)
    status = iter(["one", "one", "two", "two", "three"])

    def following() -> str:
        return next(status, "three")

    task = asyncio.create_task(Notifier({"NOTIFY_SOCKET": name}).follow(following, every=0))
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(30):
        assert await loop.sock_recv(listening, 4096) == b"STATUS=two"
        assert await loop.sock_recv(listening, 4096) == b"STATUS=three"
        await Notifier({}).follow(following, every=0)
    task.cancel()


def test_abstract_socket() -> None:
    name = f"nvmeof-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name)
        listening.settimeout(30)
        Notifier({"NOTIFY_SOCKET": "@" + name}).status("well")
        assert listening.recv(4096) == b"STATUS=well"


@pytest.mark.feature("systemd")
async def test_watchdog_is_fed_while_all_is_well(manager: tuple[str, socket.socket]) -> None:
    name, listening = manager
    listening.setblocking(False)
    well = [True]
    asked = asyncio.Event()

    def is_well() -> bool:
        if not well[0]:
            asked.set()
        return well[0]

    notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000"}).feed(is_well)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(30):
        for _ in range(3):
            assert await loop.sock_recv(listening, 4096) == b"WATCHDOG=1"
        well[0] = False
        await asked.wait()
    while True:  # skip earlier messages
        try:
            listening.recv(4096)
        except BlockingIOError:
            break
    asked.clear()
    async with asyncio.timeout(30):
        await asked.wait()
    with pytest.raises(BlockingIOError):
        listening.recv(4096)
    await notifier.close()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WATCHDOG_USEC": "1000"},
        {"NOTIFY_SOCKET": "relative", "WATCHDOG_USEC": "1000"},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "0"},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"},
    ],
)
def test_no_watchdog(environment: dict[str, str]) -> None:
    assert Notifier(environment).watchdog is None


def test_nobody_listens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()
    assert "cannot send READY=1 to the service manager: No such file or directory" in caplog.text
    Notifier({}).ready()


def test_the_environment_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    assert Notifier().watchdog == 2.0
    assert "NOTIFY_SOCKET" not in os.environ
    assert "WATCHDOG_USEC" not in os.environ


@pytest.mark.feature("systemd")
def test_a_target_tells_what_it_does(manager: tuple[str, socket.socket], tmp_path: Path) -> None:
    """Ready when it serves, around a reload, and at the end: as Type=notify-reload requires."""
    name, listening = manager
    listening.settimeout(60)
    environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "600000000"}
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environment.items():
            patch.setenv(key, value)
        served = Served(tmp_path, config())
    try:

        def told() -> list[str]:
            while (lines := listening.recv(4096).decode().split("\n")) == ["WATCHDOG=1"]:
                pass
            return lines

        ready, status = told()
        assert ready == "READY=1"
        assert status.startswith("STATUS=2 namespaces in 2 subsystems on 127.0.0.1:")
        served.process.send_signal(signal.SIGHUP)
        assert told()[0] == "RELOADING=1"
        assert told()[0] == "READY=1"
        (tmp_path / "target.toml").write_text("nonsense")
        served.process.send_signal(signal.SIGHUP)
        assert told()[0] == "RELOADING=1"
        assert told()[0] == "READY=1"
        served.process.send_signal(signal.SIGTERM)
        assert told() == ["STOPPING=1"]
    finally:
        assert served.end() == 0
