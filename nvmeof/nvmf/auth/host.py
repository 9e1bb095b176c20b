# SPDX-License-Identifier: BSD-3-Clause
"""The host's side of one transaction: messages to send out, messages received in."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from enum import Enum

from nvmf.auth.dh import DhError, DhExchange
from nvmf.auth.key import Key
from nvmf.auth.response import (
    Parties,
    augmented,
    controller_response,
    host_response,
    next_seqnum,
    next_t_id,
)
from nvmf.spec.auth import (
    ALL_GROUPS,
    ALL_HASHES,
    AuthId,
    DhGroup,
    Hash,
    Header,
    MessageError,
    Reason,
    reason_name,
)
from nvmf.spec.auth_messages import Challenge, Failure, Negotiate, Reply, Success1, Success2


class AuthFailed(Exception):
    """Authentication failed: a sentence, and the reason on the wire."""

    reason: int
    """Reason Code Explanation."""

    def __init__(self, reason: int, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class _State(Enum):
    NEGOTIATE = 0
    CHALLENGE = 1
    SUCCESS1 = 2
    DONE = 3


class HostAuth:
    """One transaction on one queue, driven so: send what outgoing() gives; give what a receive of
    MAX_MESSAGE bytes brings to incoming(); until done.  What outgoing() still has after a failure
    (AUTH_Failure2) goes out too, and then error says what to raise."""

    def __init__(
        self,
        parties: Parties,
        key: Key,
        controller_key: Key | None = None,
        *,
        hashes: tuple[Hash, ...] = ALL_HASHES,
        groups: tuple[DhGroup, ...] = ALL_GROUPS,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.t_id = next_t_id()
        self.done = False
        """Nothing is to be received any more."""
        self.error: AuthFailed | None = None
        self.success = ""
        """Hash, group, one way or both ways."""
        self._parties = parties
        self._key = key
        self._controller_key = controller_key
        self._hashes, self._groups = hashes, groups
        self._random = random
        self._state = _State.NEGOTIATE
        self._next: bytes | None = Negotiate(self.t_id, hashes, groups).encode()
        self._r2 = b""
        self._chosen: tuple[Hash, DhGroup] | None = None

    def outgoing(self) -> bytes | None:
        """The next message to send, once."""
        message, self._next = self._next, None
        if self._state is _State.NEGOTIATE:
            self._state = _State.CHALLENGE
        return message

    def incoming(self, data: bytes) -> None:
        """Take what a receive brought.  May compute for some ten milliseconds."""
        try:
            self._take(data)
        except MessageError as error:
            self._refuse(error.reason, f"what the controller sent is wrong: {error}")
        except DhError as error:
            self._refuse(Reason.INCORRECT_PAYLOAD, f"Diffie-Hellman failed: {error}")

    def _take(self, data: bytes) -> None:
        header = Header.parse(data)
        name = header.name()
        if name == AuthId.FAILURE1:
            self._refused(Failure.parse(data).rcode_explanation)
            return
        wanted = AuthId.CHALLENGE if self._state is _State.CHALLENGE else AuthId.SUCCESS1
        if name != wanted:
            raise MessageError(
                Reason.INCORRECT_MESSAGE, f"{name.title} came in the place of {wanted.title}"
            )
        if header.t_id != self.t_id:
            raise MessageError(
                Reason.INCORRECT_PAYLOAD, f"transaction {header.t_id} in transaction {self.t_id}"
            )
        if name == AuthId.CHALLENGE:
            self._challenge(Challenge.parse(data))
        else:
            self._success1(data)

    def _challenge(self, challenge: Challenge) -> None:
        hashed, group = challenge.hash, challenge.group
        if hashed not in self._hashes:
            raise MessageError(Reason.HASH_NOT_USABLE, f"{hashed.title} was not offered")
        if group not in self._groups:
            raise MessageError(Reason.DHGROUP_NOT_USABLE, f"{group.title} was not offered")
        session, public = None, b""
        if group:
            exchange = DhExchange(group)
            session, public = exchange.session_key(challenge.dh_value, hashed), exchange.public
        r1 = host_response(
            self._key,
            hashed,
            self._parties,
            augmented(challenge.c1, session, hashed),
            challenge.s1,
            self.t_id,
        )
        c2, s2 = None, 0
        if self._controller_key is not None:
            c2, s2 = self._random(hashed.size), next_seqnum()
            self._r2 = controller_response(
                self._controller_key,
                hashed,
                self._parties,
                augmented(c2, session, hashed),
                s2,
                self.t_id,
            )
        self._chosen = hashed, group
        self._next = Reply(self.t_id, r1, c2, s2, public).encode()
        self._state = _State.SUCCESS1

    def _success1(self, data: bytes) -> None:
        assert self._chosen is not None
        hashed, group = self._chosen
        success = Success1.parse(data, hashed)
        ways = "one way"
        if self._controller_key is not None:
            if success.r2 is None or not hmac.compare_digest(success.r2, self._r2):
                self._refuse(
                    Reason.FAILED,
                    "the controller's response is wrong: it does not have the key that "
                    "--dhchap-ctrl-secret gives, and may not be the controller it says it is",
                )
                return
            ways = "both ways"
            self._next = Success2(t_id=self.t_id).encode()
        self.success = f"{hashed.title}, {group.title if group else 'no DH group'}, {ways}"
        self._end()

    def _refused(self, reason: int) -> None:
        """The controller says no."""
        hint = _HINTS.get(reason, "")
        if self._state is _State.CHALLENGE and reason == Reason.FAILED:
            hint = "; its log says why"
        self._end(AuthFailed(reason, f"the controller refused: {reason_name(reason)}{hint}"))

    def _refuse(self, reason: Reason, sentence: str) -> None:
        """This host says no."""
        failure = Failure(auth_id=AuthId.FAILURE2, t_id=self.t_id, rcode_explanation=reason)
        self._next = failure.encode()
        self._end(AuthFailed(reason, sentence))

    def _end(self, error: AuthFailed | None = None) -> None:
        self.error = error
        self.done = True
        self._state = _State.DONE


_HINTS: dict[int, str] = {
    Reason.FAILED: (
        "; check that --dhchap-secret is the key that the target holds for this host NQN, and that "
        "it has a controller key for it where --dhchap-ctrl-secret is given"
    ),
    Reason.HASH_NOT_USABLE: "; the target allows no hash that this host offers",
    Reason.DHGROUP_NOT_USABLE: "; the target allows no DH group that this host offers",
    Reason.CONCATENATION_MISMATCH: "; the target insists on TLS, which RDMA does not have",
}
