# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of several modules: targets of this process and of separate ones, commands, fakes.

A module that needs a different configuration of `target` says TARGET_CONFIG.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nvmf.cli.main import main
from nvmf.initiator.sync import Controller, connect
from nvmf.target.service.server import Server
from support import rpclab
from support.calling import Run
from support.capturelab import record_a_write
from support.clientlab import OPTIONS, RAM, RAM_4K, config, serving, url
from support.etclab import with_identity
from support.fakekernel import FakeKernel
from support.faketarget import Bench
from support.rpclab import Client, Lab
from support.served import Served

# ---- targets in separate processes --------------------------------------------------------------


@pytest.fixture(scope="module")
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A target for all tests of a module, with namespaces of 512 and 4096 byte blocks, or with
    the module's configuration; it ends without errors.
    """
    text: str = getattr(request.module, "TARGET_CONFIG", config(RAM, RAM_4K))
    with Served(tmp_path_factory.mktemp("target"), text) as served:
        yield served.wait_ready()
        assert served.end() == 0
        served.check_log()


@pytest.fixture
def where(target: Served) -> str:
    """The URL of the target's subsystem."""
    return url(target.port)


@pytest.fixture
def controller(target: Served) -> Iterator[Controller]:
    """A controller of the target, in the synchronous API."""
    with connect(url(target.port), **OPTIONS) as found:
        yield found


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process: exit status, stdout, stderr."""

    def call(*args: object) -> tuple[int, str, str]:
        try:
            status = main([str(arg) for arg in args])
        except SystemExit as ending:
            status = int(ending.code or 0)
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return call


@pytest.fixture(scope="module")
def written(target: Served, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A capture of a write to the target, and the data."""
    return record_a_write(target.port, tmp_path_factory.mktemp("written"))


# ---- targets on the test's event loop -----------------------------------------------------------


@pytest.fixture
async def served() -> AsyncIterator[tuple[Server, str]]:
    """A target with namespaces of 512 and 4096 byte blocks, and the URL of its subsystem."""
    async with serving(RAM, RAM_4K) as both:
        yield both


@pytest.fixture
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    """A server on a fake engine, with its administration socket."""
    async with rpclab.served(tmp_path_factory.mktemp("r")) as made:
        yield made


@pytest.fixture
async def client(lab: Lab) -> AsyncIterator[Client]:
    """A connection to the administration socket."""
    async with rpclab.connected(lab.rpc.path) as made:
        yield made


# ---- fakes --------------------------------------------------------------------------------------


@pytest.fixture
def bench() -> Bench:
    """A target without sockets: namespace 1, and namespace 3, which is read-only."""
    made = Bench()
    made.add_namespace(1)
    made.add_namespace(3, block_size=4096, read_only=True, deallocate=False)
    return made


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    """A kernel made of files, without controllers."""
    return FakeKernel(tmp_path)


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """A folder like /etc/nvme, with an identity."""
    return with_identity(tmp_path)
