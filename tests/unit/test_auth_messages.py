# SPDX-License-Identifier: BSD-3-Clause
"""Messages: their bytes, and that any bytes either parse or fail with a reason."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nvmf.spec import commands
from nvmf.spec.auth import (
    MAX_MESSAGE,
    AuthCommand,
    AuthId,
    DhGroup,
    Hash,
    Header,
    MessageError,
    Reason,
)
from nvmf.spec.auth_messages import Challenge, Failure, Negotiate, Reply, Success1, Success2
from nvmf.spec.fabrics import ConnectResult
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import Status, StatusError
from wire import dhchap

# The first message of a Linux 6.12 host: three hashes, six groups, 72 bytes.
LINUX_NEGOTIATE = bytes.fromhex("00000000 0100 00 0101 00 03 06010203") + bytes(27)
LINUX_NEGOTIATE += bytes.fromhex("000102030405") + bytes(24)


def test_negotiate_of_linux() -> None:
    offer = Negotiate.parse(LINUX_NEGOTIATE)
    assert (offer.t_id, offer.sc_c) == (1, 0)
    assert (offer.hashes, offer.groups) == ((1, 2, 3), (0, 1, 2, 3, 4, 5))
    assert Negotiate(1, list(Hash), list(DhGroup)).encode() == LINUX_NEGOTIATE
    assert dhchap.negotiate(1, b"\1\2\3", b"\0\1\2\3\4\5") == LINUX_NEGOTIATE


def test_bytes_of_the_others() -> None:
    c1, dh = bytes(range(32)), bytes(256)
    challenge = Challenge(0x1234, Hash.SHA_256, DhGroup.FFDHE_2048, 0x11223344, c1, dh)
    assert challenge.encode() == bytes.fromhex("01010000341220000101000144332211") + c1 + dh
    assert Challenge.parse(challenge.encode()) == challenge
    reply = Reply(7, b"r" * 48, b"c" * 48, 9, b"")
    assert reply.encode() == dhchap.reply(7, b"r" * 48, b"c" * 48, 9)
    assert reply.encode()[:16] == bytes.fromhex("01020000070030000100000009000000")
    assert Reply.parse(reply.encode(), Hash.SHA_384, DhGroup.NULL) == reply
    plain = Reply(7, b"r" * 32)
    assert plain.encode() == dhchap.reply(7, b"r" * 32)
    assert Reply.parse(plain.encode(), Hash.SHA_256, DhGroup.NULL) == plain
    success = Success1(7, Hash.SHA_512, b"r" * 64)
    assert success.encode() == bytes.fromhex("01030000070040000100000000000000") + b"r" * 64
    assert Success1.parse(success.encode(), Hash.SHA_512) == success
    # HL is set although there is no response: Linux checks it in any case.
    assert Success1(7, Hash.SHA_256).encode() == bytes.fromhex("01030000070020000000000000000000")
    assert Success2(t_id=7).encode() == dhchap.success2(7)
    failure = Failure(auth_id=AuthId.FAILURE2, t_id=7, rcode_explanation=Reason.HASH_NOT_USABLE)
    assert failure.encode() == dhchap.failure2(7, 4)
    assert Failure(t_id=7).encode() == bytes.fromhex("00f1000007000101")


def test_commands() -> None:
    sqe = Sqe.decode(commands.authentication_send(72))
    assert sqe.encode()[40:48] == bytes.fromhex("000101e948000000")
    assert (sqe.opcode, sqe.fctype) == (0x7F, 5)
    assert AuthCommand.of(sqe.cdw10, sqe.cdw11).length == 72
    assert Sqe.decode(commands.authentication_receive(4096)).fctype == 6
    assert ConnectResult(cntlid=1, atr=1).encode() == 0x20001


@pytest.mark.parametrize("cdw10", [0, 0xE9000000, 0xE9010000, 0xE9000100, 0x00010100, 0xE8010100])
def test_commands_of_another_protocol(cdw10: int) -> None:
    with pytest.raises(StatusError) as caught:
        AuthCommand.of(cdw10, 72)
    assert caught.value.status == Status.INVALID_FIELD
    with pytest.raises(StatusError):
        AuthCommand.of(0xE9010100, 0)


def reason(call: Callable[..., Any], *args: Any) -> Reason:
    with pytest.raises(MessageError) as caught:
        call(*args)
    return caught.value.reason


def test_negotiate_that_is_none() -> None:
    good = LINUX_NEGOTIATE
    for bad in (b"", good[:7], good[:-1], good + b"\0", good[:7] + b"\2" + good[8:]):
        assert reason(Negotiate.parse, bad) == Reason.INCORRECT_PAYLOAD
    for index in (10, 11):  # lists longer than the room for them
        bad = good[:index] + b"\x1f" + good[index + 1 :]
        assert reason(Negotiate.parse, bad) == Reason.INCORRECT_PAYLOAD
    assert reason(Negotiate.parse, dhchap.negotiate(1, authid=2)) == Reason.PROTOCOL_NOT_USABLE
    assert reason(Negotiate.parse, dhchap.negotiate(1, napd=0)) == Reason.PROTOCOL_NOT_USABLE


def test_negotiate_with_a_protocol_before_ours() -> None:
    two = dhchap.negotiate(3, napd=2)
    other = two[:8] + b"\x77" + two[9:]
    assert Negotiate.parse(other).hashes == (1, 2, 3)


def test_headers() -> None:
    assert reason(Header.parse, bytes(5)) == Reason.INCORRECT_PAYLOAD
    for kind, name in ((0, 1), (0, 2), (1, 0), (1, 5), (1, 0xF0), (1, 0xF1), (2, 1), (0, 0xF2)):
        assert reason(Header.parse, bytes([kind, name]) + bytes(4)) == Reason.INCORRECT_MESSAGE


def challenge(**changes: int) -> bytes:
    values = {"hl": 32, "hash": 1, "group": 0, "dhvlen": 0, "seqnum": 1} | changes
    return struct.pack("<BB2xHBxBBHI", 1, 1, 5, *values.values()) + bytes(64)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"hash": 0}, Reason.HASH_NOT_USABLE),
        ({"hash": 4}, Reason.HASH_NOT_USABLE),
        ({"group": 6}, Reason.DHGROUP_NOT_USABLE),
        ({"hl": 48}, Reason.INCORRECT_PAYLOAD),
        ({"hl": 0}, Reason.INCORRECT_PAYLOAD),
        ({"dhvlen": 1}, Reason.INCORRECT_PAYLOAD),
        ({"group": 1}, Reason.INCORRECT_PAYLOAD),
        ({"group": 1, "dhvlen": 257}, Reason.INCORRECT_PAYLOAD),
        ({"group": 1, "dhvlen": 256}, Reason.INCORRECT_PAYLOAD),
        ({"seqnum": 0}, Reason.INCORRECT_PAYLOAD),
    ],
)
def test_bad_challenge(changes: dict[str, int], expected: Reason) -> None:
    assert reason(Challenge.parse, challenge(**changes)) == expected


def test_reply_of_another_length() -> None:
    good = dhchap.reply(1, bytes(32), bytes(32), 1)
    for bad in (good[:15], good[:-1], good + b"\0", good[:6] + b"\x30" + good[7:]):
        assert reason(Reply.parse, bad, Hash.SHA_256, DhGroup.NULL) == Reason.INCORRECT_PAYLOAD
    assert reason(Reply.parse, good, Hash.SHA_384, DhGroup.NULL) == Reason.INCORRECT_PAYLOAD
    assert reason(Reply.parse, good, Hash.SHA_256, DhGroup.FFDHE_2048) == Reason.INCORRECT_PAYLOAD
    for cvalid, seqnum in ((2, 1), (1, 0)):
        bad = good[:8] + bytes([cvalid]) + good[9:12] + struct.pack("<I", seqnum) + good[16:]
        assert reason(Reply.parse, bad, Hash.SHA_256, DhGroup.NULL) == Reason.INCORRECT_PAYLOAD


def test_the_longest_message_fits() -> None:
    longest = Reply(1, bytes(64), bytes(64), 1, bytes(DhGroup.FFDHE_8192.size))
    assert len(longest.encode()) == 1168 < MAX_MESSAGE


PARSERS: list[Callable[[bytes], Any]] = [
    Header.parse,
    Negotiate.parse,
    Challenge.parse,
    Failure.parse,
    Success2.parse,
    *(lambda data, h=h: Success1.parse(data, h) for h in Hash),
    *(lambda data, h=h, g=g: Reply.parse(data, h, g) for h in Hash for g in DhGroup),
]


@given(st.binary(max_size=1200))
@example(LINUX_NEGOTIATE)
@example(challenge())
def test_any_bytes_parse_or_fail_with_a_reason(data: bytes) -> None:
    """Invariant: a parser returns, or raises MessageError; its result can be encoded."""
    for parse in PARSERS:
        try:
            found = parse(data)
        except MessageError:
            continue
        assert isinstance(found.encode(), bytes)
