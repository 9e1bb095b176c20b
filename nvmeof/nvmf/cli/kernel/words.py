# SPDX-License-Identifier: BSD-3-Clause
"""Output formats of block devices and controllers, with the names of nvme-cli's JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nvmf.cli.output import print_table, size_text

if TYPE_CHECKING:
    from nvmf.initiator.kernel.host import Connected
    from nvmf.initiator.kernel.sysfs import ControllerInfo, NamespaceInfo


def connected_fields(found: Connected) -> dict[str, object]:
    """Return the fields of a connected controller, for JSON."""
    one = found.controller
    return {
        "device": one.name,
        "path": one.path,
        "subsysnqn": one.subsysnqn,
        "transport": one.transport,
        "address": one.address,
        "cntlid": one.cntlid,
        "namespaces": [namespace_fields(block) for block in found.namespaces],
    }


def namespace_fields(block: NamespaceInfo) -> dict[str, object]:
    """Return the fields of a block device, for JSON."""
    return {
        "nsid": block.nsid,
        "path": block.path,
        "size": block.size,
        "block_size": block.block_size,
        "uuid": block.uuid,
    }


def print_blocks(blocks: Sequence[NamespaceInfo]) -> None:
    """Print a table of block devices."""
    rows = [
        (b.path, b.nsid, size_text(b.size), format_text(b), b.uuid or b.nguid or b.eui or "-")
        for b in blocks
    ]
    print_table(("Node", "NSID", "Size", "Format", "Identifier"), rows)


def format_text(block: NamespaceInfo) -> str:
    """Return the format of blocks as in nvme-cli: 512 B + 0 B."""
    return f"{size_text(block.block_size)} + {block.metadata_size} B"


def path_fields(one: ControllerInfo) -> dict[str, object]:
    """Return the fields of a subsystem's controller, for JSON."""
    return {
        "Name": one.name,
        "Transport": one.transport,
        "Address": one.address,
        "State": one.state,
        "Controller": one.cntlid,
        "Queues": one.queue_count,
        "QueueSize": None if one.sqsize is None else one.sqsize + 1,
        "KeepAliveTimeout": one.kato,
    }
