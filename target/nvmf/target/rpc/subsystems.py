# SPDX-License-Identifier: BSD-3-Clause
"""Subsystems: what there is, one more, one less."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvmf.config.models import SubsystemConfig
from nvmf.target import edit
from nvmf.target.rpc.describe import describe_subsystem
from nvmf.target.rpc.errors import Code, RpcError
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.administration import Administration
    from nvmf.target.subsystem import Subsystem


class OneOrAll(Params):
    nqn: str | None = None


class Named(Params):
    nqn: str


class CreateSubsystem(Params):
    """SPDK's; what it cannot have here is not among them."""

    nqn: str
    serial_number: str | None = None
    model_number: str | None = None
    max_namespaces: int | None = None
    allow_any_host: bool = False


class AddSubsystem(Params):
    subsystem: dict[str, Any]
    """The keys of [[subsystem]] in a configuration."""


def find(administration: Administration, nqn: str) -> Subsystem:
    """The subsystem of this name, the discovery subsystem too."""
    subsystem = administration.server.core.subsystems.get(nqn)
    if subsystem is None:
        raise RpcError(Code.NO_SUCH_DEVICE, f"there is no subsystem {nqn}")
    return subsystem


@method("nvmf_get_subsystems", OneOrAll)
def get_subsystems(administration: Administration, params: OneOrAll) -> list[dict[str, Any]]:
    """Subsystems, the discovery subsystem first."""
    core = administration.server.core
    chosen = [find(administration, params.nqn)] if params.nqn else list(core.subsystems.values())
    return [describe_subsystem(administration.server, subsystem) for subsystem in chosen]


@method("nvmf_create_subsystem", CreateSubsystem, changes=True)
async def create_subsystem(administration: Administration, params: CreateSubsystem) -> bool:
    """Add a subsystem without namespaces."""
    values: dict[str, Any] = {
        "nqn": params.nqn,
        "serial": params.serial_number,
        "model": params.model_number,
        "max_namespaces": params.max_namespaces,
        "allow_any_host": params.allow_any_host,
    }
    known = {key: value for key, value in values.items() if value is not None}
    await _add(administration, known)
    return True


@method("target_add_subsystem", AddSubsystem, changes=True)
async def add_subsystem(administration: Administration, params: AddSubsystem) -> bool:
    """Add a subsystem, with namespaces if it has any, as a configuration describes it."""
    await _add(administration, params.subsystem)
    return True


async def _add(administration: Administration, values: dict[str, Any]) -> None:
    made: SubsystemConfig = edit.model(SubsystemConfig, values)
    await administration.change(lambda config: edit.add_subsystem(config, made))


@method("nvmf_delete_subsystem", Named, changes=True)
async def delete_subsystem(administration: Administration, params: Named) -> bool:
    """Remove a subsystem, and disconnect its hosts."""
    await administration.change(lambda config: edit.remove_subsystem(config, params.nqn))
    return True
