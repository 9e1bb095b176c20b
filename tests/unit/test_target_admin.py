# SPDX-License-Identifier: BSD-3-Clause
"""Admin commands of I/O controllers, as a host sends them."""

from __future__ import annotations

import pytest

from nvmf.spec import commands
from nvmf.spec.features import AsyncEvent, NumberOfQueues, Timestamp
from nvmf.spec.logs import (
    decode_changed_namespaces,
)
from nvmf.spec.opcodes import FeatureId, LogId
from nvmf.spec.properties import Property
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import DNR, Status
from nvmf.target.commands.core import Core
from nvmf.target.model.queue import Queue
from support.faketarget import HOSTID, Bench, FakeHandle
from support.faketarget import read_log as log

INVALID = Status.INVALID_FIELD | DNR
NAMESPACE = Status.INVALID_NAMESPACE_OR_FORMAT | DNR


def feature(bench: Bench, queue: Queue, sqe: bytes, data: bytes = b"") -> int:
    done = bench.do(queue, sqe, data)
    assert done.status == 0
    return done.dw0


# ---- features ----


def test_number_of_queues(bench: Bench) -> None:
    admin = bench.admin()
    granted = feature(bench, admin, commands.set_number_of_queues(4))
    assert NumberOfQueues.decode(granted) == NumberOfQueues(63, 63)
    assert feature(bench, admin, commands.get_features(FeatureId.NUMBER_OF_QUEUES)) == granted
    for value in (0xFFFF, 0xFFFF0000):
        sqe = commands.set_features(FeatureId.NUMBER_OF_QUEUES, value)
        assert bench.do(admin, sqe).status == INVALID
    bench.io(admin)
    done = bench.do(admin, commands.set_number_of_queues(4))
    assert done.status == Status.COMMAND_SEQUENCE_ERROR | DNR


@pytest.mark.feature("keep-alive")
def test_keep_alive_timeout(bench: Bench) -> None:
    admin = bench.admin(kato_ms=1)
    get = commands.get_features(FeatureId.KEEP_ALIVE_TIMER)
    assert feature(bench, admin, get) == 1000
    feature(bench, admin, commands.set_keep_alive(5001))
    assert feature(bench, admin, get) == 6000
    feature(bench, admin, commands.set_keep_alive(0xFFFFFFFF))
    assert feature(bench, admin, get) == 0xFFFFFFFF // 1000 * 1000
    feature(bench, admin, commands.set_keep_alive(0))
    assert feature(bench, admin, get) == 0
    assert admin.controller is not None
    assert admin.controller.keep_alive_left(bench.now) is None


@pytest.mark.feature("keep-alive", "tbkas")
def test_keep_alive(bench: Bench) -> None:
    admin = bench.admin(kato_ms=5000)
    controller = admin.controller
    assert controller is not None
    assert controller.keep_alive_left(bench.now + 2) == 3
    assert controller.heard(bench.now + 4)
    bench.now += 4
    assert bench.do(admin, commands.keep_alive()).status == 0
    assert controller.heard(bench.now + 4.5)
    assert not controller.heard(bench.now + 5)
    # Traffic on an I/O queue has the same effect (TBKAS).
    io = bench.io(admin)
    io.handle.stats["commands"] = 9
    assert controller.heard(bench.now + 60)
    assert not controller.heard(bench.now + 120)
    controller.fail()
    assert controller.csts.cfs
    for queue in controller.queues():
        assert queue.handle.calls[-1] == ("disconnect",)  # type: ignore[attr-defined]


def test_write_cache(bench: Bench) -> None:
    admin = bench.admin()
    assert feature(bench, admin, commands.get_features(FeatureId.VOLATILE_WRITE_CACHE)) == 1
    feature(bench, admin, commands.set_features(FeatureId.VOLATILE_WRITE_CACHE, 1))
    done = bench.do(admin, commands.set_features(FeatureId.VOLATILE_WRITE_CACHE, 0))
    assert done.status == Status.FEATURE_NOT_CHANGEABLE | DNR


