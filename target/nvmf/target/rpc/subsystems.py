# SPDX-License-Identifier: BSD-3-Clause
"""Subsystems: list, add, remove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from nvmf.config.models import SubsystemConfig
from nvmf.rpc import results
from nvmf.rpc.errors import Code, RpcError
from nvmf.target.change import edit
from nvmf.target.change.edit import NoSuchSubsystem
from nvmf.target.rpc.describe import describe_subsystem
from nvmf.target.rpc.errors import spdk_says
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.model.subsystem import Subsystem
    from nvmf.target.service.administration import Administration


class OneOrAll(Params):
    nqn: str | None = None


class Named(Params):
    nqn: str


class CreateSubsystem(Params):
    """SPDK's parameters; a setting with only one possible value here must have that value."""

    nqn: str
    serial_number: str | None = None
    model_number: str | None = None
    max_namespaces: int | None = None
    allow_any_host: bool = False
    ana_reporting: bool = True
    """Always on: states are optimized until one is set."""
    min_cntlid: Literal[1] = 1
    max_cntlid: Literal[0xFFEF] = 0xFFEF
    passthrough: Literal[False] = False
    enable_nssr: Literal[False] = False
    max_discard_size_kib: Literal[0] = 0
    max_write_zeroes_size_kib: Literal[0] = 0
    dmrsl: Literal[0] = 0
    wzsl: Literal[0] = 0
    admin_label: str | None = None
    """No effect."""


class AddSubsystem(Params):
    subsystem: dict[str, JsonValue]
    """Keys of [[subsystem]] in a configuration."""


def find(administration: Administration, nqn: str) -> Subsystem:
    """Return the subsystem with this NQN, including the discovery subsystem."""
    subsystem = administration.server.core.subsystems.get(nqn)
    if subsystem is None:
        raise NoSuchSubsystem(f"there is no subsystem {nqn}")
    return subsystem


@method("nvmf_get_subsystems", OneOrAll, "subsystems")
def get_subsystems(administration: Administration, params: OneOrAll) -> list[results.Subsystem]:
    """Return the subsystems, the discovery subsystem first."""
    core = administration.server.core
    try:
        every = list(core.subsystems.values())
        chosen = [find(administration, params.nqn)] if params.nqn else every
    except NoSuchSubsystem as error:
        raise RpcError(Code.NO_SUCH_DEVICE, str(error)) from None
    return [describe_subsystem(administration.server, subsystem) for subsystem in chosen]


@method("nvmf_create_subsystem", CreateSubsystem, "create_subsystem", changes=True)
async def create_subsystem(administration: Administration, params: CreateSubsystem) -> bool:
    """Add a subsystem without namespaces, with the limits of nvmf_create_transport."""
    values: dict[str, object] = {
        "nqn": params.nqn,
        "serial": params.serial_number,
        "model": params.model_number,
        "max_namespaces": params.max_namespaces,
        "allow_any_host": params.allow_any_host,
    }
    known = {key: value for key, value in values.items() if value is not None}
    known |= administration.transport or {}
    with spdk_says(Code.INTERNAL_ERROR):
        await _add(administration, known)
    return True


@method("target_add_subsystem", AddSubsystem, "add_subsystem", changes=True)
async def add_subsystem(administration: Administration, params: AddSubsystem) -> bool:
    """Add a subsystem from a configuration table, with its namespaces."""
    await _add(administration, params.subsystem)
    return True


async def _add(administration: Administration, values: Mapping[str, object]) -> None:
    made = edit.model(SubsystemConfig, values)
    await administration.change(lambda config: edit.add_subsystem(config, made))


@method("nvmf_delete_subsystem", Named, "delete_subsystem", changes=True)
async def delete_subsystem(administration: Administration, params: Named) -> bool:
    """Remove a subsystem, and disconnect its hosts; its bdevs stay."""
    await administration.change(lambda config: edit.remove_subsystem(config, params.nqn))
    return True
