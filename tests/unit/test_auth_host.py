# SPDX-License-Identifier: BSD-3-Clause
"""The host's state machine with a hand-made controller: transactions and refusals."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from nvmf.auth import ControllerAuth, HostAuth, Key
from nvmf.spec.auth import AuthId, DhGroup, Hash, Reason
from nvmf.spec.auth_messages import Failure
from support.authrig import CTRL_KEY, HOST, KEY, KEYS, OTHER, PARTIES, SUBSYSTEM, Rig, X, run
from wire import dhchap


def test_host_against_the_second_implementation() -> None:
    host = HostAuth(PARTIES, Key.parse(KEY), Key.parse(CTRL_KEY))
    offer = host.outgoing()
    assert offer == dhchap.negotiate(host.t_id, b"\1\2\3", b"\1\2\3\4\5\0")
    c1, s1 = b"\x5a" * 48, 3
    head = bytes([1, 1, 0, 0]) + host.t_id.to_bytes(2, "little") + bytes([48, 0, 2, 1, 0, 1])
    mine = dhchap.public(1, X)
    host.incoming((head + s1.to_bytes(4, "little") + c1 + mine).ljust(4096, b"\0"))
    reply = host.outgoing()
    assert reply is not None
    assert len(reply) == 16 + 96 + 256
    session = dhchap.session_key(1, X, reply[112:], 2)
    assert reply[16:64] == dhchap.response(
        KEY, 2, session, c1, s1, host.t_id, role="HostHost", mine=HOST, theirs=SUBSYSTEM
    )
    s2 = int.from_bytes(reply[12:16], "little")
    r2 = dhchap.response(
        CTRL_KEY, 2, session, reply[64:112], s2, host.t_id,
        role="Controller", mine=SUBSYSTEM, theirs=HOST,
    )  # fmt: skip
    head = bytes([1, 3, 0, 0]) + host.t_id.to_bytes(2, "little") + bytes([48, 0, 1]) + bytes(7)
    host.incoming(head + r2)
    assert host.done
    assert host.error is None
    assert host.outgoing() == dhchap.success2(host.t_id)
    assert host.outgoing() is None


# ---- refusals of a host ----


def answer(host: HostAuth, data: bytes) -> tuple[Reason, str]:
    """Return the reason that the host sends to the controller, and the message for its user."""
    host.incoming(data)
    assert host.done
    assert host.error is not None
    message = host.outgoing()
    assert message is not None
    failure = Failure.decode(message)
    assert (failure.auth_id, failure.t_id, failure.rcode) == (AuthId.FAILURE2, host.t_id, 1)
    assert host.outgoing() is None
    return Reason(failure.rcode_explanation), str(host.error)


def host_and_controller(**options: object) -> tuple[HostAuth, ControllerAuth]:
    host = HostAuth(PARTIES, Key.parse(KEY), Key.parse(CTRL_KEY), **options)  # type: ignore[arg-type]
    controller = ControllerAuth(PARTIES, lambda: KEYS, 0.0)
    controller.send(host.outgoing() or b"", 0.0)
    return host, controller


def test_controller_with_another_key() -> None:
    keys = replace(KEYS, controller_key=Key.parse(OTHER))
    controller = ControllerAuth(PARTIES, lambda: keys, 0.0)
    host = HostAuth(PARTIES, keys.key, Key.parse(CTRL_KEY))
    run(host, controller)
    assert host.error is not None
    assert "may not be the controller" in str(host.error)
    assert controller.over
    assert not controller.authenticated


def test_controller_that_does_not_answer_the_challenge() -> None:
    host, controller = host_and_controller()
    host.incoming(controller.receive(4096, 0.0))
    host.outgoing()
    silent = bytes([1, 3, 0, 0]) + host.t_id.to_bytes(2, "little") + bytes([32, 0]) + bytes(8)
    reason, _ = answer(host, silent)
    assert reason == Reason.FAILED


def test_challenge_with_what_was_not_offered() -> None:
    host, controller = host_and_controller(hashes=(Hash.SHA_512,))
    data = bytearray(controller.receive(4096, 0.0))
    data[6:10] = bytes([32, 0, 1, 0])
    assert answer(host, bytes(data))[0] == Reason.HASH_NOT_USABLE
    host, controller = host_and_controller(groups=(DhGroup.NULL,))
    data = bytearray(controller.receive(4096, 0.0).ljust(4096, b"\0"))
    data[9:12] = bytes([1, 0, 1])
    assert answer(host, bytes(data))[0] == Reason.DHGROUP_NOT_USABLE


def test_challenge_that_is_none() -> None:
    for data, reason in (
        (b"", Reason.INCORRECT_PAYLOAD),
        (bytes(4096), Reason.INCORRECT_MESSAGE),
        (dhchap.success2(1), Reason.INCORRECT_MESSAGE),
    ):
        host, _ = host_and_controller()
        assert answer(host, data)[0] == reason


def test_challenge_of_another_transaction() -> None:
    host, controller = host_and_controller()
    data = bytearray(controller.receive(4096, 0.0))
    data[4] ^= 1
    assert answer(host, bytes(data))[0] == Reason.INCORRECT_PAYLOAD


def test_dh_value_of_the_controller() -> None:
    host, _ = host_and_controller()
    head = bytes([1, 1, 0, 0]) + host.t_id.to_bytes(2, "little") + bytes([32, 0, 1, 1, 0, 1])
    bad = head + b"\1\0\0\0" + bytes(32) + b"\0" * 255 + b"\1"
    reason, sentence = answer(host, bad)
    assert reason == Reason.INCORRECT_PAYLOAD
    assert "not in the group ffdhe2048" in sentence


@pytest.mark.parametrize("reason", [*Reason, 0x77])
def test_every_refusal_of_the_controller_is_a_sentence(reason: int) -> None:
    host, _ = host_and_controller()
    host.incoming(bytes([0, 0xF1, 0, 0]) + host.t_id.to_bytes(2, "little") + bytes([1, reason]))
    assert host.done
    assert host.outgoing() is None
    assert host.error is not None
    assert host.error.reason == reason
    assert str(host.error).startswith("the controller refused: ")


def test_transactions_and_sequence_numbers_differ() -> None:
    hosts = [HostAuth(PARTIES, Key.parse(KEY)) for _ in range(3)]
    assert len({host.t_id for host in hosts}) == 3
    challenges = [Rig().challenge() for _ in range(3)]
    for one, two in itertools.combinations(challenges, 2):
        assert one.s1 != two.s1
        assert one.c1 != two.c1