@pytest.mark.feature("timestamp")
def test_timestamp(bench: Bench) -> None:
    admin = bench.admin()
    bench.now += 2
    done = bench.do(admin, commands.get_features(FeatureId.TIMESTAMP), length=8)
    assert Timestamp.decode(done.data).value == 2000
    value = Timestamp((1 << 40).to_bytes(6, "little")).encode()
    feature(bench, admin, commands.set_features(FeatureId.TIMESTAMP), value)
    bench.now += 1.5
    found = Timestamp.decode(
        bench.do(admin, commands.get_features(FeatureId.TIMESTAMP), length=8).data
    )
    assert (found.value, found.attributes) == ((1 << 40) + 1500, 2)


def test_host_behavior(bench: Bench) -> None:
    admin = bench.admin()
    wanted = bytes([1, 0, 1]).ljust(512, b"\0")
    set_ = commands.set_features(FeatureId.HOST_BEHAVIOR)
    feature(bench, admin, set_, wanted)
    done = bench.do(admin, commands.get_features(FeatureId.HOST_BEHAVIOR), length=512)
    assert done.data == wanted
    assert bench.do(admin, set_, bytes([2]).ljust(512, b"\0")).status == INVALID
    assert bench.do(admin, set_, bytes(511)).status == Status.SGL_DATA_LENGTH_INVALID | DNR


def test_host_identifier(bench: Bench) -> None:
    admin = bench.admin()
    done = bench.do(admin, commands.get_features(FeatureId.HOST_IDENTIFIER, cdw11=1), length=16)
    assert done.data == HOSTID
    assert bench.do(admin, commands.get_features(0x81), length=8).status == INVALID
    done = bench.do(admin, commands.set_features(0x81, 1), bytes(16))
    assert done.status == Status.COMMAND_SEQUENCE_ERROR | DNR


def test_temperature_thresholds(bench: Bench) -> None:
    """Base 2.0, 5.27.1.3: an over and an under temperature threshold; there are no sensors."""
    admin = bench.admin()
    over, under, all_sensors, fid = 0, 1 << 20, 0xF << 16, FeatureId.TEMPERATURE_THRESHOLD

    def thresholds() -> list[int]:
        return [
            feature(bench, admin, commands.get_features(fid, cdw11=which))
            for which in (over, under)
        ]

    assert thresholds() == [0xFFFF, 0]
    feature(bench, admin, commands.set_features(fid, under | 280))
    assert thresholds() == [0xFFFF, 280]
    feature(bench, admin, commands.set_features(fid, over | all_sensors | 350))
    assert thresholds() == [350, 280]
    for bad in (1 << 16, 9 << 16, 2 << 20, 3 << 20):
        for sqe in (commands.get_features(fid, cdw11=bad), commands.set_features(fid, bad | 300)):
            assert bench.do(admin, sqe).status == INVALID
    assert bench.do(admin, commands.get_features(fid, cdw11=all_sensors)).status == INVALID
    assert thresholds() == [350, 280]


def test_remembered_features_are_forgotten_by_a_reset(bench: Bench) -> None:
    admin = bench.admin()
    get = commands.get_features(FeatureId.ERROR_RECOVERY, nsid=1)
    feature(bench, admin, commands.set_features(FeatureId.ERROR_RECOVERY, 5, nsid=1))
    assert feature(bench, admin, get) == 5
    for cc in (0x460060, 0x460061):
        bench.do(admin, commands.property_set(Property.CC, cc))
    assert feature(bench, admin, get) == 0


