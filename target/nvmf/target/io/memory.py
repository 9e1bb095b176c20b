# SPDX-License-Identifier: BSD-3-Clause
"""Remote memory: connections whose hosts use a namespace's memory by RDMA (spec.memory).

A connection has one range.  It ends, with its key, when its host may no longer use the range: see
model.memory.  The engine's thread for these connections is started with the first of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator

from nvmf.rpc.memory import MemoryConnection as Described
from nvmf.spec.memory import (
    AUTH,
    AUTH_HEADER,
    RECFMT,
    VERSION,
    Access,
    Open,
    Opened,
    Refusal,
    Request,
    Status,
)
from nvmf.spec.status import DecodeError
from nvmf.target.commands.core import Core
from nvmf.target.io.engine import ConnectRequest, Engine, MemoryConnection, MemoryServer
from nvmf.target.io.memoryauth import Exchange, Line
from nvmf.target.io.memorypeer import Peer, why_not
from nvmf.target.io.memorytally import Cause, MemorySample, MemoryTally
from nvmf.target.io.ports import OpenPort, where
from nvmf.target.io.storage import Storage
from nvmf.target.lasting.threads import Threads
from nvmf.target.model.memory import MemoryRefused, may_use
from nvmf.target.model.namespace import Namespace
from nvmf.target.model.subsystem import Subsystem

log = logging.getLogger("nvmf.target")

_LIMIT = 256
"""Memory connections at a time: each has buffers and a queue pair of its own."""
_DEPTH = 128
"""Messages that one host may have outstanding."""
_OPEN_TIMEOUT = 10.0
"""Seconds that a host has to send OPEN, and to leave when that was refused."""
_HARMLESS = {"ESTABLISHED", "TIMEWAIT_EXIT", "CONNECT_RESPONSE"}


class Memory:
    """The memory connections of a target."""

    def __init__(self, engine: Engine, core: Core, storage: Storage, *, spin_us: int) -> None:
        """spin_us: For how long a reactor polls before it sleeps."""
        self.stopping = False
        """Whether new connections are refused."""
        self.tally = MemoryTally()
        self._engine = engine
        self._core = core
        self._storage = storage
        self._spin_us = 2 * spin_us
        """A WRITE is not seen here before what follows it, so that a busy connection seems idle for
        longer than a queue of NVMe commands does."""
        self._server: MemoryServer | None = None
        self._peers: dict[Peer, None] = {}
        """In the order in which they connected."""
        self._line = Line(self._step)
        self._threads = Threads("memory", 4)
        """A device may take long to register memory."""
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._peers)

    # ---- connecting ----

    @staticmethod
    def concerns(event: ConnectRequest) -> bool:
        """Return whether a connection request is one for memory."""
        return event.private_data[:2] == RECFMT.to_bytes(2, "little")

    def connect_request(self, event: ConnectRequest) -> None:
        """Accept or reject a request."""
        try:
            request = Request.decode(event.private_data[: Request.SIZE])
        except DecodeError:
            self._reject(event, Refusal.MALFORMED, "its private data is too short")
            return
        if request.version != VERSION:
            self._reject(
                event,
                Refusal.VERSION,
                f"it has version {request.version} of the protocol, not {VERSION}",
            )
        elif not any(n.memory for s in self._core.subsystems.values()
                     for n in s.namespaces.values()):  # fmt: skip
            self._reject(event, Refusal.NO_MEMORY, "no namespace is exported as memory")
        elif self.stopping or not self._make_room():
            why = "the target is stopping" if self.stopping else f"there are {_LIMIT} already"
            self._reject(event, Refusal.RESOURCES, why)
        elif not request.depth:
            self._reject(event, Refusal.MALFORMED, "it asks for a depth of 0")
        else:
            self._accept(event, min(request.depth, _DEPTH))

    def _make_room(self) -> bool:
        """Return whether there is room for a connection, at the expense of one without a range.

        Otherwise strangers who connect and send nothing would keep all hosts out.
        """
        if len(self._peers) < _LIMIT:
            return True
        idle = next((p for p in self._peers if p.namespace is None and not p.closing), None)
        if idle is None or len(self._peers) >= 2 * _LIMIT:
            return False
        idle.close(f"there are {_LIMIT} connections, and this is the oldest without a range")
        return True

    def _reject(self, event: ConnectRequest, refusal: Refusal, why: str) -> None:
        log.warning("%s: memory connection refused: %s", where(event.peer), why)
        self.tally.refuse(refusal)
        event.reject(Request(refusal=refusal).encode())

    def _accept(self, event: ConnectRequest, depth: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            if self._server is None:
                self._server = self._engine.MemoryServer(spin_us=self._spin_us)
                loop.add_reader(self._server.fileno(), self._events, self._server)
            # one more than the host may use: OPEN may be outstanding as well
            handle = event.accept_memory(
                self._server, depth=depth + 1, private_data=Request(depth=depth).encode()
            )
        except OSError as error:
            self._reject(event, Refusal.RESOURCES, str(error))
            return
        peer = handle.cookie = Peer(handle, loop.call_later(_OPEN_TIMEOUT, self._late, handle))
        self._peers[peer] = None

    def _late(self, handle: MemoryConnection) -> None:
        peer = handle.cookie
        if isinstance(peer, Peer):
            peer.close(f"the host has not gone on within {_OPEN_TIMEOUT:g} s")

    def left(self, handle: MemoryConnection, event: str) -> None:
        """Handle an event of the connection manager."""
        peer = handle.cookie
        if event not in _HARMLESS and isinstance(peer, Peer):
            peer.close("the peer disconnected")

    # ---- messages ----

    def _events(self, server: MemoryServer) -> None:
        for handle, message, reason in server.events():
            peer = handle.cookie
            assert isinstance(peer, Peer)
            if message is not None:
                self._message(peer, message)
            else:
                self._ended(peer, reason or "the connection was lost")

    def _message(self, peer: Peer, message: bytes) -> None:
        if message[0] == AUTH:
            self._authenticate(peer, message)
            return
        if peer.asked:
            peer.close("protocol error: a second OPEN")
            return
        peer.asked = True
        peer.timer.cancel()
        if len(message) != Open.SIZE:
            self._refuse(peer, Status.MALFORMED, "OPEN has a wrong length")
            return
        peer.request = Open.decode(message)
        self._begin(peer, self._open(peer, peer.request))

    def _begin(self, peer: Peer, work: Coroutine[None, None, None]) -> None:
        """Run work, which answers a message; meanwhile the host has to wait."""
        peer.busy = True
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _authenticate(self, peer: Peer, message: bytes) -> None:
        exchange = peer.exchange
        if exchange is None or exchange.ended or peer.busy or peer.request is None:
            peer.close("protocol error: AUTH when no authentication is in progress")
            return
        if len(message) < len(AUTH_HEADER):
            peer.close("protocol error: AUTH has a wrong length")
            return
        peer.timer.cancel()
        peer.busy = True
        self._line.add((peer, exchange, peer.request, message[len(AUTH_HEADER) :]))

    def _step(self, turn: tuple[Peer, Exchange, Open, bytes]) -> None:
        peer, exchange, request, message = turn
        if peer.closing or peer.ended.done():
            return
        peer.busy = False
        answer = exchange.step(message)
        if exchange.failure:
            log.warning("%s: authentication failed: %s", peer, exchange.failure)
            self.tally.refuse(Status.AUTHENTICATION)
            if answer is None:
                peer.close(f"authentication failed: {exchange.failure}")
                return
        if answer is not None:
            self._send(peer, AUTH_HEADER + answer)
            self._wait(peer)
        else:
            log.info("%s: authenticated (%s)", peer, exchange.success)
            self._begin(peer, self._open(peer, request))

    async def _open(self, peer: Peer, request: Open) -> None:
        try:
            if (prompt := self._prompt(peer, request)) is not None:
                peer.exchange, peer.busy = prompt, False
                self._send(peer, AUTH_HEADER)
                self._wait(peer)
                return
            self._send(peer, (await self._grant(peer, request)).encode())
        except MemoryRefused as error:
            log.warning("%s: refused: %s", peer, error)
            self._refuse(peer, error.status, str(error))
        except OSError as error:
            log.warning("%s: %s", peer, error)
            self._refuse(peer, Status.RESOURCES, str(error))
        except Exception:
            log.exception("%s: cannot open a namespace as memory", peer)
            peer.close("internal error")

    def _prompt(self, peer: Peer, request: Open) -> Exchange | None:
        """Return an exchange if the host must authenticate first, and can."""
        subsystem = self._core.subsystems.get(request.subnqn)
        if subsystem is None or peer.exchange is not None:
            return None
        return Exchange.begin(subsystem, request)

    async def _grant(self, peer: Peer, request: Open) -> Opened:
        subsystem = self._core.subsystems.get(request.subnqn)
        if request.access not in (Access.READ, Access.READ_WRITE):
            raise MemoryRefused(Status.MALFORMED, f"OPEN asks for access {request.access}")
        if subsystem is None or subsystem.discovery:
            raise MemoryRefused(Status.NO_SUCH_RANGE, f"there is no subsystem {request.subnqn}")
        access = Access(request.access)
        host = request.hostnqn, request.hostid
        proven = peer.authenticated
        namespace = may_use(subsystem, request.nsid, *host, access, authenticated=proven)
        # From here on, a change of the rules ends the connection.
        peer.subsystem, peer.namespace, peer.access = subsystem, namespace, access
        store = self._storage.memory_of(namespace)
        length = store.size
        key, address, platform = await self._threads.run(
            lambda: peer.handle.grant(store, length, access is Access.READ_WRITE)
        )
        log.info(
            "%s: namespace %d of %s, %s",
            peer,
            namespace.nsid,
            subsystem.nqn,
            "read-write" if access is Access.READ_WRITE else "read-only",
        )
        return Opened(platform=platform, key=key, address=address, length=length)

    def _refuse(self, peer: Peer, status: Status, why: str) -> None:
        """Answer OPEN; the host is to leave, because connections are limited."""
        self.tally.refuse(status)
        peer.subsystem = peer.namespace = None
        # cut to the field in bytes: NQNs are what the host has sent, in any language
        text = why.encode()[:255].decode(errors="ignore")
        self._send(peer, Opened(status=status, text=text).encode())
        self._wait(peer)

    def _wait(self, peer: Peer) -> None:
        """Give the host time for the next message, or to leave."""
        peer.timer.cancel()
        loop = asyncio.get_running_loop()
        peer.timer = loop.call_later(_OPEN_TIMEOUT, self._late, peer.handle)

    def _send(self, peer: Peer, answer: bytes) -> None:
        if not peer.closing:
            with contextlib.suppress(OSError):  # it has ended
                peer.handle.send(answer)

    def _ended(self, peer: Peer, reason: str) -> None:
        peer.timer.cancel()
        log.info("%s: ended: %s", peer, reason)
        self._peers.pop(peer, None)
        self.tally.ended(peer)
        peer.handle.cookie = None
        peer.handle.free()
        if not peer.ended.done():
            peer.ended.set_result(None)

    # ---- fencing ----

    def _revoke(self, peer: Peer, reason: str, cause: Cause) -> asyncio.Future[None]:
        if peer.namespace is not None and not peer.closing:
            self.tally.revoked[cause] += 1
        return peer.close(reason)

    def fence(self, subsystem: Subsystem, then: Callable[[], None]) -> None:
        """End the connections whose hosts may no longer use their range: see MemoryFence."""
        waits = [
            self._revoke(peer, why, Cause.RIGHT)
            for peer in self._peers
            if peer.subsystem is subsystem and (why := why_not(peer)) is not None
        ]
        if not waits:
            then()
            return
        gathered = asyncio.gather(*waits)
        gathered.add_done_callback(lambda _: then())

    async def revoke(self, chosen: Callable[[Described], bool], reason: str) -> int:
        """End these connections, and return their number when no host of them reaches memory."""
        waits = [
            self._revoke(peer, reason, Cause.ADMINISTRATOR)
            for peer, described in list(self._described())
            if chosen(described)
        ]
        await self.settled()  # including those that were already being ended
        return len(waits)

    async def leave(self, namespace: Namespace) -> None:
        """End the connections of a namespace, before its store is closed or resized."""
        waits = [
            self._revoke(peer, "the namespace was removed or resized", Cause.NAMESPACE)
            for peer in self._peers
            if peer.namespace is namespace
        ]
        if waits:
            await asyncio.wait(waits)

    async def settled(self) -> None:
        """Wait until no host reaches memory by a connection that is being ended."""
        waits = [peer.ended for peer in self._peers if peer.closing]
        if waits:
            await asyncio.wait(waits)

    def disconnect(self, port: OpenPort) -> None:
        """Begin to end the connections of a port."""
        for peer in self._peers:
            if port.takes(peer.handle.local):
                peer.close("the port was removed")

    def disconnect_devices(self, names: Collection[str]) -> None:
        """Begin to end the connections on these RDMA devices."""
        for peer in self._peers:
            if peer.handle.device in names:
                peer.close("the RDMA device was removed")

    def _described(self) -> Iterator[tuple[Peer, Described]]:
        for peer in self._peers:
            if peer.request is None or peer.subsystem is None or peer.closing:
                continue
            counts = peer.handle.counts
            yield (
                peer,
                {
                    "nqn": peer.subsystem.nqn,
                    "nsid": peer.request.nsid,
                    "hostnqn": peer.request.hostnqn,
                    "access": "read-write" if peer.access is Access.READ_WRITE else "read-only",
                    "peer": where(peer.handle.peer),
                    "persists": counts["persists"],
                    "persisted_bytes": counts["persisted_bytes"],
                    "errors": counts["errors"],
                    "written_bytes": counts.get("written_bytes"),
                    "read_bytes": counts.get("read_bytes"),
                },
            )

    def samples(self) -> list[MemorySample]:
        """Return the counters of hosts' use of each namespace's memory."""
        return self.tally.samples(self._peers)

    def describe(self) -> list[Described]:
        """Return the connections that have opened a range."""
        return sorted(
            (one for _, one in self._described()), key=lambda d: (d["nqn"], d["nsid"], d["peer"])
        )

    async def close(self) -> None:
        """End all connections, and the thread."""
        self.stopping = True
        waits = [peer.close("the target is stopping") for peer in self._peers]
        if waits:
            await asyncio.wait(waits)
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._server is not None:
            asyncio.get_running_loop().remove_reader(self._server.fileno())
            self._server.close()
            self._server = None
