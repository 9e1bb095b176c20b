# SPDX-License-Identifier: BSD-3-Clause
"""The suite of what both backends do, on the client; tests/lab runs it on the kernel too."""

from __future__ import annotations

import pytest

from backends import CHECKS, Check
from clientlab import OPTIONS, RAM, serving
from nvmf.initiator import connect


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_client(check: Check) -> None:
    async with serving(RAM) as (_, url), connect(url, **OPTIONS) as controller:
        await check(controller)
