# SPDX-License-Identifier: BSD-3-Clause
"""In-band authentication (DH-HMAC-CHAP) of a queue after its Connect, or again later."""

from __future__ import annotations

import contextlib
import logging
from functools import partial

from nvmf.auth import HostAuth
from nvmf.auth.response import Parties
from nvmf.initiator.base.errors import AuthenticationError, NvmeError, QueueLost
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.threads import on_thread
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.admin import Admin
from nvmf.spec import commands
from nvmf.spec.auth import MAX_MESSAGE
from nvmf.spec.fabrics import ConnectResult

log = logging.getLogger(__name__)


class Authenticator:
    """Authenticates the queues of one session; keys in files are read at its start."""

    def __init__(self, where: TransportId, hostnqn: str, options: ConnectOptions) -> None:
        """Raises ValueError if a key file cannot be read, or contains no key."""
        self._where = where
        self._hostnqn = hostnqn
        self._parties = Parties(hostnqn, where.subnqn)
        self._key, self._controller_key = options.keys()
        self._required: set[int] = set()
        self.success = ""
        """How the last queue was authenticated: hash, group, in one direction or both."""

    async def connected(self, queue: Admin, qid: int, result: ConnectResult) -> None:
        """Authenticate a queue if the result of its Connect requires that (ATR).

        A controller may require it on the admin queue only, as nvmet does since Linux 7.3. If there
        is a controller key, the controller must prove its identity, for which the admin queue is
        enough. Raises AuthenticationError if it fails, or if there is a controller key and the
        admin queue does not require authentication.
        """
        if result.ascr:
            raise self._error("it asks for a secure channel, which RDMA does not have")
        if result.atr:
            self._required.add(qid)
            await self.authenticate(queue, qid)
        elif self._controller_key is not None and not qid:
            raise self._error(
                "it does not ask for authentication, so that it would not prove who it is, as the "
                "controller key that was given (--dhchap-ctrl-secret) demands"
            )
        elif self._key is not None and not qid:
            log.info("%s asks for no authentication: the key is not used", self._where.subnqn)

    def required(self, qid: int) -> bool:
        """Whether the Connect of a queue required authentication."""
        return qid in self._required

    async def authenticate(self, queue: Admin, qid: int) -> None:
        """Run one transaction; raise AuthenticationError if it fails."""
        if self._key is None:
            raise self._error(
                "it asks for in-band authentication: give the key that it holds for this host "
                "(--dhchap-secret-file, --dhchap-secret)"
            )
        auth = HostAuth(self._parties, self._key, self._controller_key)
        try:
            await self._transact(auth, queue)
        except NvmeError as error:
            raise self._error(f"authentication of queue {qid} failed: {error}") from error
        except QueueLost as error:  # nvmet may disconnect before its answer has arrived
            raise QueueLost(
                f"{error}, while queue {qid} was being authenticated: if that repeats, check that "
                "the key is the one that the target holds for this host"
            ) from error
        if auth.error is not None:
            raise self._error(f"authentication of queue {qid} failed: {auth.error}")
        self.success = auth.success
        log.info("%s: queue %d authenticated (%s)", self._where.subnqn, qid, auth.success)

    async def _transact(self, auth: HostAuth, queue: Admin) -> None:
        while True:
            message = auth.outgoing()
            if message is not None:
                sqe = commands.authentication_send(len(message))
                # After a failure, the controller may disconnect before this message arrives.
                gone = (QueueLost, NvmeError) if auth.error is not None else ()
                with contextlib.suppress(*gone):
                    await queue.send(sqe, "Authentication Send", message)
            if auth.done:
                return
            sqe = commands.authentication_receive(MAX_MESSAGE)
            data, _ = await queue.receive(sqe, "Authentication Receive", MAX_MESSAGE)
            await on_thread(partial(auth.incoming, data))

    def _error(self, sentence: str) -> AuthenticationError:
        return AuthenticationError(
            f"{self._where.subnqn} at {self._where.endpoint} (host {self._hostnqn}): {sentence}"
        )
