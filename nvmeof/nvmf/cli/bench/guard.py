# SPDX-License-Identifier: BSD-3-Clause
"""Whether a namespace holds data, which a load that writes would destroy."""

from __future__ import annotations

from nvmf.initiator import Namespace, NvmeError

_ENDS = 1 << 20
"""Bytes read at each end, where partition tables and file systems have their labels."""
_SAMPLES = 256
"""Blocks read in between, at equal distances."""


async def find_data(namespace: Namespace, offset: int, length: int) -> str | None:
    """Return where a range of bytes holds data, as a clause; None if all of the sample is zeroes.

    length: 0 for all from the offset on.

    Raises:
        ConnectionLost: The controller cannot be reached.
    """
    size = namespace.block_size
    first = offset // size
    count = -(-length // size) or namespace.blocks - first
    ends = min(max(_ENDS // size, 1), count)
    step = max(count // _SAMPLES, 1)
    ranges = [
        (first, ends),
        (first + count - ends, ends),
        *((lba, 1) for lba in range(first + step, first + count, step)),
    ]
    for lba, blocks in ranges:
        try:
            data = await namespace.read(lba, blocks)
        except NvmeError as error:
            return f"block {lba} cannot be checked ({error})"
        if data.count(0) != len(data):
            byte = next(at for at, value in enumerate(data) if value)
            return f"block {lba + byte // size} is not zero"
    return None
