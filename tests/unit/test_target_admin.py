# SPDX-License-Identifier: BSD-3-Clause
"""Admin commands of I/O controllers, as a host sends them."""

from __future__ import annotations

import struct

import pytest

from nvmf.spec import commands
from nvmf.spec.features import AsyncEvent, NumberOfQueues, Timestamp
from nvmf.spec.logs import (
    ErrorEntry,
    FirmwareSlotLog,
    SmartLog,
    decode_changed_namespaces,
    decode_effects,
    decode_supported_pages,
)
from nvmf.spec.opcodes import AdminOpcode, FeatureId, LogId
from nvmf.spec.properties import Property
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import DNR, Status
from nvmf.target.commands.core import Core
from nvmf.target.model.queue import Queue
from support.faketarget import HOSTID, Bench, FakeHandle, FakeNamespace

INVALID = Status.INVALID_FIELD | DNR
NAMESPACE = Status.INVALID_NAMESPACE_OR_FORMAT | DNR


def log(bench: Bench, queue: Queue, lid: int, length: int, **fields: int) -> bytes:
    done = bench.do(
        queue,
        commands.get_log_page(
            lid,
            length,
            rae=bool(fields.pop("rae", 0)),
            **fields,
        ),
        length=length,
    )
    assert done.status == 0
    assert len(done.data) == length
    return done.data


def feature(bench: Bench, queue: Queue, sqe: bytes, data: bytes = b"") -> int:
    done = bench.do(queue, sqe, data)
    assert done.status == 0
    return done.dw0


# ---- log pages ----


@pytest.mark.feature("supported-logs")
def test_supported_pages(bench: Bench) -> None:
    admin = bench.admin()
    pages = decode_supported_pages(log(bench, admin, LogId.SUPPORTED_PAGES, 1024))
    assert set(pages) == {0, 1, 2, 3, 4, 5, 0xC, 0x12, 0x13, 0x80}
    for lid in pages:
        log(bench, admin, lid, 512)
    words = struct.unpack("<256I", log(bench, admin, LogId.FEATURES_EFFECTS, 1024))
    supported = [fid for fid, word in enumerate(words) if word]
    assert FeatureId.KEEP_ALIVE_TIMER in supported
    assert log(bench, admin, LogId.FIRMWARE_SLOT, 512)[0] == 1
    assert FirmwareSlotLog.decode(log(bench, admin, LogId.FIRMWARE_SLOT, 512)).frs1


def test_effects_name_what_is_served(bench: Bench) -> None:
    admin, io = decode_effects(log(bench, bench.admin(), LogId.COMMANDS_EFFECTS, 4096))
    assert set(admin) == {2, 6, 8, 9, 0xA, 0xC, 0x18}
    assert set(io) == {0, 1, 2, 4, 5, 8, 9, 0xC, 0xD, 0xE, 0x11, 0x15}
    assert io[1].lbcc
    assert not io[2].lbcc


def test_effects_have_no_scope(bench: Bench) -> None:
    """Linux 7.3 prints "unusual effects" for commands whose scope is reported."""
    for effects in decode_effects(log(bench, bench.admin(), LogId.COMMANDS_EFFECTS, 4096)):
        for effect in effects.values():
            assert not effect.namespace_scope
            assert not effect.controller_scope


@pytest.mark.feature("smart")
def test_smart_counts(bench: Bench) -> None:
    for nsid, size in ((1, 512_000), (3, 1)):
        engine = bench.subsystem.namespaces[nsid].engine
        assert isinstance(engine, FakeNamespace)
        engine.stats = {"reads": 2, "writes": 1, "read_bytes": size, "errors": 5, "media_errors": 1}
    admin = bench.admin()
    both = SmartLog.decode(log(bench, admin, LogId.SMART, 512))
    assert (both.host_read_commands, both.data_units_read, both.media_errors) == (4, 2, 2)
    one = SmartLog.decode(log(bench, admin, LogId.SMART, 512, nsid=3))
    assert (one.host_read_commands, one.data_units_read) == (2, 1)
    done = bench.do(admin, commands.get_log_page(LogId.SMART, 512, nsid=9), length=512)
    assert done.status == NAMESPACE


@pytest.mark.feature("error-log")
def test_errors_are_remembered(bench: Bench) -> None:
    admin = bench.admin()
    for cid in range(20):
        bench.do(admin, commands.identify(0xFF), length=4096, cid=cid)
    page = log(bench, admin, LogId.ERROR, 1024)
    newest, last = ErrorEntry.decode(page), ErrorEntry.decode(page[15 * 64 :])
    assert (newest.error_count, newest.cid, last.error_count) == (20, 19, 5)
    assert newest.status_field >> 1 == INVALID
    assert newest.opcode == AdminOpcode.IDENTIFY
    assert SmartLog.decode(log(bench, admin, LogId.SMART, 512)).error_log_entries == 20


def test_parts_of_a_page(bench: Bench) -> None:
    admin = bench.admin()
    whole = log(bench, admin, LogId.COMMANDS_EFFECTS, 4096)
    parts = [
        log(bench, admin, LogId.COMMANDS_EFFECTS, 512, offset=at) for at in range(0, 4096, 512)
    ]
    assert b"".join(parts) == whole
    assert log(bench, admin, LogId.SMART, 1024)[512:] == bytes(512)
    assert log(bench, admin, LogId.SMART, 4, offset=512) == bytes(4)


@pytest.mark.parametrize(
    ("sqe", "length", "status"),
    [
        (commands.get_log_page(2, 512, offset=516), 512, INVALID),
        (commands.get_log_page(2, 512, offset=1 << 40), 512, INVALID),
        (Sqe(2, cdw10=2 | 127 << 16, cdw12=2).encode(), 512, INVALID),
        (Sqe(2, cdw10=2 | 127 << 16, cdw14=1 << 23).encode(), 512, INVALID),
        (commands.get_log_page(2, 512), 508, Status.SGL_DATA_LENGTH_INVALID | DNR),
        (commands.get_log_page(2, 1 << 30), 512, Status.SGL_DATA_LENGTH_INVALID | DNR),
        (commands.get_log_page(2, (1 << 20) + 4), (1 << 20) + 4, INVALID),
        (commands.get_log_page(0x70, 1024), 1024, Status.INVALID_LOG_PAGE | DNR),
        (commands.get_log_page(0xD, 16), 16, Status.INVALID_LOG_PAGE | DNR),
        (commands.get_log_page(5, 4096, csi=2), 4096, Status.INVALID_LOG_PAGE | DNR),
    ],
)
def test_log_page_that_cannot_be_had(bench: Bench, sqe: bytes, length: int, status: int) -> None:
    assert bench.do(bench.admin(), sqe, length=length).status == status


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
