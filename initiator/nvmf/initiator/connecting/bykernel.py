# SPDX-License-Identifier: BSD-3-Clause
"""Connect the kernel to all subsystems that discovery finds, for `nvmeof connect-all`.

The decisions are those of connect_all() (everything.py). Here the options are the kernel's own, so
that its defaults apply to those that were not given, and a connection outlives the process. All
calls block, without an event loop, so that a signal interrupts them.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.connecting.everything import Connector, Outcome, Start, connect_found
from nvmf.initiator.discovery.referrals import Ask, FoundLog
from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.host import Connected, connect, connected_to
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.kernel.system import System
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.status import DecodeError

T = TypeVar("T")
ReadLog = Callable[[FabricsOptions, int], bytes]
"""Return the discovery log of a port, with at most so many records; raise KernelError."""


class ByKernel(Connector[FabricsOptions, Connected]):
    """The kernel connects; read_log reads the logs."""

    def __init__(self, read_log: ReadLog, system: System) -> None:
        self._read_log = read_log
        self._system = system

    async def read(self, asked: Sequence[Ask[FabricsOptions]]) -> Sequence[FoundLog]:
        """Read logs, one after the other."""
        return [self._read(ask) for ask in asked]

    def _read(self, ask: Ask[FabricsOptions]) -> FoundLog:
        try:
            place = ask.place
            there = replace(
                ask.options, traddr=place.traddr, trsvcid=place.trsvcid, nqn=place.subnqn
            )
            return ask.found(self._read_log(there, ask.most))
        except (KernelError, DecodeError) as error:
            return ask.failed(error)
        except ValueError as error:  # the kernel does not accept such an address
            return ask.failed(KernelError(f"cannot follow the referral: {error}"))

    async def connect(self, place: TransportId, options: FabricsOptions) -> Outcome[Connected]:
        """Connect to one subsystem, if the kernel is not connected to it."""
        try:
            wanted = replace(options, traddr=place.traddr, trsvcid=place.trsvcid, nqn=place.subnqn)
        except ValueError as error:
            return Outcome(place, error=KernelError(f"cannot connect: {error}"))
        existing = connected_to(wanted, self._system)
        if existing and not wanted.duplicate_connect:
            return Outcome(place, Connected(existing, [], []), skipped=True)
        try:
            return Outcome(place, connect(wanted, self._system))
        except KernelError as error:
            if error.errno == errno.EALREADY:
                return Outcome(place, skipped=True)
            return Outcome(place, error=error)


def start_of(options: FabricsOptions, *, discovery: bool) -> Start[FabricsOptions]:
    """Return the start for a controller; discovery: connect to the subsystems in its log."""
    nqn = DISCOVERY_NQN if discovery else options.nqn
    place = TransportId(options.traddr, options.trsvcid, nqn)
    return Start(place, options, options if discovery else None)


def connect_found_by_kernel(
    starts: Iterable[Start[FabricsOptions]], by: ByKernel
) -> Iterator[Outcome[Connected]]:
    """Connect the kernel to controllers, and to the subsystems in the logs of those for discovery.

    See connect_all() for the results. An existing connection is in a result that is skipped.
    """
    return _blocking(connect_found(starts, by))


def _blocking(outcomes: AsyncGenerator[T, None]) -> Iterator[T]:
    """Iterate over an asynchronous generator that never waits, without an event loop."""
    while True:
        try:
            outcomes.__anext__().send(None)
        except StopIteration as result:
            yield result.value
        except StopAsyncIteration:
            return
        else:
            raise AssertionError("it waits")
