# SPDX-License-Identifier: BSD-3-Clause
"""Commands that may have to wait: completed at once if possible."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from nvmf.spec.status import StatusError
from nvmf.target.command.request import Completion, Request

log = logging.getLogger("nvmf.target")

Done: TypeAlias = Callable[[StatusError | None], None]
"""Called once, with the failure, or None on success."""


class Finisher(Protocol):
    """The controller of a command that stays outstanding."""

    def finish(self, request: Request, completion: Completion) -> None: ...


def answer(
    controller: Finisher, request: Request, begin: Callable[[Done], None]
) -> Completion | None:
    """Return the completion of a command that begin executes; None if it is not complete yet.

    begin receives the function to call when it is.  Raise StatusError if it has already failed.
    """
    result: list[StatusError | None] = []
    returned = False

    def done(failure: StatusError | None) -> None:
        if not returned:
            result.append(failure)
        elif failure is None:
            controller.finish(request, Completion())
        else:
            log.info("%s: delayed command failed: %s", controller, failure)
            controller.finish(request, Completion(status=failure.code))

    begin(done)
    returned = True
    if not result:
        return None
    if result[0] is not None:
        raise result[0]
    return Completion()


def each(nsids: Sequence[int], begin: Callable[[int, Done], None], done: Done) -> None:
    """Call begin for each namespace, and done when all have finished, with the last failure."""
    left, why = len(nsids), None

    def ended(failure: StatusError | None) -> None:
        nonlocal left, why
        left, why = left - 1, failure or why
        if not left:
            done(why)

    for nsid in nsids:
        begin(nsid, ended)
    if not nsids:
        done(None)
