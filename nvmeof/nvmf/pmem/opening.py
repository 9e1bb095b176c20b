# SPDX-License-Identifier: BSD-3-Clause
"""Opening a range of a target's memory: OPEN, authentication if the target requires it, OPENED."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass
from typing import Self

from nvmf import engine
from nvmf.auth import HostAuth, Key
from nvmf.auth.response import Parties
from nvmf.initiator import AuthenticationError, TransportId
from nvmf.spec.memory import (
    AUTH,
    AUTH_HEADER,
    CAN_AUTHENTICATE,
    RECFMT,
    VERSION,
    Open,
    Opened,
    Request,
    Status,
)
from nvmf.spec.status import DecodeError


@dataclass(frozen=True, slots=True)
class Secrets:
    """Keys of in-band authentication."""

    host: Key | None = None
    """The key of this host."""
    controller: Key | None = None
    """The key of the target, which must prove that it has it."""

    @classmethod
    def of(cls, host: Key | str | None, controller: Key | str | None) -> Self:
        """Return keys, parsed if they are texts.

        Raises:
            ValueError: A text is no key, or there is one for the target but none for this host.
        """
        if controller is not None and host is None:
            raise ValueError("dhchap_ctrl_secret requires dhchap_secret")
        first, second = (Key.parse(k) if isinstance(k, str) else k for k in (host, controller))
        return cls(first, second)


def accepted_depth(reply: bytes, place: TransportId) -> int:
    """Return the depth that the target has accepted."""
    try:
        answer = Request.decode(reply[: Request.SIZE])
    except DecodeError:
        answer = Request(recfmt=0)
    if answer.recfmt != RECFMT or answer.version != VERSION or not answer.depth:
        raise OSError(
            errno.EPROTO,
            f"{place.endpoint} accepted the connection, but not as one for memory: is it a target "
            "that exports memory?",
        )
    return answer.depth


def refusal(opened: Opened, nsid: int, place: TransportId) -> OSError:
    """Return the error for an OPENED that grants nothing."""
    sentence = (
        f"cannot open namespace {nsid} of {place.subnqn} as memory at {place.endpoint}: "
        f"{opened.text or f'status {opened.status}'}"
    )
    if opened.status == Status.AUTHENTICATION:
        return AuthenticationError(f"{sentence} (--dhchap-secret-file, --dhchap-secret)")
    return OSError(errno.EACCES, sentence)


async def open_range(
    client: engine.MemoryClient, place: TransportId, request: Open, secrets: Secrets
) -> Opened:
    """Send OPEN, authenticate if required, and return OPENED, whatever its status.

    Raises:
        AuthenticationError: One of the two could not prove who it is.
        OSError: The connection was lost, or the target violates the protocol.
    """
    exchange = _Exchange(client, place, request, secrets)
    flags = CAN_AUTHENTICATE if secrets.host is not None else 0
    client.send(
        Open(
            access=request.access,
            flags=flags,
            nsid=request.nsid,
            hostid=request.hostid,
            subnqn=request.subnqn,
            hostnqn=request.hostnqn,
        ).encode()
    )
    message = await _answer(client)
    if message[0] == AUTH:
        await exchange.run(message)
        message = await _answer(client)
    elif secrets.controller is not None:
        raise exchange.failed(
            "it does not ask for authentication, so that it would not prove who it is, as the "
            "controller key that was given (--dhchap-ctrl-secret) demands"
        )
    try:
        return Opened.decode(message)
    except DecodeError as error:
        raise OSError(errno.EPROTO, f"the target's answer is malformed: {error}") from None


class _Exchange:
    """Authentication on a memory connection."""

    def __init__(
        self, client: engine.MemoryClient, place: TransportId, request: Open, secrets: Secrets
    ) -> None:
        self._client = client
        self._place = place
        self._request = request
        self._secrets = secrets

    async def run(self, prompt: bytes) -> None:
        """Run one transaction after the target's prompt; the next message is OPENED."""
        key = self._secrets.host
        if key is None or prompt != AUTH_HEADER:
            raise self.failed("it asks for in-band authentication in a way that it may not")
        parties = Parties(self._request.hostnqn, self._request.subnqn)
        auth = HostAuth(parties, key, self._secrets.controller)
        while not auth.done:
            self._client.send(AUTH_HEADER + (auth.outgoing() or b""))
            message = await _answer(self._client)
            if message[0] != AUTH or len(message) < len(AUTH_HEADER):
                raise self.failed("it has ended the authentication with an answer to OPEN")
            await asyncio.to_thread(auth.incoming, message[len(AUTH_HEADER) :])
        last = auth.outgoing()
        if auth.error is None or last:  # nothing answers AUTH_Failure1
            self._client.send(AUTH_HEADER + (last or b""))
        if auth.error is not None:
            raise self.failed(f"authentication failed: {auth.error}")

    def failed(self, sentence: str) -> AuthenticationError:
        return AuthenticationError(
            f"memory of {self._place.subnqn} at {self._place.endpoint} (host "
            f"{self._request.hostnqn}): {sentence}"
        )


async def _answer(client: engine.MemoryClient) -> bytes:
    """Wait for a message; it is not empty."""
    loop = asyncio.get_running_loop()
    while True:
        client.poll()
        client.arm()
        client.poll()
        if message := client.message():
            return message
        arrived = asyncio.Event()
        loop.add_reader(client.fileno(), arrived.set)
        try:
            await arrived.wait()
        finally:
            loop.remove_reader(client.fileno())
        client.drain()
