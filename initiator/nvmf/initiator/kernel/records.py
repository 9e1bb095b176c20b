# SPDX-License-Identifier: BSD-3-Clause
"""Connect the kernel to every record of a discovery log, and of the logs that it refers to.

This is for the command line, with the terms of nvme-cli. The Python interface is
nvmf.initiator.connect_all.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.host import Connected, connect, connected_to
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.kernel.system import System
from nvmf.spec.fabrics import DiscoveryEntry, SubsystemType, TransportType

MAX_REFERRALS = 8
"""Maximum depth of referrals."""
MAX_LOGS = 256
"""Maximum ports whose logs are read; further referrals are not followed."""

ReadLog = Callable[[FabricsOptions], list[DiscoveryEntry]]


class Result(Enum):
    """The result of a record."""

    CONNECTED = "connected"
    ALREADY = "already connected"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """A record of a discovery log, and its result."""

    options: FabricsOptions
    result: Result
    connected: Connected | None = None
    device: str | None = None
    """The controller: nvme0."""
    error: KernelError | None = None


@dataclass(slots=True)
class ConnectRecords:
    """One run. read_log returns the discovery log of a port, or raises KernelError."""

    read_log: ReadLog
    system: System
    outcomes: list[RecordOutcome] = field(default_factory=list)
    _ports: set[tuple[str, str]] = field(default_factory=set)

    def run(self, options: FabricsOptions, depth: int = 0) -> None:
        """Connect to the subsystems that a port offers, with these options.

        Raises KernelError if the log of that port cannot be read; later failures are outcomes.
        """
        port = (options.traddr, options.trsvcid)
        if port in self._ports:
            return
        self._ports.add(port)
        referrals = []
        for entry in self.read_log(options):
            if entry.trtype != TransportType.RDMA:
                continue
            nvme = entry.subtype == SubsystemType.NVME
            try:
                there = replace(
                    options,
                    traddr=entry.traddr.strip(),
                    trsvcid=entry.trsvcid.strip(),
                    nqn=entry.subnqn if nvme else options.nqn,
                )
            except ValueError as error:  # invalid for the kernel, or an invalid NQN
                why = KernelError(f"invalid discovery log record: {error}")
                self._add(RecordOutcome(options, Result.FAILED, error=why))
                continue
            if nvme:
                self.one(there)
            elif entry.subtype == SubsystemType.REFERRAL and depth < MAX_REFERRALS:
                referrals.append(there)
        for there in referrals:
            if len(self._ports) >= MAX_LOGS:
                why = KernelError(
                    "this referral and those after it are not followed: the logs of "
                    f"{len(self._ports)} ports were read already"
                )
                self._add(RecordOutcome(there, Result.FAILED, error=why))
                return
            try:
                self.run(there, depth + 1)
            except KernelError as error:
                self._add(RecordOutcome(there, Result.FAILED, error=error))

    def one(self, options: FabricsOptions) -> None:
        """Connect one subsystem, if it is not connected."""
        self._add(self._connect(options))

    def _connect(self, options: FabricsOptions) -> RecordOutcome:
        already = connected_to(options, self.system)
        if already and not options.duplicate_connect:
            return RecordOutcome(options, Result.ALREADY, device=already.name)
        try:
            found = connect(options, self.system)
        except KernelError as error:
            result = Result.ALREADY if error.errno == errno.EALREADY else Result.FAILED
            return RecordOutcome(options, result, error=None if result is Result.ALREADY else error)
        return RecordOutcome(options, Result.CONNECTED, found, found.controller.name)

    def _add(self, outcome: RecordOutcome) -> None:
        self.outcomes.append(outcome)
