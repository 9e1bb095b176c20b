# SPDX-License-Identifier: BSD-3-Clause
"""The pytest plugin, in a separate pytest run, and the target without asyncio that it uses."""

from __future__ import annotations

import inspect
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import nvmf.target
from nvmf.config import ConfigError
from nvmf.initiator.sync import connect
from nvmf.target import ServerError
from nvmf.target.sync import Target, serve
from support import documents
from support.threads import expect_threads

TESTS = """
import pytest
from nvmf.initiator import connect
from nvmf.target import Store


def test_namespace(nvme_namespace):
    assert nvme_namespace.size == 64 << 20
    nvme_namespace.write(0, b"x" * 512)
    assert nvme_namespace.read(0, 1) == b"x" * 512


def test_each_has_its_own(nvme_namespace):
    assert nvme_namespace.read(0, 1) == bytes(512)


@pytest.mark.nvme_target(ram=["1MiB", "2MiB"], block_size=4096)
def test_marker(nvme_target, nvme_namespace):
    assert nvme_namespace.blocks == 256
    assert nvme_target.url.startswith("nvme+rdma://127.0.0.1:")


class Seven(Store):
    size = 1 << 20

    async def read(self, offset, length):
        return bytes([7]) * length


@pytest.mark.nvme_target(store=Seven())
def test_store(nvme_namespace):
    assert nvme_namespace.read(0, 1) == bytes([7]) * 512


@pytest.mark.nvme_target(file="/nowhere/disk.img")
def test_cannot_start(nvme_target):
    pass
"""


def run(folder: Path, tests: str) -> str:
    (folder / "test_it.py").write_text(tests)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "nvmf.testing", "-p", "no:cacheprovider"),
            *("--strict-markers", "test_it.py"),
        ],
        cwd=folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONWARNINGS": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout + done.stderr


def test_fixtures(tmp_path: Path) -> None:
    said = run(tmp_path, TESTS)
    assert "4 passed, 1 error" in said, said
    assert "/nowhere/disk.img does not exist" in said


def test_example_of_the_readme(tmp_path: Path) -> None:
    _, example = documents.blocks("A target inside a program", "python", documents.PYTHON)
    said = run(tmp_path, example)
    assert "1 passed" in said, said


def test_target_without_asyncio() -> None:
    threads = threading.active_count()
    with serve(ram="1MiB") as target:
        assert target.url in repr(target)
        with connect(target.url) as controller:
            controller.namespace(1).write(0, bytes(512))
        target.apply("port = []")
        assert (target.ports, target.urls) == ([], [])
        with pytest.raises(LookupError):
            _ = target.url
        with pytest.raises(ConfigError):
            target.apply("port = 7")
    target.stop()
    with pytest.raises(ServerError, match="the target was stopped"):
        target.apply("")
    expect_threads(threads)


def test_stopped_by_many_threads() -> None:
    """Every call returns, and only when the port is closed."""
    threads = threading.active_count()
    target = serve(ram="1MiB")
    (address,) = target.ports
    together = threading.Barrier(4, timeout=60)

    def stop() -> None:
        together.wait()
        target.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=60).close()

    with ThreadPoolExecutor(4) as pool:
        for work in [pool.submit(stop) for _ in range(4)]:
            work.result(60)
    expect_threads(threads)


def test_both_interfaces_are_the_same() -> None:
    """Names, parameters and defaults of the asynchronous and of the synchronous target."""
    assert inspect.signature(serve).parameters == inspect.signature(nvmf.target.serve).parameters
    for name in {name for name in dir(nvmf.target.Target) if not name.startswith("_")}:
        one = inspect.getattr_static(nvmf.target.Target, name)
        other = inspect.getattr_static(Target, name)
        assert inspect.getdoc(other), name
        assert type(one) is type(other), name
        if inspect.isfunction(one):
            assert inspect.signature(one).parameters == inspect.signature(other).parameters, name


def test_start_that_fails() -> None:
    threads = threading.active_count()
    with pytest.raises(ServerError, match="does not exist"):
        serve(file="/nowhere/disk.img")
    expect_threads(threads)
