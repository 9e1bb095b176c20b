# SPDX-License-Identifier: BSD-3-Clause
"""Connect with every possible error, properties, Disconnect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nvmf.auth import HostKeys, Key
from nvmf.spec import commands
from nvmf.spec.fabrics import ConnectData, ConnectInvalid, ConnectResult
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.opcodes import AdminOpcode, FabricsType
from nvmf.spec.properties import Cap, Cc, Crto, Csts, Property
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import DNR, Status
from nvmf.target.model.queue import Queue
from support.faketarget import ENABLED, HOST, NQN, Bench, FakeHandle
from wire import dhchap

SEQUENCE = Status.COMMAND_SEQUENCE_ERROR | DNR
INVALID = Status.INVALID_FIELD | DNR
OPCODE = Status.INVALID_OPCODE | DNR


def handle(queue: Queue) -> FakeHandle:
    assert isinstance(queue.handle, FakeHandle)
    return queue.handle


@pytest.mark.feature("connect")
def test_connect_of_an_admin_queue() -> None:
    bench = Bench()
    queue = bench.queue()
    done = bench.connect(queue)
    assert done.status == 0
    assert ConnectResult.decode(done.dw0) == ConnectResult(cntlid=1)
    assert queue.controller is bench.subsystem.controllers[1]
    assert handle(queue).calls == [("connected", 32, None)]


@pytest.mark.feature("connect")
def test_connect_without_flow_control() -> None:
    bench = Bench()
    queue = bench.queue()
    assert bench.connect(queue, disable_sq_flow_control=True).status == 0
    assert handle(queue).calls == [("connected", 0, None)]


@pytest.mark.feature("connect")
def test_connect_of_an_io_queue_shows_the_namespaces() -> None:
    bench = Bench()
    table = type("Table", (), {"set": lambda *_: None})()
    bench.subsystem.make_table = lambda: table
    queue = bench.io(bench.admin(), 1)
    assert handle(queue).calls == [("connected", 128, table), ("enable", True)]


@pytest.mark.parametrize(
    ("fields", "status", "invalid"),
    [
        ({"subnqn": NQN + "x"}, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(256, 1)),
        ({"subnqn": ""}, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(256, 1)),
        ({"hostnqn": "nqn\tx"}, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(512, 1)),
        ({"cntlid": 1}, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(16, 1)),
        ({"cntlid": 0xFFFE}, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(16, 1)),
        ({"sqsize": 0}, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(44)),
        ({"sqsize": 32}, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(44)),
        ({"qid": 1}, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(42)),
        ({"hostid": bytes(16)}, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(0, 1)),
    ],
)
def test_bad_admin_connect(fields: dict[str, Any], status: Status, invalid: Any) -> None:
    bench = Bench()
    queue = bench.queue()
    done = bench.connect(queue, **fields)
    assert done.status == status | DNR
    assert ConnectInvalid.decode(done.dw0) == invalid
    assert queue.controller is None
    assert handle(queue).calls == []
    # It leaves no state: the next Connect is treated like the first.
    assert bench.connect(queue).status == 0


def test_host_without_a_name() -> None:
    """SPDK's perf sends no HOSTNQN if none is configured."""
    bench = Bench()
    admin = bench.admin(hostnqn="")
    assert str(admin.controller).endswith("for a host without an NQN")
    bench.io(admin)
    # Adding a name later makes it a different host.
    done = bench.connect(bench.queue(2, 128), cntlid=1)
    assert ConnectInvalid.decode(done.dw0) == ConnectInvalid(512, 1)


@pytest.mark.parametrize("case", ["an allow list", "a list with a host", "a key"])
def test_host_without_a_name_where_names_count(case: str) -> None:
    bench = Bench()
    if case == "a key":
        bench.subsystem.keys = {HOST: HostKeys(Key.parse(dhchap.key_text(b"h" * 32)))}
    else:
        bench.subsystem.allow_any_host = False
        bench.subsystem.hosts = frozenset({HOST} if case == "a list with a host" else ())
    done = bench.connect(bench.queue(), hostnqn="")
    assert done.status == Status.CONNECT_INVALID_PARAMETERS | DNR
    assert ConnectInvalid.decode(done.dw0) == ConnectInvalid(512, 1)


@pytest.mark.feature("allow-list")
def test_host_that_may_not() -> None:
    bench = Bench()
    bench.subsystem.allow_any_host = False
    done = bench.connect(bench.queue())
    assert done.status == Status.CONNECT_INVALID_HOST | DNR
    assert ConnectInvalid.decode(done.dw0) == ConnectInvalid(512, 1)
    bench.subsystem.hosts = frozenset({HOST})
    assert bench.connect(bench.queue()).status == 0


def test_text_that_stands_for_other_bytes_is_not_the_host() -> None:
    bench = Bench()
    bench.subsystem.allow_any_host = False
    bench.subsystem.hosts = frozenset({"nqn.2014-08.org.example:\\xff"})
    data = bytearray(ConnectData(subnqn=NQN, hostnqn="nqn.2014-08.org.example:?").encode())
    data[512 + 24] = 0xFF
    done = bench.do(bench.queue(), commands.connect(0, 31), bytes(data))
    assert done.status == Status.CONNECT_INVALID_PARAMETERS | DNR


