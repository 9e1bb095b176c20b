# SPDX-License-Identifier: BSD-3-Clause
"""The error log: errors found by Python and by the engine, in one order, for one controller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nvmf.spec import commands
from nvmf.spec.logs import ErrorEntry, SmartLog
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.opcodes import AdminOpcode, LogId
from nvmf.spec.sqe import PSDT_SGL, Sqe
from nvmf.spec.status import DNR, Status
from nvmf.target.model.queue import Queue
from support.faketarget import Bench, FakeHandle


def refused(queue: Queue, cid: int, when: float, **fields: Any) -> None:
    """The engine refuses a Read on a queue."""
    assert isinstance(queue.handle, FakeHandle)
    error = {"when": when, "cid": cid, "status": Status.LBA_OUT_OF_RANGE | DNR, "nsid": 1,
             "lba": 1 << 40, "location": 40, "opcode": 2}  # fmt: skip
    queue.handle.refused.append(error | fields)


def entries(bench: Bench, admin: Queue) -> list[ErrorEntry]:
    """Return the log as a host reads it, after checking SMART's count."""
    done = bench.do(admin, commands.get_log_page(LogId.ERROR, 1024), length=1024)
    found = [ErrorEntry.decode(done.data[at : at + 64]) for at in range(0, 1024, 64)]
    smart = bench.do(admin, commands.get_log_page(LogId.SMART, 512), length=512)
    assert SmartLog.decode(smart.data).error_log_entries == found[0].error_count
    return [entry for entry in found if entry.error_count]


def test_the_order_is_that_of_time() -> None:
    bench = Bench()
    admin = bench.admin()
    first, second = bench.io(admin), bench.io(admin, 2)
    refused(second, 21, 3.0)
    refused(first, 11, 1.0)
    refused(second, 20, 2.0)
    bench.do(admin, commands.identify(0xFF), length=4096, cid=5)
    refused(first, 12, 9.0)
    found = entries(bench, admin)
    assert [entry.cid for entry in found] == [12, 5, 21, 20, 11]
    assert [entry.error_count for entry in found] == [5, 4, 3, 2, 1]
    assert [entry.sqid for entry in found] == [1, 0, 2, 2, 1]
    newest = found[0]
    assert newest.status_field >> 1 == Status.LBA_OUT_OF_RANGE | DNR
    assert (newest.lba, newest.nsid, newest.opcode) == (1 << 40, 1, 2)
    assert newest.parameter_error_location == 40
    assert entries(bench, admin) == found, "read again, it is the same"


def test_what_was_overwritten_is_counted() -> None:
    bench = Bench()
    admin = bench.admin()
    io = bench.io(admin)
    for number in range(40):
        refused(io, number, float(number))
    found = entries(bench, admin)
    assert [entry.error_count for entry in found] == list(range(40, 24, -1))
    assert [entry.cid for entry in found] == list(range(39, 23, -1))


def test_each_controller_has_its_own() -> None:
    bench = Bench()
    one, other = bench.admin(), bench.admin()
    refused(bench.io(one), 1, 1.0)
    assert len(entries(bench, one)) == 1
    done = bench.do(other, commands.get_log_page(LogId.ERROR, 1024), length=1024)
    assert not any(done.data)


def test_errors_of_a_queue_outlive_it() -> None:
    bench = Bench()
    admin = bench.admin()
    io = bench.io(admin)
    refused(io, 1, 1.0)
    bench.core.closed(io)
    again = bench.io(admin)
    refused(again, 2, 2.0)
    assert [entry.cid for entry in entries(bench, admin)] == [2, 1]


def test_a_write_uncorrectable_has_its_block() -> None:
    bench = Bench()
    bench.add_namespace(1)
    admin = bench.admin()
    io = bench.io(admin)
    done = bench.do(io, commands.write_uncorrectable(1, 1 << 40, 1))
    assert done.status == Status.LBA_OUT_OF_RANGE | DNR
    bench.do(admin, commands.get_features(0xFF), cid=3)
    newest, before = entries(bench, admin)
    assert (newest.cid, newest.lba) == (3, 0)
    assert (before.opcode, before.lba, before.parameter_error_location) == (4, 1 << 40, 40)


