# SPDX-License-Identifier: BSD-3-Clause
"""Changes to the state of namespaces: one at a time per namespace, stored before taking effect.

A slow disk delays only other changes to the same namespace.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, NoReturn, TypeAlias, TypeVar

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
    """The result of a change, determined at its turn."""

    after: T
    """The new state of the namespace."""
    enter: Callable[[], None]
    """Puts the state into effect."""
    files: NamespaceFiles[T] | None = None
    """The files in which the state is stored first; None if it need not be stored."""
    content: bytes | None = None
    """New content of the file; None to remove the file."""


Begin: TypeAlias = "Callable[[Namespace], Plan[T]]"
"""Returns the plan for a namespace; raises StatusError if the change is refused."""


@dataclass(frozen=True, slots=True)
class _Commit(Generic[T]):
    """A requested change of a namespace, and the callback of its requester."""

    namespace: Namespace | None
    begin: Begin[T]
    done: Done


def _nothing(namespace: Namespace) -> NoReturn:
    raise AssertionError("a change without a namespace is not begun")


class Commits(Generic[T]):
    """The changes to a subsystem's namespaces."""

    def __init__(self, subsystem: Subsystem) -> None:
        self._subsystem = subsystem
        self._lines: dict[int, deque[_Commit[T]]] = {}
        """Queued changes by NSID; the first is in progress."""
        self._saving: dict[int, T] = {}
        """States that are being stored."""

    def leaving(self, nsid: int, now: T) -> T:
        """Return the state of a namespace about to be removed, including one being stored."""
        return self._saving.get(nsid, now)

    def add(self, nsid: int, begin: Begin[T], done: Done) -> None:
        """Execute the plan of begin: store the state if required, then put it into effect.

        Changes are made in the order of calls.  done may be called at once.  Its argument is the
        failure, in which case nothing has changed: the StatusError of begin, Internal Error if the
        state cannot be stored, or Invalid Namespace or Format if the namespace was removed.
        """
        line = self._lines.setdefault(nsid, deque())
        line.append(_Commit(self._subsystem.namespaces.get(nsid), begin, done))
        if len(line) == 1:
            self._next(nsid)

    def settled(self, nsid: int, then: Callable[[], None]) -> None:
        """Call then when the changes added before have taken effect or failed; perhaps at once."""
        line = self._lines.get(nsid)
        if line is None:
            then()
        else:
            line.append(_Commit(None, _nothing, lambda _: then()))

    def _next(self, nsid: int) -> None:
        line = self._lines[nsid]
        while line:
            if self._waits(line[0], partial(self._begin, nsid, line[0])):
                return
            line.popleft()
        del self._lines[nsid]

    @staticmethod
    def _waits(one: _Commit[T], step: Callable[[], bool]) -> bool:
        """Run a step of a change; return whether more follow, otherwise report the result."""
        failure: StatusError | None = None
        try:
            if step():
                return True
        except StatusError as refusal:
            failure = refusal
        except Exception:  # in any case, the changes queued after it must proceed
            log.exception("cannot change the state of a namespace")
            failure = StatusError(Status.INTERNAL_ERROR, "the change failed inside the target")
        one.done(failure)
        return False

    def _begin(self, nsid: int, one: _Commit[T]) -> bool:
        """Begin a change; return whether its state must be stored first."""
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
        """Return the namespace of a change; raise StatusError if it was removed."""
        if one.namespace is None or self._subsystem.namespaces.get(nsid) is not one.namespace:
            raise StatusError(Status.INVALID_NAMESPACE_OR_FORMAT, f"namespace {nsid} was removed")
        return one.namespace
