# SPDX-License-Identifier: BSD-3-Clause
"""Ports on all addresses of a family take hosts of that family only, on both embedded devices."""

from __future__ import annotations

from typing import Literal

import pytest

from nvmf.engine import EngineError
from nvmf.initiator import connect
from nvmf.target import serve

ADDRESSES = {"::": "[::1]", "0.0.0.0": "127.0.0.1"}


@pytest.mark.parametrize("device", ["iwarp", "roce"])
@pytest.mark.parametrize("everywhere", ADDRESSES)
async def test_roce_and_iwarp(device: Literal["iwarp", "roce"], everywhere: str) -> None:
    async with serve(ram="1MiB", device=device, traddr=everywhere) as target:
        for family, address in ADDRESSES.items():
            url = f"nvme+rdma://{address}:{target.ports[0][1]}/{target.url.rpartition('/')[2]}"
            if family == everywhere:
                async with connect(url, device=device) as controller:
                    await controller.namespaces[0].read(0, 1)
            else:
                with pytest.raises(EngineError):
                    await connect(url, device=device, connect_timeout=5)
