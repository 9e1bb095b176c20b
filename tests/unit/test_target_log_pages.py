# SPDX-License-Identifier: BSD-3-Clause
"""Log pages of I/O controllers, as a host reads them."""

from __future__ import annotations

import struct

import pytest

from nvmf.spec import commands
from nvmf.spec.logs import (
    ErrorEntry,
    FirmwareSlotLog,
    SmartLog,
    decode_effects,
    decode_supported_pages,
)
from nvmf.spec.opcodes import AdminOpcode, FeatureId, LogId
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import DNR, Status
from support.faketarget import Bench, FakeNamespace
from support.faketarget import read_log as log

INVALID = Status.INVALID_FIELD | DNR
NAMESPACE = Status.INVALID_NAMESPACE_OR_FORMAT | DNR


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
    assert set(io) == {0, 1, 2, 4, 5, 8, 9, 0xC, 0xD, 0xE, 0x11, 0x15, 0x19}
    assert io[1].lbcc
    assert io[0x19].lbcc
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
