# SPDX-License-Identifier: BSD-3-Clause
"""Commands that may have to wait for something: answered at once where they need not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from nvmf.spec.status import StatusError
from nvmf.target.command.request import Completion, Request

log = logging.getLogger("nvmf.target")

Done: TypeAlias = Callable[[StatusError | None], None]
"""Called once: with why something could not be done, or None."""


class Finisher(Protocol):
    """The controller of a command that stays outstanding."""

    def finish(self, request: Request, completion: Completion) -> None: ...


def answer(
    controller: Finisher, request: Request, begin: Callable[[Done], None]
) -> Completion | None:
    """What a handler returns for a command that begin does; None where it is not done yet.

    begin hands on what is to be called when it is.  StatusError where it has failed already.
    """
    result: list[StatusError | None] = []
    returned = False

    def done(failure: StatusError | None) -> None:
        if not returned:
            result.append(failure)
        elif failure is None:
            controller.finish(request, Completion())
        else:
            log.info("%s: a command that had to wait is refused: %s", controller, failure)
            controller.finish(request, Completion(status=failure.code))

    begin(done)
    returned = True
    if not result:
        return None
    if result[0] is not None:
        raise result[0]
    return Completion()


def each(nsids: Sequence[int], begin: Callable[[int, Done], None], done: Done) -> None:
    """Begin the same of each namespace; done is called when all are, with the last failure."""
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
