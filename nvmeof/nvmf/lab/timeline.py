# SPDX-License-Identifier: BSD-3-Clause
"""Faults on purpose during a measurement, and the counters of the target, by its RPC socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nvmf.json import JSON
from nvmf.lab.errors import LabError
from nvmf.lab.model import SystemFault, WireFault
from nvmf.relay.fault import ActiveFault
from nvmf.relay.relays import Relays
from nvmf.rpc.errors import ClientError
from nvmf.rpc.sync import connect

COUNTED = ("errors", "media_errors", "throttled", "flushes")
"""Counters of namespaces that are kept for each measurement."""


_EVERY = 0.05
"""The delay, in seconds."""


@dataclass(frozen=True)
class Event:
    """A fault that was active during a measurement."""

    begin_ms: int
    """Milliseconds since the first I/O of the measurement."""
    end_ms: int | None
    """None: until the end."""
    said: str
    hits: int


def wanted(fault: SystemFault) -> dict[str, JSON]:
    """Return the fault for RPC: without its time in the measurement."""
    return fault.model_dump(mode="json", exclude_defaults=True, exclude={"begin"})


def begin_faults(socket: Path, faults: Sequence[SystemFault]) -> None:
    """Start the faults that are active during the whole run.

    Raises:
        LabError: The target refuses one.
    """
    try:
        with connect(socket) as rpc:
            for fault in faults:
                if fault.begin is None:
                    rpc.add_fault(wanted(fault))
    except (ClientError, OSError) as error:
        raise LabError(f"cannot start a fault: {error}") from None


def counters(socket: Path | None) -> Mapping[str, int]:
    """Return the counters of a target's namespaces together; empty if it does not answer."""
    if socket is None:
        return {}
    try:
        with connect(socket) as rpc:
            found = rpc.stats()["namespaces"]
    except (ClientError, OSError):
        return {}
    totals = dict.fromkeys(COUNTED, 0)
    for one in found:
        totals["errors"] += one["errors"]
        totals["media_errors"] += one["media_errors"]
        totals["throttled"] += one["throttled"]
        totals["flushes"] += one["flushes"]
    return totals


class Timeline:
    """A context manager that starts faults at their times, and ends all of them at its end."""

    def __init__(
        self,
        socket: Path | None,
        faults: Sequence[SystemFault | WireFault],
        relay: Relays | None = None,
    ) -> None:
        self.events: list[Event] = []
        """Return the events, after the end."""
        self.problem: str | None = None
        """Why a fault could not be started."""
        self._socket = socket
        timed = [fault for fault in faults if fault.begin is not None]
        self._faults = sorted(timed, key=lambda fault: fault.begin or 0)
        self._relay = relay
        self._began: dict[int, int] = {}
        """Numbers of faults in the target: their milliseconds."""
        self._wire: list[tuple[int, ActiveFault]] = []
        """Faults on the wire, with their milliseconds."""
        self._end = threading.Event()
        self._start = 0.0
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Timeline:
        self._start = time.monotonic()
        if self._faults:
            self._thread = threading.Thread(target=self._run, name="nvmf-lab-faults", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is None:
            return
        self._end.set()
        self._thread.join()
        try:
            self._finish()
        except (ClientError, OSError) as error:
            self.problem = self.problem or str(error)

    def _run(self) -> None:
        if not self._wait_for_io():
            return
        for fault in self._faults:
            assert self._socket is not None
            if self._end.wait(max(0.0, self._start + (fault.begin or 0) - time.monotonic())):
                return
            if isinstance(fault, WireFault):
                assert self._relay is not None
                self._wire.append((self._now(), self._relay.begin(fault)))
                continue
            try:
                with connect(self._socket) as rpc:
                    made = rpc.add_fault(wanted(fault))
            except (ClientError, OSError) as error:
                self.problem = str(error)
                return
            self._began[made["id"]] = self._now()

    def _now(self) -> int:
        return int((time.monotonic() - self._start) * 1000)

    def _wait_for_io(self) -> bool:
        """Wait for the first command: fio needs some time to start."""
        assert self._socket is not None
        first: int | None = None
        try:
            with connect(self._socket) as rpc:
                while True:
                    found = rpc.stats()["namespaces"]
                    commands = sum(one["reads"] + one["writes"] for one in found)
                    first = commands if first is None else first
                    if commands != first:
                        self._start = time.monotonic()
                        return True
                    if self._end.wait(_EVERY):
                        return False
        except (ClientError, OSError) as error:
            self.problem = str(error)
            return False

    def _finish(self) -> None:
        for since, fault in self._wire:
            assert self._relay is not None
            self._relay.end(fault)
            seconds = fault.config.seconds
            until = None if seconds is None else since + int(seconds * 1000)
            self.events.append(Event(since, until, fault.config.summary(), fault.hits))
        if not self._began or self._socket is None:
            return
        with connect(self._socket) as rpc:
            for one in rpc.faults():
                begin = self._began.get(one["id"])
                if begin is None:
                    continue
                ended = one["ended"] is not None
                last = one if ended else rpc.remove_fault(one["id"])
                end = begin + int(one["seconds"] * 1000) if ended else None
                self.events.append(Event(begin, end, one["summary"], last["hits"]))
