# SPDX-License-Identifier: BSD-3-Clause
"""Whether a namespace holds data, which a load that writes would destroy."""

from __future__ import annotations

from nvmf.cli.identify import to_move
from nvmf.initiator import Controller, NvmeError

_ENDS = 1 << 20
"""Bytes read at each end, where partition tables and file systems have their labels."""
_SAMPLES = 256
"""Blocks read in between, at equal distances."""


async def find_data(controller: Controller, nsid: int) -> str | None:
    """Return where the namespace holds data, as a clause; None if all of the sample is zeroes.

    Raises:
        NvmeError: The namespace is not active.
        ConnectionLost: The controller cannot be reached.
    """
    namespace = to_move(controller, nsid)
    size, count = namespace.block_size, namespace.blocks
    ends = min(max(_ENDS // size, 1), count)
    step = max(count // _SAMPLES, 1)
    ranges = [(0, ends), (count - ends, ends), *((lba, 1) for lba in range(step, count, step))]
    for lba, blocks in ranges:
        try:
            data = await namespace.read(lba, blocks)
        except NvmeError as error:
            return f"block {lba} cannot be checked ({error})"
        if data.count(0) != len(data):
            first = next(at for at, byte in enumerate(data) if byte)
            return f"block {lba + first // size} is not zero"
    return None
