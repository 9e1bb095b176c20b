# SPDX-License-Identifier: BSD-3-Clause
"""The list of active namespaces, as read by the client and the kernel's side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.nsidlist import MAX_NAMESPACES
from nvmf.initiator.kernel.host import active_namespaces
from nvmf.initiator.kernel.ioctl import Device
from nvmf.spec.sqe import Sqe

PAGE = 1024
"""NSIDs in a full page."""


class ListDevice:
    """A controller's character device that answers Identify with the NSIDs of pages(above)."""

    def __init__(self, pages: Callable[[int], list[int]]) -> None:
        self._pages = pages
        self.commands = 0

    def admin(self, sqe: bytes, name: str, length: int) -> tuple[bytes, int]:
        self.commands += 1
        assert self.commands < 1000, "the list is read without an end"
        nsids = self._pages(Sqe.decode(sqe).nsid)
        return b"".join(nsid.to_bytes(4, "little") for nsid in nsids).ljust(length, b"\0"), 0


def read(pages: Callable[[int], list[int]]) -> list[int]:
    return active_namespaces(cast(Device, ListDevice(pages)))


@pytest.mark.parametrize("count", [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE])
def test_all_pages_are_read(count: int) -> None:
    nsids = list(range(2, count + 2))
    assert read(lambda above: [nsid for nsid in nsids if nsid > above][:PAGE]) == nsids


def test_the_highest_nsid_ends_a_list() -> None:
    nsids = [*range(1, PAGE), 0xFFFFFFFE]
    assert read(lambda above: nsids) == nsids


def test_an_nsid_counts_once() -> None:
    assert read(lambda above: [3, 3, 2, 5]) == [3, 5]


@pytest.mark.parametrize(
    ("pages", "says"),
    [
        (lambda above: list(range(1, PAGE + 1)), "it repeats the same page after 1024"),
        (lambda above: [7] * PAGE, "it repeats the same page after"),
        (lambda above: list(range(above + 1, above + PAGE + 1)), f"more than {MAX_NAMESPACES}"),
    ],
)
def test_a_list_without_end(pages: Any, says: str) -> None:
    with pytest.raises(ConnectionLost, match=f"active namespaces does not end: .*{says}"):
        read(pages)
