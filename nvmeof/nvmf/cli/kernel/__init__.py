# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof connect` and its like: the initiator through the kernel."""

from __future__ import annotations

from nvmf.cli.common import Subparsers
from nvmf.cli.kernel import connect, connect_all, disconnect, listing


def add_commands(subparsers: Subparsers) -> None:
    """connect, connect-all, disconnect, disconnect-all, list, list-subsys."""
    for module in (connect, connect_all, disconnect, listing):
        module.add_commands(subparsers)
