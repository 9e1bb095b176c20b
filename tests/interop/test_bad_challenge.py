# SPDX-License-Identifier: BSD-3-Clause
"""Targets whose DH-HMAC-CHAP is wrong: none of the client's queues connects to them, and a
sentence gives the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from support.responder import Connection, NvmeResponder
from support.served import FRIEND_NQN, SUBNQN
from wire import dhchap
from wire.nvme import FABRICS, Fctype

pytestmark = pytest.mark.usefixtures("need_client")
KEY = dhchap.key_text(bytes(range(32)))
CTRL_KEY = dhchap.key_text(bytes(range(32, 64)))
Answer = Callable[[bytes, int], bytes]
"""A function of the host's last message and the number of its messages: the answer."""
ATR = 1 << 17


def t_id(message: bytes) -> int:
    return int.from_bytes(message[4:6], "little")


def challenge(
    message: bytes,
    *,
    transaction: int | None = None,
    hl: int = 32,
    hashid: int = 1,
    group: int = 0,
    dhvlen: int | None = None,
    seqnum: int = 1,
    value: bytes = b"",
) -> bytes:
    """Return a DH-HMAC-CHAP_Challenge, correct except for the given fields."""
    number = t_id(message) if transaction is None else transaction
    length = len(value) if dhvlen is None else dhvlen
    head = struct.pack("<BB2xHBxBBHI", 1, 1, number, hl, hashid, group, length, seqnum)
    return head + bytes(range(hl)) + value


def first(**wrong: int | bytes) -> Answer:
    """Return a challenge with an error."""
    return lambda message, sent: challenge(message, **wrong)  # type: ignore[arg-type]


def dh(value: int) -> Answer:
    """Return a challenge of ffdhe2048 with an invalid value of the controller's."""
    return first(group=1, value=value.to_bytes(256, "big"))


def reflected(message: bytes, sent: int) -> bytes:
    """Return the host's own message."""
    return message


def again(message: bytes, sent: int) -> bytes:
    """Return a challenge after each message."""
    return challenge(message)


def success(message: bytes, sent: int) -> bytes:
    """Return Success without a preceding exchange."""
    return struct.pack("<BB2xHBxB7x", 1, 3, t_id(message), 32, 0)


def success_unproved(message: bytes, sent: int) -> bytes:
    """Return Success, with the host's own response in place of the controller's."""
    if sent == 1:
        return challenge(message)
    return struct.pack("<BB2xHBxB7x", 1, 3, t_id(message), 32, 1) + message[16:48]


def success_unanswered(message: bytes, sent: int) -> bytes:
    """Return Success, without a response of the controller's."""
    return challenge(message) if sent == 1 else success(message, sent)


BAD: dict[str, tuple[Answer, str]] = {
    "zeroes": (lambda message, sent: bytes(4096), "an invalid message"),
    "ones": (lambda message, sent: b"\xff" * 4096, "an invalid message"),
    "nothing": (lambda message, sent: b"", "an invalid message"),
    "reflected": (reflected, "an invalid message"),
    "again": (again, "DH-HMAC-CHAP_Challenge received instead of DH-HMAC-CHAP_Success1"),
    "success": (success, "DH-HMAC-CHAP_Success1 received instead of DH-HMAC-CHAP_Challenge"),
    "another transaction": (first(transaction=0xFFFF), "transaction 65535 in transaction"),
    "hash length": (first(hl=255), "a hash length of 255"),
    "hash": (first(hashid=200), "HashID c8h"),
    "group": (first(group=200), "DHgID c8h"),
    "sequence number": (first(seqnum=0), "a sequence number of 0"),
    "no value": (first(group=1), "a DH value of 0 bytes"),
    "long value": (first(group=1, dhvlen=65535), "a DH value of 65535 bytes"),
    "value without a group": (first(value=b"12"), "a DH value of 2 bytes"),
    "0": (dh(0), "Diffie-Hellman failed"),
    "1": (dh(1), "Diffie-Hellman failed"),
    "p - 1": (dh(dhchap.prime(1) - 1), "Diffie-Hellman failed"),
    "p": (dh(dhchap.prime(1)), "Diffie-Hellman failed"),
    "unproved": (success_unproved, "the controller's response is wrong"),
    "unanswered": (success_unanswered, "the controller's response is wrong"),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_challenge(responder: NvmeResponder, name: str) -> None:
    from nvmf.initiator import AuthenticationError, connect

    answer, said = BAD[name]
    sent: list[bytes] = []

    def hook(connection: Connection, capsule: bytes) -> bool:
        if capsule[0] != FABRICS or capsule[4] not in (
            Fctype.CONNECT, Fctype.AUTH_SEND, Fctype.AUTH_RECEIVE
        ):  # fmt: skip
            return False
        if capsule[4] == Fctype.CONNECT:
            connection.fetch(capsule)
            connection.connected = True
            connection.complete(capsule, 0, responder.cntlid | ATR)
        elif capsule[4] == Fctype.AUTH_SEND:
            sent.append(connection.fetch(capsule))
            connection.complete(capsule)
        else:
            length = connection.keyed(capsule)[1]
            connection.give(capsule, answer(sent[-1], len(sent))[:length])
            connection.complete(capsule)
        return True

    responder.hook = hook
    with pytest.raises(AuthenticationError, match="authentication of queue 0 failed") as error:
        await connect(
            f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}", device="iwarp", queues=1,
            hostnqn=FRIEND_NQN, kato=0.0, dhchap_secret=KEY, dhchap_ctrl_secret=CTRL_KEY,
        )  # fmt: skip
    assert said in str(error.value)
    assert len(responder.connections) == 1
    assert sent[-1][:2] == b"\0\xf0", "AUTH_Failure2"


@pytest.mark.parametrize("result", [1 << 18, 0])
async def test_another_demand(responder: NvmeResponder, result: int) -> None:
    """A secure channel, or no authentication: a target cannot avoid proving itself to the host."""
    from nvmf.initiator import AuthenticationError, connect

    def hook(connection: Connection, capsule: bytes) -> bool:
        if capsule[0] != FABRICS or capsule[4] != Fctype.CONNECT:
            return False
        connection.fetch(capsule)
        connection.connected = True
        connection.complete(capsule, 0, responder.cntlid | result)
        return True

    responder.hook = hook
    with pytest.raises(AuthenticationError, match=r"secure channel|would not prove who it is"):
        await connect(
            f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}", device="iwarp", queues=1,
            hostnqn=FRIEND_NQN, kato=0.0, dhchap_secret=KEY, dhchap_ctrl_secret=CTRL_KEY,
        )  # fmt: skip
