# SPDX-License-Identifier: BSD-3-Clause
"""The error log of a controller (Base 2.0, 5.16.1.2), with failed commands of that controller only.

Commands refused by Python code are entered at once.  Errors of the engine stay in a ring of their
queue pair, and are collected when the log is read, when a further entry is made, when the queue
ends, or when the Keep Alive Timer is checked; each then also gets a line in the target's log.
Controllers are dynamic: their error log and its count start empty.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable

from nvmf.spec.logs import ErrorEntry
from nvmf.spec.opcodes import AdminOpcode, IoOpcode, command_title
from nvmf.spec.sqe import At, Sqe
from nvmf.spec.status import CODE_MASK, Status, StatusError
from nvmf.target.command.engine import CommandError
from nvmf.target.model.queue import Queue

log = logging.getLogger("nvmf.target")

ERROR_LOG_ENTRIES = 16
_LOGGED = 16
"""Log lines per queue for errors of the engine; further errors are only counted."""
_NOWHERE = 0xFFFF
_ON_BLOCKS = (IoOpcode.WRITE_UNCORRECTABLE, IoOpcode.WRITE, IoOpcode.WRITE_ZEROES)
"""I/O commands with an LBA that Python completes."""
_LOCATIONS = {
    Status.INVALID_NAMESPACE_OR_FORMAT: At.NSID,
    Status.SGL_DATA_LENGTH_INVALID: At.DPTR,
    Status.INVALID_LOG_PAGE: At.DW10,
    Status.LBA_OUT_OF_RANGE: At.DW10,
    Status.FEATURE_NOT_SAVEABLE: At.SV,
}
"""Parameters in error by status, for all callers; see also c/target/errors.c."""


class ErrorLog:
    """The last errors of a controller, and their total number."""

    def __init__(self) -> None:
        self.count = 0
        """Number of Error Information Log Entries over the life of the controller."""
        self.entries: deque[ErrorEntry] = deque(maxlen=ERROR_LOG_ENTRIES)
        """Entries, the newest first."""
        self._seen: dict[Queue, int] = {}
        """Number of engine errors collected per queue."""

    def record(
        self,
        queue: Queue,
        sqe: Sqe,
        status: int,
        queues: Iterable[Queue],
        location: int | None = None,
    ) -> None:
        """Enter a command refused by Python; collect errors of all queues of the controller first.

        location: of the parameter in error, if known.
        """
        self.collect(queues)
        if location is None:
            location = _location(sqe, status & CODE_MASK)
        on_blocks = queue.qid and sqe.opcode in _ON_BLOCKS
        lba = sqe.cdw10 | sqe.cdw11 << 32 if on_blocks else 0
        self._enter(queue.qid, sqe.cid, status, sqe.nsid, sqe.opcode, location=location, lba=lba)

    def collect(self, queues: Iterable[Queue]) -> None:
        """Enter the engine's errors since the last call, in order of time.

        Errors that a ring has lost meanwhile are counted as older than all of these.
        """
        found: list[tuple[float, Queue, CommandError]] = []
        for queue in queues:
            seen = self._seen.get(queue, 0)
            last, errors = queue.handle.errors(seen)
            if last != seen:
                self._seen[queue] = last
                self.count += last - seen - len(errors)
                for number, error in enumerate(errors, last - len(errors) + 1):
                    found.append((error["when"], queue, error))
                    if number <= _LOGGED:
                        _tell(queue, error, last=number == _LOGGED)
        for _, queue, error in sorted(found, key=lambda one: one[0]):
            self._enter(queue.qid, error["cid"], error["status"], error["nsid"], error["opcode"],
                        location=error["location"], lba=error["lba"])  # fmt: skip

    def forget(self, queue: Queue) -> None:
        """Collect the last errors of a queue that has ended."""
        self.collect([queue])
        self._seen.pop(queue, None)

    def _enter(
        self, qid: int, cid: int, status: int, nsid: int, opcode: int, *,
        location: int, lba: int = 0,
    ) -> None:  # fmt: skip
        self.count += 1
        self.entries.appendleft(
            ErrorEntry(
                error_count=self.count,
                sqid=qid,
                cid=cid,
                status_field=status << 1,
                parameter_error_location=location,
                lba=lba,
                nsid=nsid if opcode != AdminOpcode.FABRICS else 0,
                opcode=opcode,
            )
        )


def _tell(queue: Queue, error: CommandError, *, last: bool) -> None:
    nsid, lba = error["nsid"], error["lba"]
    name = command_title(error["opcode"], io=queue.qid > 0)
    where = f" of namespace {nsid}" + (f" at block {lba}" if lba else "") if queue.qid else ""
    log.info(
        "%s: %s%s refused: %s%s",
        queue,
        name,
        where,
        StatusError.from_wire(error["status"], io=queue.qid > 0),
        " (further ones are only counted)" if last else "",
        extra={"nsid": nsid} if queue.qid else None,
    )


def _location(sqe: Sqe, code: int) -> int:
    """Return the location of the parameter in error for a status; FFFFh if unknown."""
    if code == Status.INVALID_OPCODE:
        return At.NSID if sqe.opcode == AdminOpcode.FABRICS else At.OPCODE
    return _LOCATIONS.get(Status(code), _NOWHERE) if code in set(Status) else _NOWHERE
