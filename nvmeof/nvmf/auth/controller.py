# SPDX-License-Identifier: BSD-3-Clause
"""The controller's side of authentication on one queue: Authentication Send and Receive.

A transaction passes through the states in order.  Any other message from the host fails it and ends
the connection.  After a success the host may start another transaction at any time; the queue stays
authenticated meanwhile.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from nvmf.auth.dh import DhError, DhExchange
from nvmf.auth.key import Key
from nvmf.auth.response import (
    Parties,
    augmented,
    controller_response,
    host_response,
    next_seqnum,
)
from nvmf.spec.auth import (
    ALL_GROUPS,
    ALL_HASHES,
    NO_SECURE_CHANNEL,
    AuthId,
    DhGroup,
    Hash,
    Header,
    MessageError,
    Reason,
    reason_name,
)
from nvmf.spec.auth_messages import Challenge, Failure, Negotiate, Reply, Success1, Success2

STEP_TIMEOUT = 60.0
"""Maximum seconds between two messages."""


@dataclass(frozen=True, slots=True)
class HostKeys:
    """The keys and algorithms for one host."""

    key: Key
    """The host's key."""
    controller_key: Key | None = None
    """The subsystem's key, for hosts that authenticate the controller."""
    hashes: tuple[Hash, ...] = ALL_HASHES
    """Allowed hashes, in order of preference."""
    groups: tuple[DhGroup, ...] = ALL_GROUPS
    """Allowed DH groups, in order of preference."""


class State(Enum):
    """The expected next step of the host."""

    NEGOTIATE = "AUTH_Negotiate"
    CHALLENGE = "a receive of DH-HMAC-CHAP_Challenge"
    REPLY = "DH-HMAC-CHAP_Reply"
    SUCCESS1 = "a receive of DH-HMAC-CHAP_Success1"
    SUCCESS2 = "DH-HMAC-CHAP_Success2"
    FAILURE1 = "a receive of AUTH_Failure1"
    OVER = "the end of the connection"


_EXPECTED = {
    State.NEGOTIATE: {AuthId.NEGOTIATE},
    State.REPLY: {AuthId.REPLY, AuthId.FAILURE2},
    State.SUCCESS1: {AuthId.FAILURE2},
    State.SUCCESS2: {AuthId.SUCCESS2, AuthId.FAILURE2},
}
"""Messages that a state accepts; other states accept no message."""


@dataclass(slots=True)
class _Transaction:
    """Data of the current transaction; discarded when it ends."""

    t_id: int
    keys: HostKeys
    hash: Hash
    group: DhGroup
    s1: int = 0
    c1: bytes = b""
    exchange: DhExchange | None = None
    r2: bytes | None = None