def test_error_recovery_of_each_namespace(bench: Bench) -> None:
    """Base 2.0, 5.27.1.5: the feature is of a namespace."""
    admin = bench.admin()

    def found() -> list[int]:
        gets = [commands.get_features(FeatureId.ERROR_RECOVERY, nsid=nsid) for nsid in (1, 3)]
        return [feature(bench, admin, get) for get in gets]

    feature(bench, admin, commands.set_features(FeatureId.ERROR_RECOVERY, 5, nsid=3))
    assert found() == [0, 5]
    feature(bench, admin, commands.set_features(FeatureId.ERROR_RECOVERY, 7, nsid=0xFFFFFFFF))
    assert found() == [7, 7]
    for nsid in (0, 0xFFFFFFFF):  # as nvme-cli reads it by the controller's device
        assert (
            feature(bench, admin, commands.get_features(FeatureId.ERROR_RECOVERY, nsid=nsid)) == 7
        )


@pytest.mark.parametrize(
    ("sqe", "status"),
    [
        (commands.get_features(0x00), INVALID),
        (commands.get_features(0x08), INVALID),
        (commands.get_features(0x84), INVALID),
        (commands.set_features(0xD0), INVALID),
        (commands.get_features(FeatureId.NUMBER_OF_QUEUES, sel=1), INVALID),
        (commands.set_features(FeatureId.ERROR_RECOVERY, save=True),
         Status.FEATURE_NOT_SAVEABLE | DNR),
        (commands.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, 1 << 31), INVALID),
        (commands.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, 1 << 9), INVALID),
        (commands.set_features(FeatureId.POWER_MANAGEMENT, 1), INVALID),
        (commands.set_features(FeatureId.ARBITRATION, 1, nsid=1),
         Status.FEATURE_NOT_NAMESPACE_SPECIFIC | DNR),
        (commands.get_features(FeatureId.ERROR_RECOVERY, nsid=2), NAMESPACE),
        (commands.set_features(FeatureId.ERROR_RECOVERY, 1), NAMESPACE),
        (commands.set_features(FeatureId.ERROR_RECOVERY, 1, nsid=2), NAMESPACE),
    ],
)  # fmt: skip
def test_feature_that_cannot_be_had(bench: Bench, sqe: bytes, status: int) -> None:
    assert bench.do(bench.admin(), sqe).status == status


# ---- events ----


@pytest.mark.feature("events")
def test_events(bench: Bench) -> None:
    admin = bench.admin()
    controller = admin.controller
    assert controller is not None
    for cid in range(4):
        assert bench.run(admin, commands.async_event_request(), cid=cid) is None
    done = bench.do(admin, commands.async_event_request(), cid=4)
    assert done.status == Status.AER_LIMIT_EXCEEDED | DNR
    # No event is sent to a host that did not request it.
    bench.add_namespace(4)
    assert controller.events.take() == []
    feature(bench, admin, commands.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, 0x100))
    bench.add_namespace(5)
    ((request, completion),) = controller.events.take()
    assert request.token == 0
    assert completion.status == 0
    assert AsyncEvent.decode(completion.dw0) == AsyncEvent(2, 0, 4)
    # There is no further event until the page is read.
    bench.subsystem.detach(5)
    assert controller.events.take() == []
    page = log(bench, admin, LogId.CHANGED_NAMESPACES, 4096, rae=1)
    assert decode_changed_namespaces(page) == [4, 5]
    bench.add_namespace(6)
    assert controller.events.take() == []
    # A read that is refused reads nothing.
    sqe = commands.get_log_page(LogId.CHANGED_NAMESPACES, 4096, offset=8192)
    assert bench.do(admin, sqe, length=4096).status == INVALID
    page = log(bench, admin, LogId.CHANGED_NAMESPACES, 4096)
    assert decode_changed_namespaces(page) == [4, 5, 6]
    assert decode_changed_namespaces(log(bench, admin, LogId.CHANGED_NAMESPACES, 4096)) == []
    bench.add_namespace(7)
    assert [request.token for request, _ in controller.events.take()] == [1]


@pytest.mark.feature("events")
def test_an_event_waits_for_a_request(bench: Bench) -> None:
    admin = bench.admin()
    controller = admin.controller
    assert controller is not None
    feature(bench, admin, commands.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, 0x100))
    bench.add_namespace(4)
    assert bench.run(admin, commands.async_event_request()) is None
    assert len(controller.events.take()) == 1
    log(bench, admin, LogId.CHANGED_NAMESPACES, 4096)
    # Unless the host has disabled it meanwhile.
    bench.add_namespace(5)
    feature(bench, admin, commands.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, 0))
    assert bench.run(admin, commands.async_event_request()) is None
    assert controller.events.take() == []


