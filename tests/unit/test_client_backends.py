# SPDX-License-Identifier: BSD-3-Clause
"""The suite of what all namespaces do, on the client, one path and several.

tests/lab runs it on the kernel too.
"""

from __future__ import annotations

import pytest

from backends import CHECKS, Check
from clientlab import OPTIONS, RAM, serving
from multipathrig import STEADY, two_ports
from nvmf.initiator import connect, connect_multipath


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_client(check: Check) -> None:
    async with serving(RAM) as (_, url), connect(url, **OPTIONS) as controller:
        await check(controller)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_multipath(check: Check) -> None:
    async with (
        two_ports(RAM) as lab,
        connect_multipath(lab.urls, policy="round-robin", **STEADY) as subsystem,
    ):
        await check(subsystem)