def test_nqn_without_its_end() -> None:
    bench = Bench()
    data = bytearray(ConnectData(subnqn=NQN, hostnqn=HOST).encode())
    data[256:512] = b"n" * 256
    done = bench.do(bench.queue(), commands.connect(0, 31), bytes(data))
    assert ConnectInvalid.decode(done.dw0) == ConnectInvalid(256, 1)


@pytest.mark.parametrize("length", [0, 1023, 1025])
def test_connect_data_of_another_length(length: int) -> None:
    bench = Bench()
    done = bench.do(bench.queue(), commands.connect(0, 31), bytes(length))
    assert done.status == Status.SGL_DATA_LENGTH_INVALID | DNR


def test_connect_of_another_format() -> None:
    bench = Bench()
    sqe = replace(Sqe.decode(commands.connect(0, 31)), cdw10=1).encode()
    assert bench.do(bench.queue(), sqe, bytes(1024)).status == Status.INCOMPATIBLE_FORMAT | DNR


@pytest.mark.parametrize(
    ("fields", "depth", "qid", "status", "invalid"),
    [
        ({"cntlid": 2}, 128, 1, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(16, 1)),
        ({"hostnqn": HOST + "2"}, 128, 1, Status.CONNECT_INVALID_PARAMETERS,
         ConnectInvalid(512, 1)),
        ({"hostid": bytes(16)}, 128, 1, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(0, 1)),
        ({}, 128, 65, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(42)),
        ({}, 129, 1, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(44)),
        ({"sqsize": 0}, 128, 1, Status.CONNECT_INVALID_PARAMETERS, ConnectInvalid(44)),
    ],
)  # fmt: skip
def test_bad_io_connect(
    fields: dict[str, Any], depth: int, qid: int, status: Status, invalid: Any
) -> None:
    bench = Bench()
    bench.admin()
    done = bench.connect(bench.queue(qid, depth), **{"cntlid": 1, **fields})
    assert done.status == status | DNR
    assert ConnectInvalid.decode(done.dw0) == invalid


def test_queue_in_use() -> None:
    bench = Bench()
    admin = bench.admin()
    bench.io(admin, 1)
    assert bench.connect(bench.queue(1, 128), cntlid=1).status == SEQUENCE


def test_io_queue_of_a_controller_that_is_not_enabled() -> None:
    bench = Bench()
    bench.connect(bench.queue())
    assert bench.connect(bench.queue(1, 128), cntlid=1).status == SEQUENCE


def test_io_queue_of_a_discovery_controller() -> None:
    bench = Bench()
    bench.admin(subnqn=DISCOVERY_NQN)
    done = bench.connect(bench.queue(1, 128), cntlid=1, subnqn=DISCOVERY_NQN)
    assert ConnectInvalid.decode(done.dw0) == ConnectInvalid(42)


@pytest.mark.parametrize("sqe", [commands.identify(), commands.property_get(0, 8),
                                 commands.read(1, 0, 1), commands.disconnect()])  # fmt: skip
def test_capsule_before_connect(sqe: bytes) -> None:
    bench = Bench()
    assert bench.do(bench.queue(), sqe).status == SEQUENCE


def test_second_connect() -> None:
    bench = Bench()
    assert bench.connect(bench.admin()).status == SEQUENCE


def test_controller_identifiers_are_not_used_again_at_once() -> None:
    bench = Bench()
    first = bench.admin()
    bench.core.closed(first)
    second = bench.admin()
    assert second.controller is not None
    assert second.controller.cntlid == 2
    bench.core._last_cntlid = 0xFFEE
    assert [bench.core.allocate_cntlid(), bench.core.allocate_cntlid()] == [0xFFEF, 1]


# ---- properties ----


def read(bench: Bench, queue: Queue, offset: int, size: int = 4) -> int:
    done = bench.do(queue, commands.property_get(offset, size))
    assert done.status == 0
    return done.dw1 << 32 | done.dw0


@pytest.mark.feature("connect")
def test_capabilities() -> None:
    bench = Bench()
    queue = bench.queue()
    bench.connect(queue)
    assert Cap.decode(read(bench, queue, Property.CAP, 8)) == Cap(
        mqes=127, cqr=1, to=60, css_nvm=1, css_sets=1, crwms=1
    )
    assert read(bench, queue, Property.VS) == 0x20000
    assert Crto.decode(read(bench, queue, Property.CRTO)) == Crto(60, 60)


@pytest.mark.parametrize(
    ("offset", "size"),
    [(0, 4), (0x14, 8), (0x1C, 8), (4, 4), (0x0C, 4), (0x24, 4), (0x28, 8), (0x20, 4),
     (0x1000, 4), (0xFFFFFFFF, 8)],
)  # fmt: skip
def test_property_that_cannot_be_read(offset: int, size: int) -> None:
    bench = Bench()
    assert bench.do(bench.admin(), commands.property_get(offset, size)).status == INVALID


