# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof pmem`: persistent memory of a target, and what its methods of writing cost."""

from __future__ import annotations

from nvmf.cli.base import Subparsers
from nvmf.cli.pmem import bench, demo, replicas

_DESCRIPTION = """\
Persistent memory of a target, used as memory: by RDMA instead of NVMe commands. The target exports
a namespace as memory to the hosts in its keys memory and memory_read_only.
"""


def add_commands(subparsers: Subparsers) -> None:
    """Add pmem bench, bench-replicas and demo."""
    group = subparsers.add_parser(
        "pmem",
        help="compare the methods of writing to persistent memory of a target",
        description=_DESCRIPTION,
        examples=(bench.EXAMPLES[0], demo.EXAMPLES[0]),
    )
    commands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    bench.add_commands(commands)
    replicas.add_commands(commands)
    demo.add_commands(commands)
