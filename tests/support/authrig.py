# SPDX-License-Identifier: BSD-3-Clause
"""A controller's state machine with a hand-made host, and whole transactions."""

from __future__ import annotations

from dataclasses import dataclass, field

from nvmf.auth import ControllerAuth, HostAuth, HostKeys, Key
from nvmf.auth.response import Parties
from nvmf.spec.auth import DhGroup, Reason
from wire import dhchap

HOST, SUBSYSTEM = "nqn.2014-08.org.example:host", "nqn.2014-08.org.example:disk"
PARTIES = Parties(HOST, SUBSYSTEM)
KEY, CTRL_KEY = dhchap.key_text(b"h" * 32, 1), dhchap.key_text(b"c" * 48, 2)
OTHER = dhchap.key_text(b"x" * 32)
KEYS = HostKeys(Key.parse(KEY), Key.parse(CTRL_KEY), groups=(DhGroup.NULL,))
X = 0xABCDEF << 200 | 77


@dataclass
class Rig:
    """A controller, and a hand-made host."""

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
        """Return the correct response for this key."""
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
        """The time limit of the next message."""
        return self.auth.deadline

    def failed(self, reason: Reason) -> str:
        """Check that the controller fails with this reason; return its log."""
        assert not self.auth.authenticated
        assert dhchap.failure1(self.receive()) == reason
        assert self.auth.over
        assert self.auth.failure is not None
        return self.auth.failure


def run(host: HostAuth, controller: ControllerAuth) -> None:
    """Run a whole transaction."""
    while True:
        message = host.outgoing()
        if message is not None:
            controller.send(message, 0.0)
        if host.done:
            return
        host.incoming(controller.receive(4096, 0.0).ljust(4096, b"\0"))
