# SPDX-License-Identifier: BSD-3-Clause
"""The cells of the matrix: each has a target, a host and a device."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from lab import network
from lab.guest import Guest
from lab.prepare import SERIES

NETDEV = "eth0"
QUICKLY = os.environ.get("NVMF_LAB") == "quick"
"""Whether each cell is only connected, tried with verified I/O, and disconnected."""


@dataclass(frozen=True)
class Cell:
    """One row with one device; its string is its name in pytest's output."""

    target: str
    """``kernel`` is nvmet-rdma; ``ours`` in the guest; ``ours_outside`` on an embedded device."""
    device: str
    """The guest's RDMA device: siw or rxe, with ``-ipv6`` if its addresses are IPv6."""
    host: str = "kernel"

    def __str__(self) -> str:
        return f"{self.target}-{self.host}-{self.device}"

    @property
    def kind(self) -> str:
        """The guest's RDMA device: siw or rxe."""
        return self.device.removesuffix("-ipv6")

    @property
    def embedded(self) -> str:
        """The embedded device that speaks to it, for our end outside of the guest."""
        return EMBEDDED[self.kind]

    @property
    def ipv6(self) -> bool:
        """Whether the addresses are IPv6."""
        return self.device.endswith("-ipv6")

    @property
    def ends(self) -> frozenset[str]:
        """Its two ends, which are one if they are of the same kind."""
        return frozenset((self.target, self.host))

    def brief(self, *, later: bool) -> bool:
        """Whether only the tests marked ``quick`` run, because other cells show the rest.

        These are the cells over IPv6, and the kernel's ends on rxe; if the run has had another
        kernel before (later), all but our end outside of the guest with the kernel's, on siw.
        """
        if later:
            return self.ends != {"kernel", "ours_outside"} or self.device != "siw"
        return self.ipv6 or (self.ends == {"kernel"} and self.kind == "rxe")

    def left_out(self, *, later: bool) -> bool:
        """Whether no test runs: on a later kernel without its own end or ours, and over IPv6."""
        return later and (self.ipv6 or "kernel" not in self.ends or self.ends == {"kernel"})

    @property
    def address(self) -> str:
        """The target's address."""
        if self.target == "ours_outside":
            return network.HOST6 if self.ipv6 else network.HOST
        return network.GUEST6 if self.ipv6 else network.GUEST

    def thorough(self, series: str) -> bool:
        """Whether all loads run in this cell: those with our code and the newest kernel."""
        return not QUICKLY and series == SERIES[0] and self.ends != {"kernel"}

    def each(self, series: str) -> bool:
        """Whether each form is tried of what depends little on the cell: in two thorough ones."""
        forms = {("ours_outside", "siw"), ("ours", "rxe")}
        return self.thorough(series) and (self.target, self.device) in forms


KERNEL_HOST = (
    Cell("kernel", "siw"),
    Cell("kernel", "rxe"),
    Cell("ours_outside", "siw"),
    Cell("ours_outside", "siw-ipv6"),
    Cell("ours_outside", "rxe"),
    Cell("ours_outside", "rxe-ipv6"),
    Cell("ours", "siw"),
    Cell("ours", "rxe"),
    Cell("ours", "rxe-ipv6"),
)
"""nvme-rdma in the guest, against every target; nvmet-rdma is the control."""

OUR_HOST = (
    Cell("kernel", "siw", "ours_outside"),
    Cell("kernel", "siw", "ours"),
    Cell("kernel", "rxe", "ours_outside"),
    Cell("kernel", "rxe-ipv6", "ours_outside"),
    Cell("kernel", "rxe", "ours"),
    Cell("ours", "siw", "ours_outside"),
    Cell("ours", "siw", "ours"),
    Cell("ours", "rxe", "ours"),
    Cell("ours", "rxe-ipv6", "ours"),
)
"""Our client, command and fio engine, against nvmet-rdma and our own target."""

RAW_VERBS = (Cell("ours", "siw", "pyverbs"), Cell("ours", "rxe", "pyverbs"))
"""Hand-made frames and CM messages, by pyverbs, with our target."""

MATRIX = (*KERNEL_HOST, *OUR_HOST, *RAW_VERBS)


EITHER = pytest.mark.parametrize("kind", ["siw", "rxe"], indirect=True)
"""For a test that runs on each device; EMBEDDED is ours that connects to it."""
EMBEDDED = {"siw": "iwarp", "rxe": "roce"}


def use_device(guest: Guest, kind: str) -> None:
    """Make the guest's network device an RDMA device of this kind, and of no other kind."""
    guest.run(
        f"""
        modprobe -a {"rdma_rxe" if kind == "rxe" else kind} rdma_ucm ib_uverbs
        for name in siw0 rxe0; do
            [ $name = {kind}0 ] || ! rdma link show $name/1 >/dev/null 2>&1 || rdma link del $name
        done
        rdma link show {kind}0/1 >/dev/null 2>&1 ||
            rdma link add {kind}0 type {kind} netdev {NETDEV}
        for attempt in $(seq 50); do
            rdma link show {kind}0/1 | grep -q 'state ACTIVE' && exit 0
            sleep 0.1
        done
        rdma link show {kind}0/1
        exit 1
        """,
        quiet=True,
    )
