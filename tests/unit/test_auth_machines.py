# SPDX-License-Identifier: BSD-3-Clause
"""Both state machines: against each other, against the second implementation, and misused."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmf.auth import ControllerAuth, HostAuth, HostKeys, Key
from nvmf.auth.controller import STEP_TIMEOUT, State
from nvmf.auth.response import Parties
from nvmf.spec.auth import AuthId, DhGroup, Failure, Hash, Reason
from wire import dhchap

HOST, SUBSYSTEM = "nqn.2014-08.org.example:host", "nqn.2014-08.org.example:disk"
PARTIES = Parties(HOST, SUBSYSTEM)
KEY, CTRL_KEY = dhchap.key_text(b"h" * 32, 1), dhchap.key_text(b"c" * 48, 2)
OTHER = dhchap.key_text(b"x" * 32)
KEYS = HostKeys(Key.parse(KEY), Key.parse(CTRL_KEY), groups=(DhGroup.NULL,))
X = 0xABCDEF << 200 | 77


@dataclass
class Rig:
    """A controller, and a host written down by hand."""

    keys: HostKeys | None = KEYS
    auth: ControllerAuth = field(init=False)
    now: float = 10.0

    def __post_init__(self) -> None:
        self.auth = ControllerAuth(PARTIES, lambda: self.keys, self.now)

    def send(self, message: bytes) -> None:
        self.auth.send(message, self.now)

    def receive(self, room: int = 4096) -> bytes:
        return self.auth.receive(room, self.now)

    def challenge(self, t_id: int = 5, groups: bytes = b"\0\1\2\3\4\5") -> dhchap.Challenge:
        self.send(dhchap.negotiate(t_id, groups=groups))
        return dhchap.Challenge(self.receive())

    def reply(
        self, challenge: dhchap.Challenge, *, key: str = KEY, c2: bytes | None = None, s2: int = 0
    ) -> bytes:
        """The right one, for this key."""
        session = dhchap.session_key(challenge.group, X, challenge.dh, challenge.hash_id)
        r1 = dhchap.response(
            key, challenge.hash_id, session, challenge.c1, challenge.s1, challenge.t_id,
            role="HostHost", mine=HOST, theirs=SUBSYSTEM,
        )  # fmt: skip
        dh = dhchap.public(challenge.group, X)
        return dhchap.reply(challenge.t_id, r1, c2, s2, dh)

    def inside(self) -> bool:
        """Whether the queue is authenticated."""
        return self.auth.authenticated

    def due(self) -> float | None:
        """When the next message must have come."""
        return self.auth.deadline

    def failed(self, reason: Reason) -> str:
        """The reason that the controller gives now, and what it logs."""
        assert not self.auth.authenticated
        assert dhchap.failure1(self.receive()) == reason
        assert self.auth.over
        assert self.auth.failure is not None
        return self.auth.failure


def run(host: HostAuth, controller: ControllerAuth) -> None:
    """A whole transaction."""
    while True:
        message = host.outgoing()
        if message is not None:
            controller.send(message, 0.0)
        if host.done:
            return
        host.incoming(controller.receive(4096, 0.0).ljust(4096, b"\0"))


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


# ---- what a controller refuses ----


def test_wrong_key() -> None:
    rig = Rig()
    rig.send(rig.reply(rig.challenge(), key=OTHER))
    assert "another key" in rig.failed(Reason.FAILED)


def test_key_of_another_host() -> None:
    """A transformed key is that of one NQN."""
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
    """What was right for one challenge is not for the next."""
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
        assert "not one of ffdhe2048" in rig.failed(Reason.INCORRECT_PAYLOAD)


def test_reflected_challenge() -> None:
    rig = Rig()
    challenge = rig.challenge()
    rig.send(rig.reply(challenge, c2=challenge.c1, s2=1))
    assert "copy of ours" in rig.failed(Reason.FAILED)


def test_controller_without_a_key_of_its_own() -> None:
    rig = Rig(replace(KEYS, controller_key=None))
    rig.send(rig.reply(rig.challenge(), c2=b"c" * 32, s2=1))
    assert "controller's key" in rig.failed(Reason.FAILED)


def test_key_taken_away() -> None:
    rig = Rig()
    rig.keys = None
    rig.send(dhchap.negotiate(5))
    assert "any more" in rig.failed(Reason.FAILED)


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
    with pytest.raises(ValueError, match="48 bytes where the host has room for 47"):
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


def test_again() -> None:
    """The queue stays authenticated while it authenticates again, and not when that fails."""
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
    """Invariant: whatever is sent and asked for, nobody is authenticated, and nothing raises."""
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


# ---- what a host refuses ----


def answer(host: HostAuth, data: bytes) -> tuple[Reason, str]:
    """What the host says to the controller, and to its user."""
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
    assert "not one of ffdhe2048" in sentence


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
