# SPDX-License-Identifier: BSD-3-Clause
"""Served targets, hosts, responders, and a second host that must not be affected by a test.

A module that needs a different configuration of `served` says TARGET_CONFIG.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.responder import NvmeResponder, identify
from support.served import SUBNQN, Served, config
from support.spoiling import CAP, connected
from support.witness import Witness
from wire import capture
from wire.exchange import Dialogue, dialogues
from wire.host import NvmeHost

if TYPE_CHECKING:
    from nvmf.initiator import Controller

Serve = Callable[..., Served]


def _need(*modules: str) -> None:
    for module in modules:
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            pytest.skip(f"{module} is not there: start the tests with ./dev test")


@pytest.fixture(scope="session")
def need_product() -> None:
    """Skip if the target is not built."""
    _need("nvmf.engine._engine", "nvmf.cli.main")


@pytest.fixture(scope="session")
def need_client() -> None:
    """Skip if the client is not built."""
    _need("nvmf.engine._engine", "nvmf.initiator")


@pytest.fixture
def serve(tmp_path: Path, need_product: None) -> Iterator[Serve]:
    """serve(text, wrapper=...): start a separate target; it ends with the test."""
    running: list[Served] = []

    def start(text: str = "", *, ready: bool = True, wrapper: tuple[str, ...] = ()) -> Served:
        folder = tmp_path / f"target{len(running)}"
        folder.mkdir()
        one = Served(folder, text or config(), wrapper=wrapper)
        running.append(one)
        return one.wait_ready() if ready else one

    yield start
    for one in running:
        one.kill()
        one.check_log()


def _warm_up(one: Served) -> None:
    """Let the target create the completion queues that it keeps, so that the others can be
    counted.
    """
    before, depth = one.descriptors, 64
    hosts = [NvmeHost(one.address, SUBNQN) for _ in range(3)]
    for each in hosts:
        each.connect(io_queues=64, depth=depth)
    connections = sum(len(each.queues) for each in hosts)
    kept = one.descriptors - connections
    for each in hosts:
        each.close()
    one.settle(max(before, kept))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, need_product: None) -> Iterator[Served]:
    """One target for all the tests of a module; it ends without errors."""
    with Served(tmp_path_factory.mktemp("target"), config()) as one:
        one.wait_ready()
        _warm_up(one)
        yield one
        assert one.alive, one.log
        assert one.end() == 0
        one.check_log()


@pytest.fixture(scope="module")
def bystander(target: Served) -> Iterator[Witness]:
    """A host that writes and verifies its own blocks during the whole module."""
    one = Witness(target.address, SUBNQN)
    yield one
    one.close()


@pytest.fixture
def unharmed(target: Served, bystander: Witness) -> Iterator[None]:
    """After the test the target runs, holds no objects of the test, and the other host is
    unaffected.
    """
    bystander.revive()
    bystander.check()
    before, log = target.descriptors, len(target.log)
    yield
    assert target.alive, target.log
    bystander.check()
    target.settle(before)
    assert "Traceback" not in target.log[log:], target.log[log:]


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path, need_product: None) -> Iterator[Served]:
    """A target for one test, with the two subsystems of livelab or with the module's
    configuration; it ends without errors.
    """
    from support import livelab

    text: str = getattr(request.module, "TARGET_CONFIG", livelab.config())
    with Served(tmp_path, text) as one:
        one.wait_ready()
        yield one
        assert one.end() == 0
        one.check_log()


@pytest.fixture
def host(target: Served) -> Iterator[NvmeHost]:
    """A controller of the target, with one I/O queue of 32 entries."""
    with NvmeHost(target.address, SUBNQN).connect() as one:
        yield one


@pytest.fixture
def responder() -> Iterator[NvmeResponder]:
    """A target that a test modifies."""
    with NvmeResponder(SUBNQN, identify, cap=CAP) as one:
        yield one
        one.errors.clear()


@pytest.fixture
async def controller(responder: NvmeResponder) -> AsyncIterator[Controller]:
    """Our client, connected to the responder."""
    async with connected(responder) as one:
        yield one


@pytest.fixture(scope="module")
def recorded() -> list[Dialogue]:
    """The recorded connections: discovery, admin queue, I/O queue."""
    return dialogues(capture.load(capture.RECORDING))
