# SPDX-License-Identifier: BSD-3-Clause
"""The number of the client's functions that an awaited read calls, which no machine changes."""

from __future__ import annotations

import sys
from types import FrameType

from nvmf.initiator import connect
from support.clientlab import OPTIONS, RAM, serving

READS = 200
MOST = 40
"""Python functions of the client for each read.  Each costs a fraction of a microsecond."""


async def test_calls_of_a_read() -> None:
    count = 0

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        if event == "call" and "/nvmf/" in frame.f_code.co_filename:
            count += 1

    async with serving(RAM) as (_, where), connect(where, **OPTIONS) as controller:
        namespace = controller.namespace(1)
        await namespace.read(0, 1)
        sys.setprofile(called)
        try:
            for lba in range(READS):
                await namespace.read(lba, 1)
        finally:
            sys.setprofile(None)
    assert count > READS
    assert count < READS * MOST
