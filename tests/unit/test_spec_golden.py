# SPDX-License-Identifier: BSD-3-Clause
"""Invariant: recorded data of Linux can be decoded, and encodes to the same bytes again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvmf.spec import commands
from nvmf.spec.cm import CmReply, CmRequest
from nvmf.spec.cqe import Cqe
from nvmf.spec.fabrics import (
    ConnectCommand,
    ConnectData,
    ConnectResult,
    decode_discovery_log,
    encode_discovery_log,
)
from nvmf.spec.identify import (
    IdentifyController,
    IdentifyNamespace,
    decode_descriptors,
    decode_namespace_list,
    encode_namespace_list,
)
from nvmf.spec.logs import SmartLog, decode_effects, encode_effects
from nvmf.spec.opcodes import AdminOpcode, Cns, FabricsType, LogId
from nvmf.spec.properties import Cap, Cc, Csts, Property
from nvmf.spec.sgl import Sgl, SglType
from nvmf.spec.sqe import LogRequest, Sqe
from support.faketarget import Exchange, dialogue

ALL = [exchange for name in ("discovery", "admin", "io") for exchange in dialogue(name).exchanges]


def find(name: str, opcode: int, **fields: int) -> Exchange:
    for exchange in dialogue(name).exchanges:
        sqe = Sqe.decode(exchange.sqe)
        if sqe.opcode == opcode and all(getattr(sqe, k) == v for k, v in fields.items()):
            return exchange
    raise LookupError(fields)


def result(exchange: Exchange) -> Cqe:
    assert exchange.cqe is not None
    return Cqe.decode(exchange.cqe)


@pytest.mark.parametrize("exchange", ALL)
def test_entries_survive(exchange: Exchange) -> None:
    sqe = Sqe.decode(exchange.sqe)
    assert sqe.encode() == exchange.sqe
    assert sqe.psdt == 1
    assert sqe.fuse == 0
    assert sqe.sgl.encode() == sqe.sgl1
    if exchange.cqe is not None:
        cqe = result(exchange)
        assert cqe.encode() == exchange.cqe
        assert cqe.cid == sqe.cid


@pytest.mark.parametrize(
    ("name", "qid", "hrqsize", "hsqsize", "cntlid", "crqsize"),
    [("discovery", 0, 32, 31, 0, 32), ("admin", 0, 32, 31, 0, 32), ("io", 1, 128, 127, 1, 128)],
)
def test_private_data(
    name: str, qid: int, hrqsize: int, hsqsize: int, cntlid: int, crqsize: int
) -> None:
    recorded = dialogue(name)
    assert CmRequest.decode(recorded.req) == CmRequest(0, qid, hrqsize, hsqsize, cntlid)
    assert CmRequest.decode(recorded.req).encode() == recorded.req
    assert CmReply.decode(recorded.rep) == CmReply(0, crqsize)
    assert CmReply.decode(recorded.rep).encode() == recorded.rep


def test_connect() -> None:
    exchange = find("admin", AdminOpcode.FABRICS, nsid=FabricsType.CONNECT)
    command = ConnectCommand.of(Sqe.decode(exchange.sqe))
    assert command == ConnectCommand(0, 0, 31, False, False, 5000)
    data = ConnectData.parse(exchange.host_data)
    assert data.cntlid == 0xFFFF
    assert data.encode() == exchange.host_data
    assert ConnectResult.decode(result(exchange).dw0) == ConnectResult(cntlid=1)


def test_connect_of_an_io_queue_brings_its_data_along() -> None:
    exchange = dialogue("io").exchanges[0]
    assert Sqe.decode(exchange.sqe).sgl == Sgl(SglType.IN_CAPSULE, 0, 1024)
    data = ConnectData.parse(exchange.host_data)
    assert data.cntlid == 1
    assert data.encode() == exchange.host_data


def test_properties() -> None:
    cap = find("admin", 0x7F, nsid=FabricsType.PROPERTY_GET, cdw11=Property.CAP)
    assert Cap.decode(result(cap).result) == Cap(mqes=127, to=15, css_nvm=1, css_sets=1)
    cc = find("admin", 0x7F, nsid=FabricsType.PROPERTY_SET, cdw12=0x460061)
    assert Cc.decode(Sqe.decode(cc.sqe).cdw12) == Cc(en=1, css=6, iosqes=6, iocqes=4)
    csts = find("admin", 0x7F, nsid=FabricsType.PROPERTY_GET, cdw11=Property.CSTS)
    assert Csts.decode(result(csts).dw0) == Csts(rdy=1)


def test_identify_controller() -> None:
    for name in ("admin", "discovery"):
        page = find(name, AdminOpcode.IDENTIFY, cdw10=Cns.CONTROLLER).target_data
        data = IdentifyController.decode(page)
        assert data.encode() == page
    data = IdentifyController.decode(
        find("admin", AdminOpcode.IDENTIFY, cdw10=Cns.CONTROLLER).target_data
    )
    assert (data.cntlid, data.kas, data.sqes, data.cqes) == (1, 10, 0x66, 0x44)
    assert (data.sgls, data.iorcsz, data.icdoff, data.aerl) == (0x100005, 1, 0, 3)
    assert data.in_capsule_bytes == 4096
    assert data.max_transfer_bytes() == 1 << 20


def test_identify_namespace() -> None:
    page = find("admin", AdminOpcode.IDENTIFY, cdw10=Cns.NAMESPACE).target_data
    data = IdentifyNamespace.decode(page)
    assert data.encode() == page
    assert data.nsze == data.ncap > 0
    assert data.block_size in (512, 4096)
    page = find("admin", AdminOpcode.IDENTIFY, cdw10=Cns.NAMESPACE_DESCRIPTORS).target_data
    ids = decode_descriptors(page)
    assert ids.uuid is not None
    assert ids.nguid is None
    assert data.nguid == bytes(16)
    assert ids.csi == 0
    page = find("admin", AdminOpcode.IDENTIFY, cdw10=Cns.ACTIVE_NAMESPACES).target_data
    assert decode_namespace_list(page) == [1]
    assert encode_namespace_list([1]) == page


def test_logs() -> None:
    page = find("admin", AdminOpcode.GET_LOG_PAGE, cdw10=0x7F0002).target_data
    assert SmartLog.decode(page).encode() == page
    page = find("admin", AdminOpcode.GET_LOG_PAGE, cdw10=0x3FF0005).target_data
    admin, io = decode_effects(page)
    assert AdminOpcode.IDENTIFY in admin
    assert 0x02 in io
    assert encode_effects(admin, io) == page


def test_discovery_log() -> None:
    whole = find("discovery", AdminOpcode.GET_LOG_PAGE, cdw10=0x2FF0070).target_data
    start = find("discovery", AdminOpcode.GET_LOG_PAGE, cdw10=0xFF8070)
    assert LogRequest.of(Sqe.decode(start.sqe)) == LogRequest(
        LogId.DISCOVERY, 1024, 0, 0, True, 0, False
    )
    header, entries = decode_discovery_log(whole)
    assert start.target_data == whole[:1024]
    assert header.numrec == len(entries) == 2
    encoded = encode_discovery_log(header.genctr, entries)
    # nvmet pads its service identifier with zeroes; ours has spaces, as in the specification.
    assert encoded.replace(b" ", b"\0") == whole.replace(b" ", b"\0")
    assert {entry.traddr for entry in entries} == {"10.77.0.2"}


def test_builders_say_what_linux_says() -> None:
    """The builders' commands equal Linux's, except for fields set by the engine: flags, command
    identifier and data pointer.
    """

    def same(name: str, built: bytes) -> None:
        wanted = replace(Sqe.decode(built), flags=0, cid=0, sgl1=bytes(16))
        recorded = [
            replace(Sqe.decode(e.sqe), flags=0, cid=0, sgl1=bytes(16))
            for e in dialogue(name).exchanges
        ]
        assert wanted in recorded

    same("discovery", commands.connect(0, 31))
    same("discovery", commands.get_log_page(LogId.DISCOVERY, 1024, nsid=0, rae=True))
    same("discovery", commands.get_log_page(LogId.DISCOVERY, 3072, nsid=0))
    same("admin", commands.connect(0, 31, kato_ms=5000))
    same("admin", commands.property_get(Property.CAP, 8))
    same("admin", commands.property_get(Property.CSTS))
    same("admin", commands.property_set(Property.CC, 0x460061))
    same("admin", commands.identify(Cns.CONTROLLER))
    same("admin", commands.identify(Cns.CSI_CONTROLLER))
    same("admin", commands.identify(Cns.NAMESPACE, 1))
    same("admin", commands.get_log_page(LogId.SMART, 512))
    same("admin", commands.get_log_page(LogId.COMMANDS_EFFECTS, 4096, nsid=0))
    same("admin", commands.set_number_of_queues(1))
    same("admin", commands.async_event_request())
    same("io", commands.connect(1, 127))