class ControllerAuth:
    """Authentication of one queue.  lookup returns the current keys; None if the host has none."""

    def __init__(
        self,
        parties: Parties,
        lookup: Callable[[], HostKeys | None],
        now: float,
        *,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.authenticated = False
        self.deadline: float | None = now + STEP_TIMEOUT
        """Deadline for the next message (clock of now); None: no message is expected."""
        self.state = State.NEGOTIATE
        self.failure: str | None = None
        """Why authentication failed, as text for the log."""
        self.success = ""
        """How the host was last authenticated: hash, group, one way or both ways."""
        self.count = 0
        """Successful transactions."""
        self._parties = parties
        self._lookup = lookup
        self._random = random
        self._reason = Reason.FAILED
        self._t_id = 0
        self._transaction: _Transaction | None = None

    @property
    def over(self) -> bool:
        """Authentication failed and the host was told: the connection must end."""
        return self.state is State.OVER

    # ---- Authentication Send ----

    def send(self, data: bytes, now: float) -> None:
        """Process a message from the host; the next receive reports an error in it."""
        if self.state in (State.FAILURE1, State.OVER):
            return
        try:
            header = Header.parse(data)
            name = header.name()
            if name not in _EXPECTED.get(self.state, ()):
                raise MessageError(
                    Reason.INCORRECT_MESSAGE,
                    f"{name.title} received instead of {self.state.value}",
                )
            self._take(name, header.t_id, data)
        except MessageError as error:
            self._fail(error.reason, error.detail if error.reason == Reason.FAILED else str(error))
        except DhError as error:
            self._fail(Reason.INCORRECT_PAYLOAD, f"{Reason.INCORRECT_PAYLOAD.title}: {error}")
        self._wait(now)

    def _take(self, name: AuthId, t_id: int, data: bytes) -> None:
        if name == AuthId.NEGOTIATE:
            self._negotiate(t_id, data)
            return
        transaction = self._transaction
        assert transaction is not None
        if t_id != transaction.t_id:
            raise MessageError(
                Reason.INCORRECT_PAYLOAD,
                f"{name.title} of transaction {t_id} in transaction {transaction.t_id}",
            )
        if name == AuthId.REPLY:
            self._reply(transaction, data)
        elif name == AuthId.SUCCESS2:
            Success2.parse(data)
            self._succeed(transaction)
        else:
            said = reason_name(Failure.parse(data).rcode_explanation)
            self._fail(Reason.FAILED, f"the host refused the controller (AUTH_Failure2): {said}")
            self.state = State.OVER

    def _negotiate(self, t_id: int, data: bytes) -> None:
        self._t_id = t_id
        offer = Negotiate.parse(data)
        if offer.sc_c != NO_SECURE_CHANNEL:
            raise MessageError(
                Reason.CONCATENATION_MISMATCH, f"SC_C {offer.sc_c}: no secure channel is supported"
            )
        keys = self._lookup()
        if keys is None:
            raise MessageError(Reason.FAILED, "there is no longer a key for this host")
        hashed = next((one for one in keys.hashes if one in offer.hashes), None)
        if hashed is None:
            allowed = ", ".join(one.title for one in keys.hashes)
            raise MessageError(
                Reason.HASH_NOT_USABLE, f"the host offers {_ids(offer.hashes)}, allowed: {allowed}"
            )
        group = next((one for one in keys.groups if one in offer.groups), None)
        if group is None:
            allowed = ", ".join(one.title for one in keys.groups)
            raise MessageError(
                Reason.DHGROUP_NOT_USABLE,
                f"the host offers {_ids(offer.groups)}, allowed: {allowed}",
            )
        self._transaction = _Transaction(t_id, keys, hashed, group)
        self.state = State.CHALLENGE

    def _reply(self, transaction: _Transaction, data: bytes) -> None:
        hashed, keys, t_id = transaction.hash, transaction.keys, transaction.t_id
        reply = Reply.parse(data, hashed, transaction.group)
        session = None
        if transaction.exchange is not None:
            session = transaction.exchange.session_key(reply.dh_value, hashed)
            transaction.exchange = None
        challenge = augmented(transaction.c1, session, hashed)
        wanted = host_response(keys.key, hashed, self._parties, challenge, transaction.s1, t_id)
        if not hmac.compare_digest(wanted, reply.r1):
            raise MessageError(Reason.FAILED, "wrong response: the host has a different key")
        if reply.c2 is not None:
            if keys.controller_key is None:
                raise MessageError(
                    Reason.FAILED, "the host sent a challenge, but no controller key is configured"
                )
            if hmac.compare_digest(reply.c2, transaction.c1):
                raise MessageError(Reason.FAILED, "the host copied the controller's challenge")
            challenge = augmented(reply.c2, session, hashed)
            transaction.r2 = controller_response(
                keys.controller_key, hashed, self._parties, challenge, reply.s2, t_id
            )
        self.state = State.SUCCESS1

    # ---- Authentication Receive ----

    def receive(self, room: int, now: float) -> bytes:
        """Return the message for an Authentication Receive; room: the size of the host's buffer.

        Raise ValueError if the buffer is too small; the state is then unchanged.
        """
        if self.state is State.CHALLENGE:
            try:
                message = self._challenge(room)
            except DhError as error:
                self._fail(Reason.DHGROUP_NOT_USABLE, f"{Reason.DHGROUP_NOT_USABLE.title}: {error}")
            else:
                self._wait(now)
                return message
        elif self.state is State.SUCCESS1:
            message = self._success1(room)
            self._wait(now)
            return message
        elif self.state is not State.FAILURE1:
            _fit(Failure().encode(), room)  # before the state changes
            self._fail(
                Reason.INCORRECT_MESSAGE,
                f"{Reason.INCORRECT_MESSAGE.title}: Authentication Receive instead of "
                f"{self.state.value}",
            )
        message = _fit(Failure(t_id=self._t_id, rcode_explanation=self._reason).encode(), room)
        self.state = State.OVER
        self._wait(now)
        return message

    def _challenge(self, room: int) -> bytes:
        transaction = self._transaction
        assert transaction is not None
        hashed, group = transaction.hash, transaction.group
        sizes = Challenge(0, hashed, group, 0, bytes(hashed.size), bytes(group.size))
        _fit(sizes.encode(), room)  # before a key is generated
        transaction.exchange = DhExchange(group) if group else None
        transaction.s1 = next_seqnum()
        transaction.c1 = self._random(hashed.size)
        public = transaction.exchange.public if transaction.exchange is not None else b""
        self.state = State.REPLY
        return Challenge(
            transaction.t_id, hashed, group, transaction.s1, transaction.c1, public
        ).encode()

    def _success1(self, room: int) -> bytes:
        transaction = self._transaction
        assert transaction is not None
        r2 = transaction.r2
        message = _fit(Success1(transaction.t_id, transaction.hash, r2).encode(), room)
        if r2 is None:
            self._succeed(transaction)
        else:
            self.state = State.SUCCESS2
        return message

    # ---- the end of a transaction ----

    def _succeed(self, transaction: _Transaction) -> None:
        self.authenticated = True
        self.count += 1
        group = transaction.group.title if transaction.group else "no DH group"
        ways = "one way" if transaction.r2 is None else "both ways"
        self.success = f"{transaction.hash.title}, {group}, {ways}"
        self._transaction = None
        self.state = State.NEGOTIATE

    def _fail(self, reason: Reason, why: str) -> None:
        self.authenticated = False
        self.failure, self._reason = why, reason
        self._transaction = None
        self.state = State.FAILURE1

    def _wait(self, now: float) -> None:
        idle = self.state is State.NEGOTIATE and self.authenticated
        self.deadline = None if idle or self.over else now + STEP_TIMEOUT


def _fit(message: bytes, room: int) -> bytes:
    if len(message) > room:
        raise ValueError(f"message of {len(message)} bytes; the host has room for {room}")
    return message


def _ids(values: Iterable[int]) -> str:
    return ", ".join(f"{value:02x}h" for value in values) or "none"
