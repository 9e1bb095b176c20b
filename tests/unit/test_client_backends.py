# SPDX-License-Identifier: BSD-3-Clause
"""The suite of the namespaces' common behaviour, on the client, with one path and several.

tests/lab runs it on the kernel as well.
"""

from __future__ import annotations

import pytest

from nvmf.initiator import connect, connect_multipath
from support.backends import CHECKS, Check
from support.clientlab import OPTIONS, RAM, serving
from support.multipathrig import STEADY, two_ports


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
