# SPDX-License-Identifier: BSD-3-Clause
"""Requests for connections: refusals, and waiting for a device."""

from __future__ import annotations

import errno

import pytest

from nvmf.spec.cm import CmRequest, CmStatus
from nvmf.target.io.connection import Connection
from nvmf.target.io.connections import Connections
from support.fakeengine import ConnectRequest, DeviceReady
from support.serverlab import running, settle


@pytest.mark.parametrize(
    ("private_data", "depth", "status"),
    [
        (b"short", 8, CmStatus.INVALID_LENGTH),
        (CmRequest(1, 0, 32, 31).encode(), 8, CmStatus.INVALID_RECFMT),
        (CmRequest(0, 65, 32, 31).encode(), 8, CmStatus.INVALID_QID),
        (CmRequest(0, 0, 129, 128).encode(), 8, CmStatus.INVALID_HSQSIZE),
        (CmRequest(0, 0, 0, 31).encode(), 8, CmStatus.INVALID_HRQSIZE),
        (CmRequest(0, 0, 32, 31).encode(), 0, CmStatus.INVALID_IRD),
    ],
)
async def test_rejects(
    private_data: bytes, depth: int, status: CmStatus, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as lab:
        request = await lab.request(private_data, depth)
        assert request.rejected == bytes([0, 0, status, 0])
        assert status.title in caplog.text
        assert "10.0.0.9" in caplog.text
        assert lab.server.connections == 0


async def test_no_connection_left() -> None:
    async with running() as lab:
        for _ in range(4):
            await lab.host()
        request = await lab.request(CmRequest(0, 0, 32, 31).encode())
        assert request.rejected == bytes([0, 0, CmStatus.NO_RESOURCES, 0])


async def test_a_stranger_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest one without Connect, but not before it had time: a host connects all queues
    before it sends Connect.
    """
    async with running() as lab:
        await lab.host()
        first, *_ = [await lab.queue() for _ in range(3)]
        monkeypatch.setattr("nvmf.target.io.connections._SEARCH_PAUSE", 0.0)
        request = await lab.request(CmRequest(0, 0, 32, 31).encode())
        assert request.rejected == bytes([0, 0, CmStatus.NO_RESOURCES, 0])
        monkeypatch.setattr("nvmf.target.io.connections._OPENING_GRACE", 0.0)
        request = await lab.request(CmRequest(0, 0, 32, 31).encode())
        assert request.rejected is None
        assert first.gone


async def test_a_flood_of_requests_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every request looks at every connection: there may be 10,000, all of hosts."""
    search, searches = Connections._dispensable, 0

    def counted(self: Connections, *args: float) -> tuple[Connection | None, str]:
        nonlocal searches
        searches += 1
        return search(self, *args)

    monkeypatch.setattr(Connections, "_dispensable", counted)
    monkeypatch.setattr("nvmf.target.io.connections._OPENING_GRACE", 0.0)
    monkeypatch.setattr("nvmf.target.io.connections._SEARCH_PAUSE", 600.0, raising=False)
    async with running() as lab:
        for _ in range(4):
            await lab.host()
        for _ in range(50):
            request = await lab.request(CmRequest(0, 0, 32, 31).encode())
            assert request.rejected == bytes([0, 0, CmStatus.NO_RESOURCES, 0])
    assert searches == 1


async def test_a_request_that_is_refused_makes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvmf.target.io.connections._OPENING_GRACE", 0.0)
    async with running() as lab:
        strangers = [await lab.queue() for _ in range(4)]
        request = await lab.request(CmRequest(0, 9999, 32, 31).encode())
        assert request.rejected == bytes([0, 0, CmStatus.INVALID_QID, 0])
        assert not any(one.gone for one in strangers)


async def test_an_engine_that_cannot_accept(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as lab:
        lab.engine.accept_error = OSError(12, "no memory for the queue pair")
        request = await lab.request(CmRequest(0, 0, 32, 31).encode())
        assert request.rejected == bytes([0, 0, CmStatus.NO_RESOURCES, 0])
        assert "no memory" in caplog.text
        lab.engine.accept_error = None
        await lab.host()


async def test_a_request_waits_for_its_device(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as lab:
        lab.engine.accept_error = OSError(errno.EAGAIN, "the device is being made ready")
        request = await lab.request(CmRequest(0, 0, 32, 31).encode())
        left = await lab.request(CmRequest(0, 0, 32, 31).encode())
        assert (request.qpair, request.rejected) == (None, None)
        left.gone = True
        lab.engine.accept_error = None
        lab.engine.target.put(DeviceReady("mlx5_0"))
        await settle()
        assert (request.qpair, request.rejected) == (None, None), "another device"
        lab.engine.target.put(DeviceReady("iwarp0"))
        await settle()
        assert request.qpair is not None
        assert left.qpair is None
        assert "the host gave up" in caplog.text


async def test_a_device_that_cannot_be_used(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as lab:
        lab.engine.target.put(DeviceReady("iwarp0", "no memory to register"))
        await settle()
        assert "no memory to register" in caplog.text
        lab.engine.accept_error = OSError(errno.EAGAIN, "the device is being made ready")
        request = await lab.request(CmRequest(0, 0, 32, 31).encode())
        caplog.clear()
        lab.engine.target.put(DeviceReady("iwarp0", "no memory to register"))
        await settle()
        assert request.rejected == bytes([0, 0, CmStatus.NO_RESOURCES, 0])
        assert "no memory to register" in caplog.text


async def test_a_host_that_gave_up(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as lab:
        lab.engine.accept_error = OSError(errno.EINVAL, "create_qp: Invalid argument")
        request = ConnectRequest(lab.engine, CmRequest(0, 0, 32, 31).encode())
        request.gone = True  # reported by an event after the request
        lab.engine.channels["iwarp"].put(request)
        await settle()
        assert "the host gave up" in caplog.text
        assert "Invalid argument" not in caplog.text


async def test_a_target_that_stops_refuses_who_waits() -> None:
    async with running() as lab:
        lab.engine.accept_error = OSError(errno.EAGAIN, "the device is being made ready")
        request = await lab.request(CmRequest(0, 0, 32, 31).encode())
    assert request.rejected == bytes([0, 0, CmStatus.NO_RESOURCES, 0])
