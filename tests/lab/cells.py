# SPDX-License-Identifier: BSD-3-Clause
"""The cells of the matrix: which target, which host, over which device."""

from __future__ import annotations

from dataclasses import dataclass

from lab.guest import Guest

NETDEV = "eth0"


@dataclass(frozen=True)
class Cell:
    """One row with one device; its string is its name in pytest's output."""

    target: str
    """``kernel`` is nvmet-rdma; ``ours`` in the guest; ``ours-outside`` on the embedded device."""
    device: str
    """The guest's RDMA device: siw or rxe."""
    host: str = "kernel"

    def __str__(self) -> str:
        return f"{self.target}-{self.host}-{self.device}"


def use_device(guest: Guest, kind: str) -> None:
    """Make the guest's network device an RDMA device of this kind, and of no other."""
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