def test_fabrics_commands_have_no_namespace() -> None:
    bench = Bench()
    admin = bench.admin()
    bench.do(admin, commands.property_get(0x9999), cid=3)
    assert [(entry.cid, entry.nsid, entry.opcode) for entry in entries(bench, admin)] == [
        (3, 0, 0x7F)
    ]


@pytest.mark.parametrize(
    ("sqe", "place"),
    [
        (Sqe(0xC5), 0),
        (Sqe(AdminOpcode.FABRICS, nsid=0x70), 4),
        (Sqe(AdminOpcode.IDENTIFY, flags=1), 1),
        (Sqe(AdminOpcode.IDENTIFY, flags=PSDT_SGL), 1 | 6 << 8),
        (Sqe(AdminOpcode.IDENTIFY, cdw10=0xFF), 40),
        (Sqe(AdminOpcode.IDENTIFY, cdw10=5, cdw11=7 << 24), 47),
        (Sqe(AdminOpcode.IDENTIFY, nsid=0xFFFF0000, cdw10=0), 4),
        (Sqe(AdminOpcode.GET_LOG_PAGE, cdw10=0xC0 | 1023 << 16), 40),
        (Sqe(AdminOpcode.GET_LOG_PAGE, cdw10=1 | 1023 << 16, cdw12=2), 48),
        (Sqe(AdminOpcode.GET_LOG_PAGE, cdw10=1 | 1023 << 16, cdw14=1 << 23), 58 | 7 << 8),
        (Sqe(AdminOpcode.GET_LOG_PAGE, cdw10=5 | 1023 << 16, cdw14=9 << 24), 59),
        (Sqe(AdminOpcode.GET_FEATURES, cdw10=0xC0), 40),
        (Sqe(AdminOpcode.GET_FEATURES, cdw10=0x0F | 3 << 8), 41),
        (Sqe(AdminOpcode.SET_FEATURES, cdw10=0x0F | 1 << 31), 43 | 7 << 8),
        (Sqe(AdminOpcode.SET_FEATURES, cdw10=0x0B, cdw11=1 << 30), 44),
        (Sqe(AdminOpcode.ABORT, cdw10=77), 40),
        (Sqe(AdminOpcode.KEEP_ALIVE, sgl1=bytes(8) + b"\x08\0\0\0" + bytes(3) + b"\x01"), 24),
    ],
)
def test_where_the_fault_is(sqe: Sqe, place: int) -> None:
    """Byte and bit of the parameter (figure 206): reported to the host if the target knows them."""
    bench = Bench()
    admin = bench.admin()
    sqe = replace(sqe, flags=sqe.flags ^ PSDT_SGL)
    completion = bench.core.handle(admin, sqe.encode(), b"", bench.now)
    assert completion is not None
    assert completion.status
    assert entries(bench, admin)[0].parameter_error_location == place


def test_what_is_about_no_parameter_says_so() -> None:
    bench = Bench()
    admin = bench.admin()
    for _ in range(5):
        bench.run(admin, commands.async_event_request())
    assert entries(bench, admin)[0].parameter_error_location == 0xFFFF


def test_of_a_discovery_controller() -> None:
    """Completions of a discovery controller have More set, and Identify has the number of
    entries.
    """
    bench = Bench()
    admin = bench.admin(subnqn=DISCOVERY_NQN)
    bench.do(admin, commands.identify(0x05), length=4096, cid=9)
    done = bench.do(admin, commands.get_log_page(LogId.ERROR, 64, nsid=0), length=64)
    entry = ErrorEntry.decode(done.data)
    assert (entry.cid, entry.parameter_error_location) == (9, 40)
    done = bench.do(admin, commands.get_log_page(LogId.SUPPORTED_PAGES, 1024), length=1024)
    assert done.data[4 * LogId.ERROR] & 1
