# SPDX-License-Identifier: BSD-3-Clause
"""SPDK's methods for scripts that watch a target, and those that do not exist here."""

from __future__ import annotations

from typing import Any

import pytest

from nvmf.initiator.sync import connect
from nvmf.json import JSON
from nvmf.rpc.errors import Code
from nvmf.target.client import RpcError, connect_sync
from nvmf.target.rpc.methods import METHODS
from nvmf.target.rpc.unsupported import REASONS, reason
from support.clientlab import OPTIONS, RAM, config, url
from support.served import Served

TARGET_CONFIG = config(RAM)


def call(target: Served, method: str, **params: JSON) -> Any:
    with connect_sync(target.rpc_socket) as rpc:
        return rpc.request(method, params)


def channels(target: Served) -> int:
    """Return the connected queue pairs."""
    found = call(target, "thread_get_io_channels")["threads"]
    return sum(channel["ref"] for one in found for channel in one["io_channels"])


def test_threads(target: Served) -> None:
    """There is a thread for each reactor, with the queue pairs that are connected to it."""
    reactors = call(target, "framework_get_reactors")["reactors"]
    names = [one["lw_threads"][0]["name"] for one in reactors]
    assert names[0] == "reactor_0"
    for method in ("thread_get_stats", "thread_get_pollers", "thread_get_io_channels"):
        assert [one["name"] for one in call(target, method)["threads"]] == names
    before = channels(target)
    with connect(url(target.port), **OPTIONS) as controller:
        assert channels(target) >= before + 1 + controller.queues


def test_notifications(target: Served) -> None:
    assert "mirror_degraded" in call(target, "notify_get_types")
    assert call(target, "notify_get_notifications", id=0, max=10) == []
    assert call(target, "framework_monitor_context_switch") == {"enabled": False}
    with pytest.raises(RpcError, match="context switches are not monitored"):
        call(target, "framework_monitor_context_switch", enabled=True)


def test_methods_that_do_not_exist_here(target: Served) -> None:
    """Each method answers with a reason; no reason is given for a method that exists, or hides a
    different one.
    """
    for start, why in REASONS:
        name = f"{start}no_such_method"
        with pytest.raises(RpcError) as refused:
            call(target, name)
        assert refused.value.code == Code.METHOD_NOT_FOUND
        assert str(refused.value) == f"there is no method {name}: {why}"
    with pytest.raises(RpcError, match="no_such_method: see rpc_get_methods"):
        call(target, "no_such_method")
    assert reason("bdev_lvol_create").startswith("logical volumes")
    whole = {start for start, _ in REASONS if not start.endswith("_")}
    assert not whole & set(METHODS)
