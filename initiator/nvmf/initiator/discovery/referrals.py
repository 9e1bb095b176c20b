# SPDX-License-Identifier: BSD-3-Clause
"""Discovery with referrals: the logs of a port and of all services that it refers to.

A host need not go deeper than eight referrals (Base 2.1, 5.1.12.3.1), and does not ask a service
twice, so that referrals in a circle end. A port may have several services, with different NQNs.
follow() decides which logs are read; its caller reads them, with the client or through the kernel.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from nvmf.auth.key import Key
from nvmf.engine import EngineError
from nvmf.initiator.base.discoverylog import MAX_RECORDS
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.keywords import ASKING, given
from nvmf.initiator.base.options import Backend, ConnectOptions, DeviceKind, RemoteKeys
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.discovery.log import address_key, place_of, raw_log
from nvmf.spec.fabrics import (
    DiscoveryEntry,
    DiscoveryHeader,
    EntryFlags,
    SubsystemType,
    decode_discovery_log,
)
from nvmf.spec.status import StatusError

MAX_DEPTH = 8
"""Maximum depth of referrals."""
MAX_LOGS = 256
"""Maximum logs to read from one start."""
_AT_ONCE = 8
"""Maximum logs to read at the same time."""
_MAX_REFERRED = MAX_RECORDS // _AT_ONCE
"""Maximum records of a log that a referral led to: one service must not cause unlimited work."""
Opts = TypeVar("Opts")
"""The options of a connection."""


@dataclass(frozen=True, slots=True)
class FoundLog:
    """The log of one discovery service, or why it could not be read."""

    place: TransportId
    depth: int
    """The number of referrals that led to it; 0 for a service that the caller named."""
    header: DiscoveryHeader = field(default_factory=DiscoveryHeader)
    entries: tuple[DiscoveryEntry, ...] = ()
    raw: bytes = field(default=b"", repr=False)
    error: Exception | None = None
    """The ConnectError, NvmeError, ConnectionLost or KernelError; its text is a sentence."""


@dataclass(frozen=True, slots=True)
class Ask(Generic[Opts]):
    """A log to read."""

    place: TransportId
    options: Opts
    depth: int
    """The number of referrals that led to it."""
    most: int
    """Maximum records."""

    def found(self, raw: bytes) -> FoundLog:
        """Return the log with these bytes; raise DecodeError."""
        header, entries = decode_discovery_log(raw)
        return FoundLog(self.place, self.depth, header, tuple(entries), raw)

    def failed(self, error: Exception) -> FoundLog:
        """Return the log that could not be read."""
        return FoundLog(self.place, self.depth, error=error)


Service = tuple[str, str, str]
"""A discovery service at a port: its address, and its NQN, or the one by which it was asked first,
because it may have a unique NQN beside the well-known one."""
Reader = Callable[[Sequence[Ask[Opts]]], Awaitable[Sequence[FoundLog]]]
"""Read logs, and return one result for each."""


async def discover_all(
    starts: str | TransportId | Iterable[TransportId], options: ConnectOptions | None = None, /, *,
    depth: int = MAX_DEPTH,
    queues: int = ASKING.queues, queue_depth: int = ASKING.queue_depth, kato: float = ASKING.kato,
    hostnqn: str | None = ASKING.hostnqn, hostid: str | None = ASKING.hostid,
    host_traddr: str | None = ASKING.host_traddr, reconnect_delay: float = ASKING.reconnect_delay,
    ctrl_loss_tmo: float = ASKING.ctrl_loss_tmo, io_timeout: float = ASKING.io_timeout,
    admin_timeout: float = ASKING.admin_timeout, connect_timeout: float = ASKING.connect_timeout,
    in_capsule: bool = ASKING.in_capsule, disable_sqflow: bool = ASKING.disable_sqflow,
    dhchap_secret: Key | str | None = ASKING.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = ASKING.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = ASKING.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = ASKING.dhchap_ctrl_secret_file,
    device: DeviceKind = ASKING.device, remote_keys: RemoteKeys = ASKING.remote_keys,
    backend: Backend = ASKING.backend, write_queues: int = ASKING.write_queues,
    poll_queues: int = ASKING.poll_queues, fast_io_fail_tmo: float | None = ASKING.fast_io_fail_tmo,
    tos: int | None = ASKING.tos, duplicate_connect: bool = ASKING.duplicate_connect,
) -> AsyncGenerator[FoundLog, None]:  # fmt: skip
    """Return the logs of discovery services and of those that they refer to, nearest first.

    depth 0 follows no referral. For a service that cannot be asked, the log has an error; the
    others are still read. If the logs have more than MAX_RECORDS records together, further
    referrals are not followed; this too is reported as an error of a log. Options are those of
    ConnectOptions; they take precedence over those of the starts.
    """
    changes = given(locals())
    if isinstance(starts, str | TransportId):
        starts = [TransportId.of(starts)]
    base = (options or ConnectOptions(kato=0)).with_options(changes)
    asked = [(place, base.with_options({**place.options, **changes})) for place in starts]
    async with aclosing(follow(asked, read_logs, depth)) as logs:
        async for log in logs:
            yield log


async def follow(
    starts: Iterable[tuple[TransportId, Opts]], read: Reader[Opts], depth: int
) -> AsyncGenerator[FoundLog, None]:
    """Return the logs of services, and of those that they refer to, nearest first.

    A referred service is asked with the options of the service that refers to it. If one of the
    limits is reached, the last log has an error that says so.
    """
    level = [(place, how, place.subnqn) for place, how in starts]
    seen: set[Service] = set()
    asked = records = 0
    for now in range(depth + 1):
        most = _MAX_REFERRED if now else MAX_RECORDS
        wanted: list[Ask[Opts]] = []
        names = []
        for place, how, name in level:
            address = address_key(place)
            services = {(*address, name), (*address, place.subnqn)}
            if seen.isdisjoint(services):
                seen |= services
                wanted.append(Ask(replace(place, options={}), how, now, most))
                names.append(name)
        level = []
        kept = wanted[: max(MAX_LOGS - asked, 0)] if now else wanted
        asked += len(wanted)
        for first in range(0, len(kept), _AT_ONCE):
            part = kept[first : first + _AT_ONCE]
            if now and records > MAX_RECORDS:
                yield part[0].failed(_not_followed(f"{records} records were read"))
                return
            for ask, found, name in zip(part, await read(part), names[first:], strict=False):
                yield found
                records += len(found.entries)
                seen |= _names(ask.place, found.entries)
                level += [
                    (place, ask.options, name if same else place.subnqn)
                    for place, same in _referred(found.entries)
                ]
        if len(kept) < len(wanted):
            yield wanted[len(kept)].failed(
                _not_followed(f"the logs of {MAX_LOGS} services were read")
            )
            return
        if not level:
            return


def _names(place: TransportId, entries: Iterable[DiscoveryEntry]) -> set[Service]:
    """Return the service at a place by the NQNs that its own log gives it.

    A log is believed about its own address only: others would not be asked otherwise.
    """
    own = address_key(place)
    names: set[Service] = set()
    for entry in entries:
        if entry.subtype == SubsystemType.CURRENT_DISCOVERY:
            with suppress(ValueError):  # of a different transport
                if address_key(place_of(entry)) == own:
                    names.add((*own, entry.subnqn))
    return names


def _not_followed(why: str) -> ConnectionLost:
    return ConnectionLost(f"this referral and later ones are not followed: {why}")


def referred(entries: Iterable[DiscoveryEntry]) -> list[TransportId]:
    """Return the other discovery services of a log that this client can ask.

    A port of the same service is included if its record says that it has more information.
    """
    return [place for place, _ in _referred(entries)]


def _referred(entries: Iterable[DiscoveryEntry]) -> list[tuple[TransportId, bool]]:
    """Return them, and whether each is a port of the same service."""
    places = []
    for entry in entries:
        more = not entry.eflags & EntryFlags.DUPLICATE
        current = entry.subtype == SubsystemType.CURRENT_DISCOVERY
        if entry.subtype == SubsystemType.REFERRAL or (current and more):
            try:
                places.append((place_of(entry), current))
            except ValueError:
                continue  # of a different transport, or with an invalid address
    return places


async def read_logs(asked: Sequence[Ask[ConnectOptions]]) -> Sequence[FoundLog]:
    """Read logs with the client, all at the same time."""
    return await asyncio.gather(*map(_read, asked))


async def _read(ask: Ask[ConnectOptions]) -> FoundLog:
    try:
        return ask.found(await raw_log(ask.place, ask.options, ask.most))
    except (EngineError, StatusError, ConnectionLost) as error:
        return ask.failed(error)
