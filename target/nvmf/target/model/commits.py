# SPDX-License-Identifier: BSD-3-Clause
"""Changes to what namespaces have besides their data: one at a time of each, and first on disk.

A disk that takes its time holds up nobody but those that want the same namespace changed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from nvmf.spec.status import Status, StatusError
from nvmf.target.command.later import Done
from nvmf.target.lasting.namespacefiles import NamespaceFiles

if TYPE_CHECKING:
    from nvmf.target.model.namespace import Namespace
    from nvmf.target.model.subsystem import Subsystem

log = logging.getLogger("nvmf.target")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan(Generic[T]):
    """What a change leads to, once it is its turn."""

    after: T
    """What the namespace has then."""
    enter: Callable[[], None]
    """Puts it in force."""
    files: NamespaceFiles | None = None
    """Where it has to be made to last first; None where it need not."""
    content: bytes | None = None
    """Of its file; None where there is to be none."""


Begin: TypeAlias = "Callable[[Namespace], Plan[T]]"
"""Given the namespace, what is to become of it; StatusError where it cannot be."""


@dataclass(frozen=True, slots=True)
class _Commit(Generic[T]):
    """A change, and who asked for it of what."""

    namespace: Namespace | None
    begin: Begin[T]
    done: Done


class Commits(Generic[T]):
    """Those of a subsystem's namespaces."""

    def __init__(self, subsystem: Subsystem) -> None:
        self._subsystem = subsystem
        self._lines: dict[int, deque[_Commit[T]]] = {}
        """Changes that are being made, the first, or that wait for it."""
        self._saving: dict[int, T] = {}
        """What is being made to last."""

    def leaving(self, nsid: int, now: T) -> T:
        """What a namespace takes along that goes now: what is in its file soon, too."""
        return self._saving.get(nsid, now)

    def add(self, nsid: int, begin: Begin[T], done: Done) -> None:
        """Put what begin plans in force, after it is made to last where it has to be.

        In the order of the calls.  done, which may be called at once, gets what kept it from being
        so; nothing has changed then: what begin raises, Internal Error where it cannot be made to
        last, Invalid Namespace or Format where the namespace has gone.
        """
        line = self._lines.setdefault(nsid, deque())
        line.append(_Commit(self._subsystem.namespaces.get(nsid), begin, done))
        if len(line) == 1:
            self._next(nsid)

    def _next(self, nsid: int) -> None:
        line = self._lines[nsid]
        while line:
            if self._waits(line[0], partial(self._begin, nsid, line[0])):
                return
            line.popleft()
        del self._lines[nsid]

    @staticmethod
    def _waits(one: _Commit[T], step: Callable[[], bool]) -> bool:
        """Whether a step of a change leads to another; else who asked for it hears what it did."""
        failure: StatusError | None = None
        try:
            if step():
                return True
        except StatusError as refusal:
            failure = refusal
        except Exception:  # whatever it is: those behind it in the line must have their turn
            log.exception("what lasts of a namespace could not be changed")
            failure = StatusError(Status.INTERNAL_ERROR, "it failed inside the target")
        one.done(failure)
        return False

    def _begin(self, nsid: int, one: _Commit[T]) -> bool:
        """Whether it has to be made to last first."""
        namespace = self._there(nsid, one)
        plan = one.begin(namespace)
        files = plan.files
        if files is None:
            plan.enter()
            return False
        self._saving[nsid] = plan.after
        self._subsystem.work(
            namespace,
            lambda: files.put(namespace.identity.uuid, plan.content),
            lambda error: self._subsystem.soon(
                lambda: self._saved(nsid, plan, files.was_put(namespace.identity.uuid, error))
            ),
        )
        return True

    def _saved(self, nsid: int, plan: Plan[T], failure: StatusError | None) -> None:
        del self._saving[nsid]
        one = self._lines[nsid][0]

        def enter() -> bool:
            self._there(nsid, one)
            if failure is not None:
                raise failure
            plan.enter()
            return False

        self._waits(one, enter)
        self._lines[nsid].popleft()
        self._next(nsid)

    def _there(self, nsid: int, one: _Commit[T]) -> Namespace:
        """The namespace that it was asked for."""
        if one.namespace is None or self._subsystem.namespaces.get(nsid) is not one.namespace:
            raise StatusError(Status.INVALID_NAMESPACE_OR_FORMAT, f"namespace {nsid} has gone")
        return one.namespace