def test_property_of_a_reserved_size() -> None:
    bench = Bench()
    sqe = Sqe(AdminOpcode.FABRICS, FabricsType.PROPERTY_GET, cdw10=2, cdw11=Property.CC).encode()
    assert bench.do(bench.admin(), sqe).status == INVALID


@pytest.mark.parametrize(("offset", "size"), [(0, 8), (8, 4), (0x1C, 4), (0x14, 8), (0x20, 4)])
def test_property_that_cannot_be_written(offset: int, size: int) -> None:
    bench = Bench()
    assert bench.do(bench.admin(), commands.property_set(offset, 1, size)).status == INVALID


@pytest.mark.parametrize(
    "cc",
    [
        Cc(en=1, css=6, iosqes=0, iocqes=4),
        Cc(en=1, css=6, iosqes=6, iocqes=0),
        Cc(en=1, css=6, iosqes=6, iocqes=4, mps=1),
        Cc(en=1, css=6, iosqes=6, iocqes=4, ams=1),
        Cc(en=1, css=7, iosqes=6, iocqes=4),
        Cc(en=1, css=1, iosqes=6, iocqes=4),
    ],
)
def test_configuration_that_cannot_be_had(cc: Cc) -> None:
    bench = Bench()
    queue = bench.queue()
    bench.connect(queue)
    assert bench.do(queue, commands.property_set(Property.CC, cc.encode())).status == 0
    assert Csts.decode(read(bench, queue, Property.CSTS)) == Csts(cfs=1)
    assert bench.do(queue, commands.identify(), length=4096).status == SEQUENCE
    # A reset clears the state.
    bench.do(queue, commands.property_set(Property.CC, 0))
    bench.do(queue, commands.property_set(Property.CC, ENABLED))
    assert Csts.decode(read(bench, queue, Property.CSTS)) == Csts(rdy=1)


@pytest.mark.feature("connect")
def test_reset_ends_the_io_queues() -> None:
    bench = Bench()
    admin = bench.admin()
    io = bench.io(admin)
    bench.do(admin, commands.property_set(Property.CC, ENABLED & ~1))
    assert Csts.decode(read(bench, admin, Property.CSTS)) == Csts()
    assert handle(io).calls[-2:] == [("enable", False), ("disconnect",)]
    assert bench.do(admin, commands.identify(), length=4096).status == SEQUENCE


@pytest.mark.feature("connect")
def test_shutdown() -> None:
    bench = Bench()
    admin = bench.admin()
    io = bench.io(admin)
    bench.do(admin, commands.property_set(Property.CC, ENABLED | 1 << 14))
    assert Csts.decode(read(bench, admin, Property.CSTS)).shst == 2
    assert handle(io).calls[-1] == ("enable", False)
    assert bench.do(admin, commands.identify(), length=4096).status == SEQUENCE
    bench.do(admin, commands.property_set(Property.CC, 0))
    bench.do(admin, commands.property_set(Property.CC, ENABLED))
    assert bench.do(admin, commands.identify(), length=4096).status == 0


# ---- other commands of queues ----


@pytest.mark.feature("disconnect")
def test_disconnect() -> None:
    bench = Bench()
    admin = bench.admin()
    io = bench.io(admin)
    assert bench.do(admin, commands.disconnect()).status == Status.INVALID_QUEUE_TYPE | DNR
    assert bench.do(io, commands.disconnect()).status == 0
    assert io.leaving
    bench.core.closed(io)
    assert admin.controller is not None
    assert admin.controller.io_queues == {}
    bench.io(admin, 1)


def test_losing_the_admin_queue_ends_the_others() -> None:
    bench = Bench()
    admin = bench.admin()
    io = bench.io(admin)
    bench.core.closed(admin)
    assert handle(io).calls[-1] == ("disconnect",)
    assert bench.subsystem.controllers == {}
    assert bench.core.closed(io) == []


@pytest.mark.parametrize("fctype", [0x02, 0x05, 0x06, 0x7F, 0xC0])
def test_unknown_fabrics_command(fctype: int) -> None:
    bench = Bench()
    assert bench.do(bench.admin(), Sqe(0x7F, fctype).encode()).status == OPCODE


def test_properties_are_for_admin_queues() -> None:
    bench = Bench()
    io = bench.io(bench.admin())
    assert bench.do(io, commands.property_get(Property.CSTS)).status == OPCODE


@pytest.mark.parametrize("opcode", [0x03, 0x06, 0x12, 0x90])
def test_unknown_io_command(opcode: int) -> None:
    bench = Bench()
    io = bench.io(bench.admin())
    assert bench.do(io, Sqe(opcode, 1).encode()).status == OPCODE


@pytest.mark.parametrize("flags", [0x00, 0x80, 0xC0, 0x41, 0x42])
def test_fused_or_without_sgl(flags: int) -> None:
    bench = Bench()
    queue = bench.admin()
    sqe = bytearray(commands.keep_alive())
    sqe[1] = flags
    done = bench.core.handle(queue, bytes(sqe), b"", bench.now)
    assert done is not None
    assert done.status == INVALID
