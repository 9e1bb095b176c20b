# SPDX-License-Identifier: BSD-3-Clause
"""The choice of a path: by ANA states, then by one of Linux's policies (nvme_core.iopolicy).

Sans-IO.  Optimized paths go before non-optimized ones; no other state is used.  Among equals:

- numa: always the first. Linux takes the one nearest to the processor; here the caller's order
  decides.
- round-robin: one after the other.
- queue-depth: the one with the fewest commands outstanding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol, TypeVar, get_args

from nvmf.spec.ana import AnaState

Policy = Literal["numa", "round-robin", "queue-depth"]


class Candidate(Protocol):
    """The properties of a path that a policy uses."""

    @property
    def number(self) -> int:
        """Its position in the caller's order."""
        ...

    @property
    def outstanding(self) -> int:
        """Commands outstanding."""
        ...


P = TypeVar("P", bound=Candidate)


def usable(paths: Iterable[tuple[P, AnaState | None]]) -> list[P]:
    """The optimized paths; if there are none, the non-optimized ones.  None: not known."""
    by_state: dict[AnaState | None, list[P]] = {}
    for path, state in paths:
        by_state.setdefault(state, []).append(path)
    return by_state.get(AnaState.OPTIMIZED) or by_state.get(AnaState.NON_OPTIMIZED) or []


def _numa(paths: Sequence[P], last: int) -> P:
    return paths[0]


def _round_robin(paths: Sequence[P], last: int) -> P:
    return next((path for path in paths if path.number > last), paths[0])


def _queue_depth(paths: Sequence[P], last: int) -> P:
    return min(paths, key=lambda path: path.outstanding)


def chooser(policy: str) -> Callable[[Sequence[P], int], P]:
    """A function of usable paths in order, and of the number of the one that was chosen last.

    ValueError lists the policies.
    """
    if policy == "numa":
        return _numa
    if policy == "round-robin":
        return _round_robin
    if policy == "queue-depth":
        return _queue_depth
    raise ValueError(f"unknown policy {policy!r}: the policies are {', '.join(get_args(Policy))}")
