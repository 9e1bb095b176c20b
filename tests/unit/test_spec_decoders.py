# SPDX-License-Identifier: BSD-3-Clause
"""Invariant: no bytes make a decoder raise anything but StatusError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmf.spec import cm, cqe, fabrics, features, identify, identify_ns, logs, sgl, sqe
from nvmf.spec.cm import CmRejectError, CmStatus
from nvmf.spec.layout import Structure
from nvmf.spec.nqn import is_valid_nqn, validate_nqn
from nvmf.spec.properties import Cap, Cc, Crto, Csts, Version
from nvmf.spec.status import NvmStatus, Status, StatusError, status_name

STRUCTURES: list[type[Structure]] = [
    cm.CmReject,
    cm.CmReply,
    cm.CmRequest,
    fabrics.ConnectData,
    fabrics.DiscoveryEntry,
    fabrics.DiscoveryHeader,
    features.HostBehavior,
    features.Timestamp,
    identify.IdentifyController,
    identify.IdentifyNvmController,
    identify_ns.IdentifyIndependentNamespace,
    identify_ns.IdentifyNamespace,
    identify_ns.IdentifyNvmNamespace,
    logs.ErrorEntry,
    logs.FirmwareSlotLog,
    logs.SmartLog,
]
DECODERS: list[Callable[[bytes], Any]] = [
    *(structure.decode for structure in STRUCTURES),
    fabrics.ConnectData.parse,
    fabrics.decode_discovery_log,
    identify.decode_controller_list,
    identify.decode_command_sets,
    identify.decode_namespace_list,
    identify_ns.decode_descriptors,
    logs.decode_changed_namespaces,
    logs.decode_effects,
    logs.decode_supported_pages,
    sgl.Sgl.decode,
    sqe.Sqe.decode,
    cqe.Cqe.decode,
]


def small_or_page() -> st.SearchStrategy[bytes]:
    """Short input, or a short pattern that fills a page."""
    return st.one_of(
        st.binary(max_size=200),
        st.binary(min_size=1, max_size=64).map(lambda part: (part * 4096)[:4096]),
        st.tuples(st.binary(max_size=64), st.sampled_from([512, 1024, 2048, 4096])).map(
            lambda pair: pair[0].ljust(pair[1], b"\0")
        ),
    )


@given(small_or_page())
def test_decoders_raise_nothing_else(data: bytes) -> None:
    for decode in DECODERS:
        try:
            decode(data)
        except StatusError as raised:
            seen = raised
            assert str(seen)
            assert 0 < seen.code < 0x8000


@given(small_or_page())
def test_identify_answers_questions_about_any_bytes(data: bytes) -> None:
    page = data.ljust(4096, b"\xff")
    namespace = identify_ns.IdentifyNamespace.decode(page)
    assert namespace.size >= 0
    assert namespace.metadata_size >= 0
    assert identify.IdentifyController.decode(page).in_capsule_bytes >= 0


@given(st.binary(min_size=64, max_size=64))
def test_any_command_can_be_looked_at(data: bytes) -> None:
    entry = sqe.Sqe.decode(data)
    assert entry.encode() == data
    assert sqe.LogRequest.of(entry).length >= 4
    fabrics.ConnectCommand.of(entry)
    assert fabrics.PropertyCommand.of(entry).size in (0, 4, 8)


@given(st.binary(min_size=16, max_size=16))
def test_any_descriptor_survives(data: bytes) -> None:
    found = sgl.Sgl.decode(data)
    if found.keyed:
        assert found.encode() == data
    else:
        assert sgl.Sgl.decode(found.encode()) == found


@given(st.integers(0, (1 << 64) - 1))
def test_registers_take_any_value(value: int) -> None:
    for register in (Cap, Cc, Csts, Crto, Version):
        found = register.decode(value)
        assert type(found).decode(found.encode()) == found


@pytest.mark.parametrize("structure", STRUCTURES)
def test_defaults_encode_to_their_size(structure: type[Structure]) -> None:
    encoded = structure().encode()
    assert len(encoded) == structure.SIZE
    assert structure.decode(encoded) == structure()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="cntlid = 65536"):
        fabrics.ConnectData(cntlid=65536).encode()
    with pytest.raises(ValueError, match="sn = "):
        identify.IdentifyController(sn="x" * 21).encode()
    with pytest.raises(ValueError, match="subnqn"):
        fabrics.ConnectData(subnqn="x" * 256).encode()
    with pytest.raises(ValueError, match="mqes"):
        Cap(mqes=1 << 16).encode()


def test_status_names() -> None:
    assert status_name(0x4182) == "Connect Invalid Parameters"
    assert status_name(0x4182, io=True) == "Attempted Write to Read Only Range"
    assert status_name(0x7FF) == "Status 7h/ffh"
    error = StatusError.from_wire(0x4002, "reading")
    assert (error.status, error.dnr, error.name) == (2, True, "Invalid Field in Command")
    assert str(error) == ("reading: Invalid Field in Command (SCT 0h, SC 02h, do not retry)")
    for kind in (Status, NvmStatus):
        assert len({member.title for member in kind}) == len(kind)


def test_reject_is_four_bytes() -> None:
    error = CmRejectError(CmStatus.INVALID_IRD, "no reads")
    assert error.encode() == bytes([0, 0, 7, 0])
    assert cm.CmReject.decode(error.encode()).sts == CmStatus.INVALID_IRD


@pytest.mark.parametrize(
    ("nqn", "good"),
    [
        ("nqn.2014-08.org.nvmexpress.discovery", True),
        ("nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6", True),
        ("nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765", True),
        ("nqn.2014-08.com.example:x y", True),
        ("nqn.2014-13.com.example:x", True),
        ("nqn.2014-08.com.example:" + "x" * 199, True),
        ("nqn.2014-08.com.example:" + "x" * 200, False),
        ("nqn.2014-08.com.example:", True),
        ("nqn.2014-08.com.example:a\nb", False),
        ("testnqn", True),
        ("x" * 223, True),
        ("\u00e9" * 112, False),
        ("test\0nqn", False),
        ("", False),
    ],
)
def test_nqn(nqn: str, good: bool) -> None:
    assert is_valid_nqn(nqn) is good
    if good:
        assert validate_nqn(nqn) == nqn