@pytest.mark.feature("events")
@pytest.mark.parametrize(("flag", "lid"), [(1 << 2, LogId.SMART), (0x100, 4)])
def test_a_condition_that_is_true_already(bench: Bench, flag: int, lid: int) -> None:
    """Base 2.0, 5.27.1.8: an event whose condition is true when it is enabled is sent."""
    admin = bench.admin()
    controller = admin.controller
    assert controller is not None
    assert bench.run(admin, commands.async_event_request()) is None
    bench.add_namespace(4)
    bench.subsystem.health.degraded.add(4)
    enable = commands.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, flag)
    feature(bench, admin, enable)
    ((_, completion),) = controller.events.take()
    assert AsyncEvent.decode(completion.dw0).lid == lid
    log(bench, admin, lid, 512)
    # It was enabled before.
    bench.run(admin, commands.async_event_request())
    feature(bench, admin, enable)
    assert controller.events.take() == []


@pytest.mark.feature("abort")
def test_abort(bench: Bench) -> None:
    admin = bench.admin()
    controller = admin.controller
    assert controller is not None
    bench.run(admin, commands.async_event_request(), cid=77)
    assert feature(bench, admin, commands.abort(78)) == 1
    assert feature(bench, admin, commands.abort(77)) == 0
    ((request, completion),) = controller.events.take()
    assert request.token == 77
    assert completion.status == Status.ABORT_REQUESTED
    assert bench.do(admin, commands.abort(1, sqid=5)).status == INVALID


@pytest.mark.feature("abort")
def test_abort_of_an_io_command(bench: Bench) -> None:
    """The engine reports the result; at most ACL + 1 aborts are in progress."""
    admin = bench.admin()
    controller = admin.controller
    assert controller is not None
    handle = bench.io(admin).handle
    assert isinstance(handle, FakeHandle)
    for cid in range(4):
        assert bench.run(admin, commands.abort(cid, sqid=1), cid=50 + cid) is None
    beyond = bench.do(admin, commands.abort(9, sqid=1))
    assert beyond.status == Status.ABORT_COMMAND_LIMIT_EXCEEDED | DNR
    asked = [call[1:] for call in handle.calls if call[0] == "abort"]
    assert [cid for cid, _ in asked] == [0, 1, 2, 3]
    asked[2][1](True)
    asked[0][1](False)
    answers = [(request.token, done.dw0) for request, done in controller.events.take()]
    assert answers == [(52, 0), (50, 1)]
    assert bench.run(admin, commands.abort(9, sqid=1)) is None


def test_closing_gives_the_requests_back(bench: Bench) -> None:
    admin = bench.admin()
    bench.run(admin, commands.async_event_request(), cid=5)
    ((request, completion),) = bench.core.closed(admin)
    assert request.token == 5
    assert completion.status == Status.ABORTED_SQ_DELETION | DNR


# ---- the boundary ----


@pytest.mark.parametrize("opcode", [0x00, 0x0D, 0x10, 0x14, 0x7D, 0x80, 0xFF])
def test_unknown_command(bench: Bench, opcode: int) -> None:
    done = bench.do(bench.admin(), Sqe(opcode).encode())
    assert done.status == Status.INVALID_OPCODE | DNR


def test_a_fault_of_ours_is_an_internal_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    admin = bench.admin()

    def broken(*_: object) -> None:
        raise ZeroDivisionError("of ours")

    with monkeypatch.context() as patch:
        patch.setattr(Core, "_dispatch", broken)
        done = bench.do(admin, commands.keep_alive())
    assert done.status == Status.INTERNAL_ERROR
    assert "of ours" in caplog.text
    assert bench.do(admin, commands.keep_alive()).status == 0
