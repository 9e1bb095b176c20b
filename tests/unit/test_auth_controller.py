# SPDX-License-Identifier: BSD-3-Clause
"""The controller's state machine: with both implementations of a host, and with invalid
messages.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmf.auth import ControllerAuth, HostAuth, Key
from nvmf.auth.controller import STEP_TIMEOUT, State
from nvmf.spec.auth import DhGroup, Hash, Reason
from support.authrig import CTRL_KEY, HOST, KEY, KEYS, OTHER, PARTIES, SUBSYSTEM, Rig, X, run
from wire import dhchap


@pytest.mark.feature("dhchap", "dhchap-mutual")
@pytest.mark.parametrize("mutual", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize("group", list(DhGroup), ids=lambda group: group.title)
@pytest.mark.parametrize("hashed", list(Hash), ids=lambda hashed: hashed.title)
def test_each_other(hashed: Hash, group: DhGroup, mutual: bool) -> None:
    keys = replace(KEYS, hashes=(hashed,), groups=(group,))
    controller = ControllerAuth(PARTIES, lambda: keys, 0.0)
    host = HostAuth(PARTIES, keys.key, keys.controller_key if mutual else None)
    run(host, controller)
    assert host.error is None
    assert controller.authenticated
    assert controller.deadline is None
    ways = "both ways" if mutual else "one way"
    expected = f"{hashed.title}, {group.title if group else 'no DH group'}, {ways}"
    assert host.success == controller.success == expected


@pytest.mark.feature("dhchap", "dhchap-mutual")
@pytest.mark.parametrize("group", [DhGroup.NULL, DhGroup.FFDHE_2048, DhGroup.FFDHE_3072])
@pytest.mark.parametrize("hashed", list(Hash))
def test_controller_against_the_second_implementation(hashed: Hash, group: DhGroup) -> None:
    rig = Rig(replace(KEYS, hashes=(hashed,), groups=(group,)))
    challenge = rig.challenge()
    assert (challenge.t_id, challenge.hash_id, challenge.group) == (5, hashed, group)
    assert len(challenge.c1) == hashed.size
    assert challenge.s1
    c2, s2 = bytes(range(hashed.size)), 0xDEADBEEF
    rig.send(rig.reply(challenge, c2=c2, s2=s2))
    assert not rig.inside()
    success = rig.receive()
    session = dhchap.session_key(challenge.group, X, challenge.dh, challenge.hash_id)
    r2 = dhchap.response(
        CTRL_KEY, challenge.hash_id, session, c2, s2, 5,
        role="Controller", mine=SUBSYSTEM, theirs=HOST,
    )  # fmt: skip
    head = bytes([1, 3, 0, 0, 5, 0, hashed.size, 0, 1]) + bytes(7)
    assert success == head + r2
    assert not rig.inside()
    rig.send(dhchap.success2(5))
    assert rig.inside()


# ---- refusals of a controller ----


@pytest.mark.feature("dhchap")
def test_wrong_key() -> None:
    rig = Rig()
    rig.send(rig.reply(rig.challenge(), key=OTHER))
    assert "a different key" in rig.failed(Reason.FAILED)


def test_key_of_another_host() -> None:
    """A transformed key belongs to one NQN."""
    rig = Rig()
    challenge = rig.challenge()
    r1 = dhchap.response(
        KEY, challenge.hash_id, None, challenge.c1, challenge.s1, 5,
        role="HostHost", mine=HOST + "x", theirs=SUBSYSTEM,
    )  # fmt: skip
    rig.send(dhchap.reply(5, r1))
    rig.failed(Reason.FAILED)


@pytest.mark.parametrize(
    ("offer", "reason"),
    [
        (dhchap.negotiate(5, b""), Reason.HASH_NOT_USABLE),
        (dhchap.negotiate(5, b"\4\x2a"), Reason.HASH_NOT_USABLE),
        (dhchap.negotiate(5, groups=b"\1\2"), Reason.DHGROUP_NOT_USABLE),
        (dhchap.negotiate(5, groups=b"\x63"), Reason.DHGROUP_NOT_USABLE),
        (dhchap.negotiate(5, groups=b""), Reason.DHGROUP_NOT_USABLE),
        (dhchap.negotiate(5, sc_c=1), Reason.CONCATENATION_MISMATCH),
        (dhchap.negotiate(5, authid=9), Reason.PROTOCOL_NOT_USABLE),
        (dhchap.negotiate(5)[:-1], Reason.INCORRECT_PAYLOAD),
        (dhchap.negotiate(5) + b"x", Reason.INCORRECT_PAYLOAD),
        (b"", Reason.INCORRECT_PAYLOAD),
        (b"\0\0\0\0\5\0", Reason.INCORRECT_PAYLOAD),
        (dhchap.reply(5, bytes(32)), Reason.INCORRECT_MESSAGE),
        (dhchap.success2(5), Reason.INCORRECT_MESSAGE),
        (dhchap.failure2(5), Reason.INCORRECT_MESSAGE),
        (b"\xff" * 72, Reason.INCORRECT_MESSAGE),
    ],
)
def test_bad_beginning(offer: bytes, reason: Reason) -> None:
    rig = Rig()
    rig.send(offer)
    rig.failed(reason)


def test_receive_before_anything_was_sent() -> None:
    Rig().failed(Reason.INCORRECT_MESSAGE)


@pytest.mark.parametrize("sent", [dhchap.negotiate(5), dhchap.reply(5, bytes(32))])
def test_message_in_the_place_of_a_receive(sent: bytes) -> None:
    rig = Rig()
    rig.send(dhchap.negotiate(5))
    rig.send(sent)
    rig.failed(Reason.INCORRECT_MESSAGE)


@pytest.mark.parametrize("sent", [dhchap.negotiate(5), dhchap.success2(5)])
def test_message_in_the_place_of_the_reply(sent: bytes) -> None:
    rig = Rig()
    rig.challenge()
    rig.send(sent)
    rig.failed(Reason.INCORRECT_MESSAGE)


def test_second_challenge_is_not_to_be_had() -> None:
    rig = Rig()
    rig.challenge()
    rig.failed(Reason.INCORRECT_MESSAGE)


def test_reply_of_another_transaction() -> None:
    rig = Rig()
    reply = rig.reply(rig.challenge())
    rig.send(reply[:4] + b"\6\0" + reply[6:])
    assert "transaction 6 in transaction 5" in rig.failed(Reason.INCORRECT_PAYLOAD)


def test_replayed_reply() -> None:
    """A correct response to one challenge is wrong for the next."""
    rig = Rig()
    reply = rig.reply(rig.challenge())
    rig.send(reply)
    rig.receive()
    assert rig.inside()
    rig.challenge()
    rig.send(reply)
    rig.failed(Reason.FAILED)


def test_reply_twice() -> None:
    rig = Rig()
    reply = rig.reply(rig.challenge())
    rig.send(reply)
    rig.send(reply)
    rig.failed(Reason.INCORRECT_MESSAGE)


@pytest.mark.parametrize("cut", [1, 15, 16, 48, 79])
def test_truncated_reply(cut: int) -> None:
    rig = Rig()
    rig.send(rig.reply(rig.challenge())[:cut])
    rig.failed(Reason.INCORRECT_PAYLOAD)


def test_dh_value_that_is_none() -> None:
    for value in (bytes(256), b"\0" * 255 + b"\1", b"\xff" * 256):
        rig = Rig(replace(KEYS, groups=(DhGroup.FFDHE_2048,)))
        challenge = rig.challenge()
        rig.send(dhchap.reply(5, bytes(32), dh=value))
        assert challenge.group == 1
        assert "not in the group ffdhe2048" in rig.failed(Reason.INCORRECT_PAYLOAD)


def test_reflected_challenge() -> None:
    rig = Rig()
    challenge = rig.challenge()
    rig.send(rig.reply(challenge, c2=challenge.c1, s2=1))
    assert "copied the controller's challenge" in rig.failed(Reason.FAILED)


def test_controller_without_a_key_of_its_own() -> None:
    rig = Rig(replace(KEYS, controller_key=None))
    rig.send(rig.reply(rig.challenge(), c2=b"c" * 32, s2=1))
    assert "no controller key" in rig.failed(Reason.FAILED)


def test_key_taken_away() -> None:
    rig = Rig()
    rig.keys = None
    rig.send(dhchap.negotiate(5))
    assert "no longer a key" in rig.failed(Reason.FAILED)


def test_host_that_refuses_the_controller() -> None:
    rig = Rig()
    rig.send(rig.reply(rig.challenge(), c2=b"c" * 32, s2=1))
    rig.receive()
    rig.send(dhchap.failure2(5))
    assert rig.auth.over
    assert not rig.inside()
    assert rig.auth.failure is not None
    assert "AUTH_Failure2" in rig.auth.failure


def test_nothing_helps_after_a_failure() -> None:
    rig = Rig()
    rig.send(b"")
    rig.send(dhchap.negotiate(5))
    rig.failed(Reason.INCORRECT_PAYLOAD)
    rig.send(dhchap.negotiate(5))
    assert rig.auth.over
    assert dhchap.failure1(rig.receive()) is not None
    assert not rig.inside()


def test_room_that_is_too_small() -> None:
    rig = Rig()
    rig.send(dhchap.negotiate(5))
    with pytest.raises(ValueError, match="48 bytes; the host has room for 47"):
        rig.receive(47)
    challenge = dhchap.Challenge(rig.receive(48))
    rig.send(rig.reply(challenge))
    with pytest.raises(ValueError, match="16 bytes"):
        rig.receive(15)
    assert not rig.inside()
    rig.receive(16)
    assert rig.inside()
    rig = Rig()
    with pytest.raises(ValueError, match="8 bytes"):
        rig.receive(7)
    rig.failed(Reason.INCORRECT_MESSAGE)
    rig = Rig()
    rig.send(rig.reply(rig.challenge()))
    rig.receive()
    with pytest.raises(ValueError, match="8 bytes"):
        rig.receive(7)
    assert rig.inside()
    assert rig.auth.failure is None
    assert rig.due() is None


def test_time() -> None:
    rig = Rig()
    assert rig.due() == 10 + STEP_TIMEOUT
    rig.now = 20
    challenge = rig.challenge()
    assert rig.due() == 20 + STEP_TIMEOUT
    rig.now = 30
    rig.send(rig.reply(challenge))
    assert rig.due() == 30 + STEP_TIMEOUT
    rig.receive()
    assert rig.due() is None
    rig.now = 1000
    rig.send(dhchap.negotiate(6))
    assert rig.due() == 1000 + STEP_TIMEOUT


@pytest.mark.feature("dhchap-again")
def test_again() -> None:
    """The queue stays authenticated during another authentication, but not if that fails."""
    rig = Rig()
    for count in (1, 2, 3):
        challenge = rig.challenge(count)
        assert rig.inside() == (count > 1)
        rig.send(rig.reply(challenge))
        rig.receive()
        assert rig.auth.count == count
    rig.send(rig.reply(rig.challenge(), key=OTHER))
    rig.failed(Reason.FAILED)


def test_a_new_key_counts_from_the_next_time_on() -> None:
    rig = Rig()
    challenge = rig.challenge()
    rig.keys = replace(KEYS, key=Key.parse(OTHER))
    rig.send(rig.reply(challenge))
    rig.receive()
    assert rig.inside()
    rig.send(rig.reply(rig.challenge(6), key=OTHER))
    rig.receive()
    assert rig.inside()


def test_preference_is_the_controllers() -> None:
    keys = replace(
        KEYS, hashes=(Hash.SHA_512, Hash.SHA_256), groups=(DhGroup.FFDHE_3072, DhGroup.NULL)
    )
    challenge = Rig(keys).challenge()
    assert (challenge.hash_id, challenge.group) == (3, 2)
    challenge = Rig(keys).challenge(groups=b"\0\1")
    assert challenge.group == 0


_WORDS = st.sampled_from(
    [
        dhchap.negotiate(5),
        dhchap.negotiate(6, groups=b"\1"),
        dhchap.reply(5, bytes(32)),
        dhchap.success2(5),
        dhchap.failure2(5),
        b"",
        b"\1\2",
    ]
)


@given(st.lists(_WORDS | st.integers(0, 64) | st.binary(max_size=100), max_size=12))
def test_no_dialogue_without_the_key_gets_in(words: list[bytes | int]) -> None:
    """Invariant: no sequence of messages authenticates the host or raises an exception."""
    rig = Rig(replace(KEYS, groups=(DhGroup.NULL, DhGroup.FFDHE_2048)))
    for word in words:
        if isinstance(word, bytes):
            rig.send(word)
        else:
            try:
                rig.receive(word)
            except ValueError:
                continue
        assert not rig.inside()
        assert rig.auth.state in State
