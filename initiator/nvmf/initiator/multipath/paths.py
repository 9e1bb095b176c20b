# SPDX-License-Identifier: BSD-3-Clause
"""The paths to a subsystem, their namespaces, and the choice of a path for each command.

Owned by one asyncio loop.  A command uses the path that the policy chooses among those whose ANA
state is best.  If that path is lost, or answers with a path related status (SCT 3h), the command
uses a different path; callers do not see the loss.  While no path is usable but one reconnects, or
is live in a different ANA state, commands wait; once every path has exceeded its ctrl_loss_tmo they
fail with ConnectionLost.

A command that is sent again may be executed twice: the target may have done it, or still be doing
it, when the connection ended.  It uses a different path only after this end of the old connection
is torn down, so that nothing can move into or out of its buffer.  But, as with Linux, a
target that keeps the first copy for longer than that may apply it late, over what the caller has
written there meanwhile: Command Quiesce Time (Base 2.1) says for how long, and no host waits yet.
A command that must not be done twice (Compare and Write) ends with OutcomeUnknown instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from nvmf.initiator.base.arguments import whole
from nvmf.initiator.base.errors import ConnectionLost, NvmeError, OutcomeUnknown, QueueLost
from nvmf.initiator.base.limits import LARGEST
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.retry import MAX_RETRIES, Losses, is_path_error
from nvmf.initiator.base.state import State
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.controller import Controller
from nvmf.initiator.client.namespace import Namespace
from nvmf.initiator.multipath.ana import is_ana_error
from nvmf.initiator.multipath.features import Features
from nvmf.initiator.multipath.identity import Identity
from nvmf.initiator.multipath.namespace import MultipathNamespace
from nvmf.initiator.multipath.path import UNREACHED, Path
from nvmf.initiator.multipath.policy import chooser, usable
from nvmf.spec.identify import Cmic
from nvmf.spec.status import DNR, Status

log = logging.getLogger(__name__)
T = TypeVar("T")
_MAX_DOUBTS = 20
"""Attempts of a command that meets different ANA states than the log page reports."""
CLOSED = "the subsystem was closed"


class Paths:
    """The paths of one subsystem and their namespaces; run() sends a command by one of them."""

    def __init__(self, subnqn: str, policy: str) -> None:
        self.subnqn = subnqn
        self.policy = policy
        self.paths: list[Path] = []
        """The paths, in the given order."""
        self.features = Features()
        """Features that were set: every path has them, or gets them when it connects."""
        self._numbers = 0
        self._heads: dict[int, MultipathNamespace] = {}
        self._told: set[int] = set()
        """The namespaces whose commands wait for a different ANA state, which was logged."""
        self._closed = False
        self._changed = asyncio.Event()

    @property
    def policy(self) -> str:
        """numa, round-robin or queue-depth; may be set at any time."""
        return self._policy

    @policy.setter
    def policy(self, policy: str) -> None:
        self._choose = chooser(policy)
        self._policy = policy

    # ---- paths ----

    async def connect(self, places: Sequence[tuple[TransportId, ConnectOptions]]) -> list[Path]:
        """Connect to all at once, and return the paths.

        Those that cannot be reached are tried again; if none can, the first error is raised.
        Raise ConnectionLost if they do not lead to the same namespaces, or if the subsystem is
        closed before they are connected.
        """
        if self._closed:
            raise ConnectionLost(CLOSED)
        new = [
            Path(number, where, options, self._survey, self.features)
            for number, (where, options) in enumerate(places, self._numbers)
        ]
        self._numbers += len(new)
        self.paths += new
        try:
            await self._connect(new)
        except BaseException:
            self.paths = [path for path in self.paths if path not in new]
            self._survey()
            await asyncio.gather(*(path.close() for path in new))
            raise
        return new

    async def _connect(self, new: list[Path]) -> None:
        results = await asyncio.gather(*(path.connect() for path in new), return_exceptions=True)
        if self._closed:
            raise ConnectionLost(CLOSED)
        errors = [result for result in results if isinstance(result, BaseException)]
        for error in errors:
            if not isinstance(error, UNREACHED):
                raise error
        if errors and not any(path.controller for path in self.paths):
            raise errors[0]
        self._survey()
        for path, result in zip(new, results, strict=True):
            self._check(path)
            if isinstance(result, Exception):
                path.keep_trying(result)

    def _check(self, path: Path) -> None:
        for why in path.refused.values():
            raise ConnectionLost(why)
        if path.controller is None or len(self.paths) == 1:
            return
        if not path.controller.identify.cmic & Cmic.MULTI_CONTROLLER:
            raise ConnectionLost(
                f"{self.subnqn} at {path.where.endpoint} is not a subsystem of several controllers "
                "(CMIC): it has one path"
            )

    async def remove(self, path: Path) -> None:
        """Disconnect a path; commands use the others."""
        self.paths.remove(path)
        self._survey()
        await path.close()
        self._wake()

    async def end(self) -> None:
        """Disconnect all; commands in flight and waiting ones fail."""
        self._closed = True
        self._wake()
        await asyncio.gather(*(path.close() for path in self.paths))

    # ---- namespaces ----

    def _survey(self) -> None:
        """Update after a change of paths, namespaces or states, and wake waiting callers."""
        seen: dict[int, list[tuple[Path, Namespace]]] = {}
        for path in self.paths:
            path.admitted = {}
            for one in path.namespaces:
                seen.setdefault(one.nsid, []).append((path, one))
        for nsid in self._heads.keys() - seen.keys():
            del self._heads[nsid]
        for nsid, found in seen.items():
            head = self._heads.get(nsid)
            # A path that was given up has the namespaces of the past.
            now = [item for item in found if item[0].state is not State.LOST] or found
            if head is None or not any(self._same(head, one) for _, one in now):
                head = self._heads[nsid] = MultipathNamespace(self, now[0][1])
            self._admit(head, found)
        self._wake()

    def _same(self, head: MultipathNamespace, one: Namespace) -> bool:
        return head.identity == Identity.of(one)

    def _admit(self, head: MultipathNamespace, found: list[tuple[Path, Namespace]]) -> None:
        """Find the paths of the same namespace; other paths are not used for it."""
        first: Path | None = None
        for path, one in found:
            identity = Identity.of(one)
            why = head.identity.difference(identity) if first or identity != head.identity else ""
            before = path.refused.pop(head.nsid, "")
            if why:
                path.refused[head.nsid] = why = (
                    f"namespace {head.nsid} of {self.subnqn} at {path.where.endpoint} is not the "
                    f"one of the other paths: {why}"
                )
                if why != before:
                    log.error("%s", why)
                continue
            path.admitted[head.nsid] = one
            if first is None:
                first = path
                head.info, head.ids = one.info, one.ids

    def heads(self) -> list[MultipathNamespace]:
        """Return the namespaces that any path has, by NSID."""
        return [self._heads[nsid] for nsid in sorted(self._heads)]

    def head(self, nsid: int) -> MultipathNamespace:
        """Return one namespace; raise NvmeError if no path has it."""
        found = self._heads.get(whole("nsid", nsid))
        if found is None:
            raise _no_namespace(nsid)
        return found

    # ---- commands ----

    @property
    def max_transfer(self) -> int:
        """Maximum bytes of one command, for all paths."""
        limits = (path.controller.max_transfer for path in self.paths if path.controller)
        return min(limits, default=LARGEST)

    @property
    def hostid(self) -> bytes:
        """The host identifier of all paths; ValueError if they have different ones."""
        made = [path.controller for path in self.paths if path.controller is not None]
        found = {one.session.place.identity.id.bytes for one in made}
        if len(found) != 1:
            raise ValueError(
                f"the paths to {self.subnqn} are connected with {len(found)} host identifiers: "
                "a reservation belongs to one host; give all paths the same hostid"
            )
        return found.pop()

    def losses(self, name: str) -> Losses:
        """Return a count of the losses of a command, which limits its attempts."""
        return Losses(name, MAX_RETRIES * max(len(self.paths), 1))

    async def set_features(self, fid: int, value: int) -> int:
        """Set a feature through every path, and return the first answer.

        Paths that are not connected get it when they are.  Raise NvmeError if a controller
        refuses: it may be set by other paths.
        """
        before = self.features.put(fid, value)
        answers: list[int] = []
        losses = self.losses("Set Features")
        try:
            while not answers:
                await self.live()
                for path in list(self.paths):
                    answers += await self._set_one(path, fid, value, losses)
        except (NvmeError, ConnectionLost) as error:
            self.features.restore(fid, value, before)
            if answers and isinstance(error, NvmeError):
                error.detail += f" by {path.where.endpoint}, and other paths have it"
            raise
        return answers[0]

    @staticmethod
    async def _set_one(path: Path, fid: int, value: int, losses: Losses) -> list[int]:
        """Return the answer, or an empty list if the path is not connected."""
        controller = path.controller
        if controller is None or path.state is not State.LIVE:
            return []
        try:
            return [await controller.set_features(fid, value)]
        except QueueLost as lost:
            losses.add(lost)
            return []
        except ConnectionLost:
            if controller.state is State.LIVE:
                raise
            return []

    async def run(self, head: MultipathNamespace, work: Callable[[Namespace], Awaitable[T]]) -> T:
        """Return the result of a command on a namespace, through any of the paths."""
        tried: set[Path] = set()
        rounds = doubts = 0
        losses = self.losses("a command")
        while True:
            path, namespace = await self._pick(head, tried)
            path.outstanding += 1
            path.commands += 1
            head.last = path.number
            try:
                return await work(namespace)
            except OutcomeUnknown:
                raise
            except ConnectionLost as lost:
                path.failovers += 1
                losses.add(lost)
            except NvmeError as error:
                if error.dnr or not is_path_error(error.status):
                    raise
                path.failovers += 1
                if is_ana_error(error.status) and path.doubt(head.nsid):
                    doubts += 1
                    if doubts > _MAX_DOUBTS:
                        raise
                    await asyncio.sleep(0.01 * 2 ** min(doubts, 6))
                    continue
                tried.add(path)
                if tried.issuperset(self._usable(head)):
                    if rounds == MAX_RETRIES:
                        raise
                    tried.clear()
                    await asyncio.sleep(0.01 * 2**rounds)
                    rounds += 1
            finally:
                path.outstanding -= 1

    def _usable(self, head: MultipathNamespace) -> list[Path]:
        nsid = head.nsid
        return usable(
            (path, path.ana(nsid))
            for path in self.paths
            if path.state is State.LIVE and path.namespace(nsid) is not None
        )

    async def _pick(self, head: MultipathNamespace, but: set[Path]) -> tuple[Path, Namespace]:
        """Return the path for a command, once there is one, or raise ConnectionLost."""
        while True:
            if self._closed:
                raise ConnectionLost(CLOSED)
            if self._heads.get(head.nsid) is not head:
                raise _no_namespace(head.nsid)
            found = self._usable(head)
            found = [path for path in found if path not in but] or found
            if found:
                self._told.discard(head.nsid)
                path = self._choose(found, head.last)
                namespace = path.namespace(head.nsid)
                assert namespace is not None
                return path, namespace
            self._tell_waiting(head.nsid)
            await self._wait(head.nsid)

    def _tell_waiting(self, nsid: int) -> None:
        """Log once that commands wait for a different ANA state; losses are logged elsewhere."""
        states = [
            (path, path.ana(nsid))
            for path in self.paths
            if path.state is State.LIVE and path.namespace(nsid) is not None
        ]
        known = [(path, state) for path, state in states if state is not None]
        if nsid in self._told or not known or len(known) < len(states):
            return
        self._told.add(nsid)
        log.warning(
            "%s: commands of namespace %d wait: no live path has a usable ANA state (%s)",
            self.subnqn,
            nsid,
            ", ".join(
                f"{path.where.endpoint}: {state.name.lower().replace('_', ' ')}"
                for path, state in known
            ),
        )

    async def live(self) -> Controller:
        """Return a controller for admin commands: the first that is live, once one is."""
        while True:
            if self._closed:
                raise ConnectionLost(CLOSED)
            for path in self.paths:
                if path.state is State.LIVE and path.controller is not None:
                    return path.controller
            await self._wait()

    async def _wait(self, nsid: int | None = None) -> None:
        """Wait for a change; raise ConnectionLost if none can come."""
        if not any(self._hopeful(path, nsid) for path in self.paths):
            reasons = [path.refused.get(nsid or 0) or path.why for path in self.paths]
            why = "; ".join(dict.fromkeys(reason for reason in reasons if reason))
            raise ConnectionLost(f"no path to {self.subnqn} is left: {why or 'all were removed'}")
        await self._changed.wait()

    @staticmethod
    def _hopeful(path: Path, nsid: int | None) -> bool:
        """Return whether commands may use a path later, though not now."""
        if nsid in path.refused:
            return False
        if path.state is State.LIVE:
            return nsid is None or path.may_have(nsid)
        return path.state is State.RECONNECTING

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _no_namespace(nsid: int) -> NvmeError:
    return NvmeError.of("Identify", Status.INVALID_NAMESPACE_OR_FORMAT | DNR, nsid=nsid, io=True)
