# SPDX-License-Identifier: BSD-3-Clause
"""A served target, and a second host that must not be affected by a test."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import served, witness
from wire import host

Serve = Callable[..., served.Served]


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
    running: list[served.Served] = []

    def start(
        text: str = "", *, ready: bool = True, wrapper: tuple[str, ...] = ()
    ) -> served.Served:
        folder = tmp_path / f"target{len(running)}"
        folder.mkdir()
        one = served.Served(folder, text or served.config(), wrapper=wrapper)
        running.append(one)
        return one.wait_ready() if ready else one

    yield start
    for one in running:
        one.kill()
        one.check_log()


def _warm_up(one: served.Served) -> None:
    """Let the target create the completion queues that it keeps, so that the others can be
    counted.
    """
    before, depth = one.descriptors, 64
    hosts = [host.NvmeHost(one.address, served.SUBNQN) for _ in range(3)]
    for each in hosts:
        each.connect(io_queues=64, depth=depth)
    connections = sum(len(each.queues) for each in hosts)
    kept = one.descriptors - connections
    for each in hosts:
        each.close()
    one.settle(max(before, kept))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, need_product: None) -> Iterator[served.Served]:
    """One target for all the tests of a module; it ends without errors."""
    with served.Served(tmp_path_factory.mktemp("target"), served.config()) as one:
        one.wait_ready()
        _warm_up(one)
        yield one
        assert one.alive, one.log
        assert one.end() == 0
        one.check_log()


@pytest.fixture(scope="module")
def bystander(target: served.Served) -> Iterator[witness.Witness]:
    """A host that writes and verifies its own blocks during the whole module."""
    one = witness.Witness(target.address, served.SUBNQN)
    yield one
    one.close()


@pytest.fixture
def unharmed(target: served.Served, bystander: witness.Witness) -> Iterator[None]:
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
