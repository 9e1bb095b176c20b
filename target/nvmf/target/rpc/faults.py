# SPDX-License-Identifier: BSD-3-Clause
"""Faults on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import JsonValue

from nvmf.config.faults import FaultConfig
from nvmf.config.wirefaults import PREFIX, PortWireFault
from nvmf.rpc.results import Fault
from nvmf.target.change import edit
from nvmf.target.change.edit import EditError
from nvmf.target.rpc.describe import describe_fault
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration

_FORBIDDEN = (
    "faults on purpose are not allowed: set allow_faults = true in [target] of the configuration, "
    "or start it with target serve --allow-faults"
)


class AddFault(Params):
    fault: dict[str, JsonValue]
    """Conditions and effects: the keys of a fault in a lab description."""


class OneFault(Params):
    id: int


@method("target_get_faults", Params, "faults")
def get_faults(administration: Administration, params: Params) -> list[Fault]:
    """Return the last faults that have ended, then the active ones."""
    return [describe_fault(one) for one in administration.server.injections.listed()]


@method("target_add_fault", AddFault, "add_fault", changes=True)
async def add_fault(administration: Administration, params: AddFault) -> Fault:
    """Start a fault on purpose, if the configuration allows it; it ends with the target."""
    server = administration.server
    if not server.config.target.allow_faults:
        raise EditError(_FORBIDDEN)
    config: FaultConfig | PortWireFault
    if str(params.fault.get("kind", "")).startswith(PREFIX):
        config = edit.model(PortWireFault, params.fault)
    else:
        config = edit.model(FaultConfig, params.fault)
    return describe_fault(server.injections.begin(config))


@method("target_remove_fault", OneFault, "remove_fault", changes=True)
async def remove_fault(administration: Administration, params: OneFault) -> Fault:
    """End a fault on purpose; return its final counts."""
    return describe_fault(administration.server.injections.remove(params.id))
