# SPDX-License-Identifier: BSD-3-Clause
"""The host's side of one authentication transaction; performs no I/O."""

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
from nvmf.errors import Error
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


class AuthFailed(Error):
    """Authentication failed: text for users, and the reason sent or received."""

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
    """One transaction on one queue.

    Until done: send the message from outgoing(), then receive up to MAX_MESSAGE bytes and pass
    them to incoming().  Then send the last message, if outgoing() has one (Success2, Failure2),
    and raise error, if set.
    """

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
        """No further message is to be received."""
        self.error: AuthFailed | None = None
        self.success = ""
        """After success: the hash, the group, one way or both ways."""
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
        """Return the next message to send; each is returned once."""
        message, self._next = self._next, None
        if self._state is _State.NEGOTIATE:
            self._state = _State.CHALLENGE
        return message

    def incoming(self, data: bytes) -> None:
        """Process a received message.  May compute for some tens of milliseconds."""
        try:
            self._take(data)
        except MessageError as error:
            self._refuse(error.reason, f"the controller sent an invalid message: {error}")
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
                Reason.INCORRECT_MESSAGE, f"{name.title} received instead of {wanted.title}"
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
                    "the controller's response is wrong: it does not have the key given with "
                    "--dhchap-ctrl-secret, and may not be the controller that it claims to be",
                )
                return
            ways = "both ways"
            self._next = Success2(t_id=self.t_id).encode()
        self.success = f"{hashed.title}, {group.title if group else 'no DH group'}, {ways}"
        self._end()

    def _refused(self, reason: int) -> None:
        """Handle AUTH_Failure1: the controller refused."""
        hint = _HINTS.get(reason, "")
        if self._state is _State.CHALLENGE and reason == Reason.FAILED:
            hint = "; see its log for the reason"
        self._end(AuthFailed(reason, f"the controller refused: {reason_name(reason)}{hint}"))

    def _refuse(self, reason: Reason, sentence: str) -> None:
        """Refuse the controller: fail with AUTH_Failure2."""
        failure = Failure(auth_id=AuthId.FAILURE2, t_id=self.t_id, rcode_explanation=reason)
        self._next = failure.encode()
        self._end(AuthFailed(reason, sentence))

    def _end(self, error: AuthFailed | None = None) -> None:
        self.error = error
        self.done = True
        self._state = _State.DONE


_HINTS: dict[int, str] = {
    Reason.FAILED: (
        "; check that --dhchap-secret is the target's key for this host NQN, and, if "
        "--dhchap-ctrl-secret is given, that the target has a controller key for it"
    ),
    Reason.HASH_NOT_USABLE: "; the target allows no hash that this host offers",
    Reason.DHGROUP_NOT_USABLE: "; the target allows no DH group that this host offers",
    Reason.CONCATENATION_MISMATCH: "; the target requires TLS, which RDMA does not have",
}
