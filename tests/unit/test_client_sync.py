# SPDX-License-Identifier: BSD-3-Clause
"""The client for scripts, with a target in a different process."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from nvmf.initiator import ConnectionLost, NvmeError, State
from nvmf.initiator.sync import Controller, Namespace, connect, connect_all, discover, watch
from nvmf.rpc.sync import connect as administer
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.reservations import ReservationType
from support.clientlab import NQN, OPTIONS, RAM, config, url
from support.served import Served
from support.threads import expect_threads

TARGET_CONFIG = config(RAM)


def test_script(controller: Controller) -> None:
    namespace = controller.namespace(1)
    data = secrets.token_bytes(1 << 20)
    namespace.write(0, data)
    namespace.flush()
    assert namespace.read(0, 2048) == data
    namespace.compare(0, data[:512])
    namespace.verify(0, 8)
    namespace.write_zeroes(0, 1)
    namespace.deallocate([(1, 1)])
    into = bytearray(512)
    assert namespace.readinto(0, into) == 512
    assert into == bytes(512)
    with controller.alloc(4096) as memory:
        namespace.readinto(8, memory)
        assert bytes(memory) == data[4096:8192]
    assert [(n.nsid, n.blocks) for n in controller.namespaces] == [(1, 16384)]
    assert controller.identify.subnqn == NQN
    with pytest.raises(NvmeError, match="LBA Out of Range"):
        namespace.read(16384, 1)


def test_reservations(controller: Controller) -> None:
    mine = controller.namespace(1).reservations
    mine.register(1)
    mine.register(2, current=1)
    mine.acquire(2, ReservationType.WRITE_EXCLUSIVE)
    with pytest.raises(NvmeError, match="Reservation Conflict"):
        mine.release(1, ReservationType.WRITE_EXCLUSIVE)
    mine.preempt(2, ReservationType.EXCLUSIVE_ACCESS, 2, abort=True)
    found = mine.report()
    assert found.rtype == ReservationType.EXCLUSIVE_ACCESS
    assert [one.rkey for one in found.registrants] == [2]
    mine.release(2, ReservationType.EXCLUSIVE_ACCESS)
    mine.unregister(2)
    mine.register(3)
    mine.clear(3)
    assert not mine.report().registrants


def test_threads(controller: Controller) -> None:
    """Several threads share a controller."""
    namespace = controller.namespace(1)

    def work(number: int) -> bool:
        data = secrets.token_bytes(4096)
        for _ in range(20):
            namespace.write(number * 8, data)
            if namespace.read(number * 8, 8) != data:
                return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(16)))


def test_closed(target: Served) -> None:
    before = threading.active_count()
    controller = connect(url(target.port), **OPTIONS)
    namespace = controller.namespace(1)
    controller.close()
    controller.close()
    assert controller.state is State.CLOSED
    expect_threads(before)
    with pytest.raises(ConnectionLost):
        namespace.read(0, 1)


def test_closed_by_many_threads(target: Served) -> None:
    """While others read: every close returns, and every read has data or ends with the reason."""
    before = threading.active_count()
    for _ in range(10):
        controller = connect(url(target.port), **OPTIONS)
        namespace = controller.namespace(1)
        together = threading.Barrier(8, timeout=60)

        def close(controller: Controller = controller, together: Any = together) -> str:
            together.wait()
            controller.close()
            assert controller.state is State.CLOSED
            return "closed"

        def read(
            controller: Controller = controller,
            namespace: Namespace = namespace,
            together: Any = together,
        ) -> str:
            together.wait()
            try:
                while True:
                    assert len(namespace.read(0, 8)) == 4096
                    assert [one.nsid for one in controller.namespaces] == [1]
            except ConnectionLost as error:
                return str(error)

        with ThreadPoolExecutor(8) as threads:
            work = [threads.submit(one) for one in (close, read) * 4]
            said = [one.result(60) for one in work]
        assert said[::2] == ["closed"] * 4
        assert set(said[1::2]) == {"the controller was closed"}
    expect_threads(before)


def test_callback_may_not_wait_for_itself(controller: Controller) -> None:
    said: list[str] = []

    def look() -> None:
        try:
            controller.namespace(1).flush()
        except RuntimeError as error:
            said.append(str(error))

    controller._loop.get(look)
    assert said
    assert "would wait for itself" in said[0]


def test_refused(target: Served) -> None:
    before = threading.active_count()
    with pytest.raises(NvmeError, match="SUBNQN"):
        connect(url(target.port) + "x", **OPTIONS)
    expect_threads(before)


def test_discover(target: Served) -> None:
    found = discover(url(target.port), device="iwarp")
    assert [entry.subnqn for entry in found] == [DISCOVERY_NQN, NQN]


def test_connect_all(target: Served) -> None:
    """All controllers on one thread, which ends with the last of them."""
    before = threading.active_count()
    (found,) = connect_all(url(target.port), **OPTIONS)
    assert found.controller is not None
    assert not found.skipped
    assert len(found.controller.namespace(1).read(0, 1)) == 512
    (again,) = connect_all(url(target.port), connected=[found.controller], **OPTIONS)
    assert again.skipped
    found.controller.close()
    found.controller.close()
    expect_threads(before)
    (lost,) = connect_all("nvme+rdma://127.0.0.1:1", connect_timeout=30, device="iwarp")
    assert "127.0.0.1:1" in str(lost.error)
    for outcome in connect_all(url(target.port), **OPTIONS):
        assert outcome.controller is not None
        outcome.controller.close()
        break
    expect_threads(before)


def test_watch(target: Served) -> None:
    other = f"{NQN}.other"
    with (
        administer(target.rpc_socket) as rpc,
        watch(url(target.port, DISCOVERY_NQN), device="iwarp") as changes,
    ):
        assert NQN in {entry.subnqn for entry in next(changes).added}
        rpc.add_subsystem({"nqn": other, "allow_any_host": True})
        assert [entry.subnqn for entry in next(changes).added] == [other]
        rpc.delete_subsystem(other)
        assert [entry.subnqn for entry in next(changes).removed] == [other]
