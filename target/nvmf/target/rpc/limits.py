# SPDX-License-Identifier: BSD-3-Clause
"""Limits of a namespace, in commands and bytes per second; they can be set while it is in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue

from nvmf.config.limits import LimitsConfig
from nvmf.config.models import Config
from nvmf.rpc.errors import Code, RpcError
from nvmf.rpc.results import Limits
from nvmf.target.change import bdevs, edit
from nvmf.target.change.edit import EditError
from nvmf.target.rpc.describe import limits
from nvmf.target.rpc.namespaces import OneNamespace
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration

MEGABYTE = 1 << 20
"""Bytes of a megabyte in SPDK."""


class SetLimits(OneNamespace):
    limits: dict[str, JsonValue]
    """Keys of the limits table in a configuration; 0: no limit; left out: unchanged."""


class SetQosLimit(Params):
    """SPDK's parameters; 0: no limit; left out: unchanged."""

    name: str
    """Name of the bdev, or the path or the UUID of a namespace."""
    rw_ios_per_sec: int | None = None
    rw_mbytes_per_sec: int | None = None
    r_mbytes_per_sec: int | None = None
    w_mbytes_per_sec: int | None = None


@method("target_get_ns_limits", OneNamespace, "limits")
def get_limits(administration: Administration, params: OneNamespace) -> Limits:
    """Return the limits of a namespace, with their burst; empty if it is not limited."""
    config = administration.server.config
    return _said(edit.find_namespace(config, params.nqn, params.nsid).limits)


@method("target_set_ns_limits", SetLimits, "set_limits", changes=True)
async def set_limits(administration: Administration, params: SetLimits) -> Limits:
    """Limit the use of a namespace by all hosts together; return the resulting limits."""
    return await _set(administration, params.nqn, params.nsid, params.limits)


@method("target_clear_ns_limits", OneNamespace, "clear_limits", changes=True)
async def clear_limits(administration: Administration, params: OneNamespace) -> bool:
    """Remove the limits of a namespace."""
    await administration.change(
        lambda config: edit.change_namespace(config, params.nqn, params.nsid, limits=LimitsConfig())
    )
    return True


@method("bdev_set_qos_limit", SetQosLimit, "set_qos_limit", changes=True)
async def set_qos_limit(administration: Administration, params: SetQosLimit) -> bool:
    """Limit a namespace, with SPDK's parameters."""
    wanted: dict[str, int] = {}
    for key, value, factor in (
        ("iops", params.rw_ios_per_sec, 1),
        ("bandwidth", params.rw_mbytes_per_sec, MEGABYTE),
        ("read_bandwidth", params.r_mbytes_per_sec, MEGABYTE),
        ("write_bandwidth", params.w_mbytes_per_sec, MEGABYTE),
    ):
        if value is not None:
            wanted[key] = value * factor
    _some(wanted)

    def change(config: Config) -> Config:
        name = params.name  # looked up here, because other requests may be made before this one
        if name in (each for each, _, _ in bdevs.named(config)):
            made = _merged(bdevs.find(config, name)[0].limits, wanted)
            return bdevs.change(config, name, limits=made)
        nqn, nsid = _called(administration, name)
        made = _merged(edit.find_namespace(config, nqn, nsid).limits, wanted)
        return edit.change_namespace(config, nqn, nsid, limits=made)

    await administration.change(change)
    return True


def _merged(before: LimitsConfig, values: Mapping[str, object]) -> LimitsConfig:
    merged = before.model_dump(exclude_none=True) | dict(values)
    return edit.model(LimitsConfig, {k: v for k, v in merged.items() if v != 0 or k == "burst_ms"})


def _some(values: Mapping[str, object]) -> None:
    if not values:
        raise EditError(f"limits: give at least one of {', '.join(LimitsConfig.model_fields)}")


async def _set(
    administration: Administration, nqn: str, nsid: int, values: Mapping[str, object]
) -> Limits:
    _some(values)
    made = LimitsConfig()

    def change(config: Config) -> Config:
        nonlocal made
        made = _merged(edit.find_namespace(config, nqn, nsid).limits, values)
        return edit.change_namespace(config, nqn, nsid, limits=made)

    await administration.change(change)
    return _said(made)


def _said(made: LimitsConfig) -> Limits:
    return limits(made.model_dump(exclude_none=True)) if made.limited else {}


def _called(administration: Administration, name: str) -> tuple[str, int]:
    """Return the namespace with this path or UUID."""
    found: list[tuple[str, int]] = []
    for subsystem in administration.server.core.subsystems.values():
        for nsid, namespace in subsystem.namespaces.items():
            store = namespace.store
            if name in (store.path or store.kind, str(namespace.identity.uuid)):
                found.append((subsystem.nqn, nsid))
    if not found:
        raise RpcError(Code.NO_SUCH_DEVICE, f"no namespace has {name} as its bdev, path or UUID")
    if len(found) > 1:
        places = " and ".join(f"namespace {nsid} of {nqn}" for nqn, nsid in found)
        raise EditError(f"{name} is used by {places}: select one by its UUID")
    return found[0]
