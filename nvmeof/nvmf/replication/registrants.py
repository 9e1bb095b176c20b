# SPDX-License-Identifier: BSD-3-Clause
"""Registrations of a namespace that were left by fencings which did not reach the reservation."""

from __future__ import annotations

from collections.abc import Iterable

from nvmf.initiator import NvmeError
from nvmf.initiator.base.reservations import Reservations
from nvmf.spec.reservations import ReservationType
from nvmf.spec.status import CODE_MASK, Status


async def unregister(reservations: Reservations, key: int, others: Iterable[int]) -> None:
    """End the registrations with other keys, as the registrant that has key."""
    for other in others:
        try:
            await reservations.preempt(key, ReservationType.EXCLUSIVE_ACCESS, other, abort=True)
        except NvmeError as error:
            # It has ended meanwhile, or that of key has: then nothing was changed.
            if error.status & CODE_MASK != Status.RESERVATION_CONFLICT:
                raise
