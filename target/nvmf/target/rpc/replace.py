# SPDX-License-Identifier: BSD-3-Clause
"""The whole configuration in one request, applied by difference, completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from nvmf.config.hosts import HostConfig
from nvmf.config.models import Config
from nvmf.config.plain import HIDDEN
from nvmf.target.change import edit
from nvmf.target.change.edit import EditError
from nvmf.target.rpc.namespaces import check_request
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class SetConfig(Params):
    config: dict[str, JsonValue]
    """As in the result of target_get_config."""
    revision: int | None = None
    """Revision of the configuration that this one was made from, as in target_get_config: the
    request is refused if the target has a newer one."""


@method("target_set_config", SetConfig, "set_config", changes=True)
async def set_config(administration: Administration, params: SetConfig) -> str:
    """Serve a different configuration, completely or not at all; return a summary.

    Unchanged parts are not disturbed. Tables that are read only when the target starts stay as
    they are. A key of a host, or a class of a store in Python, is accepted only if the current
    configuration has it; the text "[secret]" stands for the current key.
    """

    def change(config: Config) -> Config:
        if params.revision not in (None, administration.revision):
            raise EditError("the configuration was changed by a different request: try again")
        made = edit.model(Config, _with_keys(config, params.config))
        _check(config, made)
        return made

    return (await administration.change(change)).sentence()


def _tables(values: dict[str, JsonValue], key: str) -> Iterator[dict[str, JsonValue]]:
    found = values.get(key)
    for table in found if isinstance(found, list) else ():
        if isinstance(table, dict):
            yield table


def _with_keys(config: Config, values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the values with the current keys for HIDDEN; refuse other keys."""
    current = {
        (subsystem.nqn, host.nqn): host
        for subsystem in config.subsystems
        for host in subsystem.host_tables
    }
    subsystems: list[JsonValue] = []
    for subsystem in _tables(values, "subsystem"):
        hosts: list[JsonValue] = []
        for host in _tables(subsystem, "host"):
            old = current.get((str(subsystem.get("nqn")), str(host.get("nqn"))))
            hosts.append({key: _key(key, value, old) for key, value in host.items()})
        whole = isinstance(subsystem.get("host"), list)
        subsystems.append({**subsystem, "host": hosts} if whole else subsystem)
    given = values.get("subsystem")
    if not isinstance(given, list) or len(given) != len(subsystems):
        return values  # the model refuses what is not a list of tables
    return {**values, "subsystem": subsystems}


def _key(name: str, value: JsonValue, old: HostConfig | None) -> JsonValue:
    if name not in ("dhchap_key", "dhchap_ctrl_key"):
        return value
    key = getattr(old, name) if old is not None else None
    if value != HIDDEN or key is None:
        raise EditError(f"{name} is not allowed in a request: use {name}_file, {name}_credential")
    return str(key.text())


def _check(config: Config, made: Config) -> None:
    """Refuse what a request cannot add: relative paths, too much memory, a class to import."""
    known = {n.python for subsystem in config.subsystems for n in subsystem.namespaces}
    paths: list[Path | None] = [bdev.path for bdev in made.bdevs]
    for subsystem in made.subsystems:
        for namespace in subsystem.namespaces:
            check_request(namespace, known=known)
            paths.append(namespace.path)
        for host in subsystem.host_tables:
            paths += [host.dhchap_key_file, host.dhchap_ctrl_key_file]
    for path in paths:
        if path is not None and not path.is_absolute():
            raise EditError(f"{path}: a path in a request must be absolute")
