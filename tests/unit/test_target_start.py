# SPDX-License-Identifier: BSD-3-Clause
"""Starts of the server that fail, and the device that it selects."""

from __future__ import annotations

from typing import Any

import pytest

from nvmf.target.io.stores import ServerError
from support.fakeengine import in_use
from support.faketarget import NQN
from support.serverlab import TEXT, Lab


async def fails(lab: Lab) -> str:
    with pytest.raises(ServerError) as caught:
        await lab.start()
    assert lab.engine.target.closed
    assert all(store.closed for store in lab.engine.stores)
    return str(caught.value)


async def test_a_store_that_cannot_be_opened() -> None:
    lab = Lab()
    lab.engine.store_error = OSError(2, "no such file")
    assert await fails(lab) == f"namespace 1 of {NQN}: cannot open the ram store: no such file"


async def test_a_port_in_use() -> None:
    lab = Lab()
    lab.engine.listen_errors["iwarp"] = in_use()
    said = await fails(lab)
    assert said == "cannot listen on 127.0.0.1:0: in use"


async def test_a_system_without_devices() -> None:
    lab = Lab(TEXT.replace('device = "iwarp"', 'device = "system"'))
    said = await fails(lab)
    assert "with the system device: there is no RDMA device" in said
    assert 'device = "iwarp"' in said


@pytest.mark.parametrize(
    ("devices", "error", "device"),
    [
        ([], None, "iwarp"),
        ([{"name": "rxe0"}], None, "system"),
        ([{"name": "rxe0"}], OSError(19, "no such device"), "iwarp"),
    ],
)
async def test_auto_takes_what_routes(
    devices: list[dict[str, Any]], error: OSError | None, device: str
) -> None:
    lab = Lab(TEXT.replace('device = "iwarp"', 'device = "auto"'))
    lab.engine.system_devices = devices
    if error is not None:
        lab.engine.listen_errors["system"] = error
    async with lab:
        assert lab.said[0].device == device
