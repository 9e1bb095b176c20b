# SPDX-License-Identifier: BSD-3-Clause
"""Keys of hosts (DH-HMAC-CHAP): SPDK's keyring of files, or the keys of a configuration table.

No key is sent through the socket to the target: a request names the file or systemd credential
with the key, the target reads it, and a saved configuration names the same location.  The target
returns only keys that are in the configuration itself (target_get_config with secrets).
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from nvmf.config.hosts import HostConfig
from nvmf.rpc.errors import Code, RpcError
from nvmf.rpc.results import KeyFile
from nvmf.target.change import edit
from nvmf.target.change.edit import EditError
from nvmf.target.rpc.errors import spdk_says
from nvmf.target.rpc.registry import Params, method
from nvmf.target.service.keyring import KeyringError, refuse_key

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class AddKey(Params):
    name: str
    path: str


class OneKey(Params):
    name: str


class SubsystemHost(Params):
    nqn: str
    host: str


class KeyedHost(SubsystemHost):
    """SPDK's parameters, with names of the keyring."""

    dhchap_key: str | None = None
    dhchap_ctrlr_key: str | None = None


class HostTable(Params):
    nqn: str
    host: dict[str, JsonValue]
    """Keys of [[subsystem.host]] in a configuration, except an authentication key itself."""


@method("keyring_file_add_key", AddKey, "add_key", changes=True)
async def add_key(administration: Administration, params: AddKey) -> bool:
    """Give a key file a name, until the target stops."""
    try:
        await administration.keyring.add(params.name, Path(params.path))
    except KeyringError as error:
        raise RpcError(-error.errno, str(error)) from None
    return True


@method("keyring_file_remove_key", OneKey, "remove_key", changes=True)
def remove_key(administration: Administration, params: OneKey) -> bool:
    """Forget the name of a key file; hosts that use the file are not affected."""
    try:
        administration.keyring.remove(params.name)
    except KeyringError as error:
        raise RpcError(-error.errno, str(error)) from None
    return True


@method("keyring_get_keys", Params, "keys")
def get_keys(administration: Administration, params: Params) -> list[KeyFile]:
    """Return the names and files of the keyring."""
    return [
        {"name": name, "path": str(path)} for name, path in administration.keyring.all().items()
    ]


@method("nvmf_subsystem_add_host", KeyedHost, "add_host", changes=True)
async def add_host(administration: Administration, params: KeyedHost) -> bool:
    """Allow a host to connect; with a key, it has to authenticate."""
    values = _named(administration, params)
    made = _host({"nqn": params.host, **values}) if values else None
    with spdk_says(Code.INTERNAL_ERROR):
        await administration.change(
            lambda config: edit.allow_host(config, params.nqn, params.host, made)
        )
    return True


@method("nvmf_subsystem_set_keys", KeyedHost, "set_keys", changes=True)
async def set_keys(administration: Administration, params: KeyedHost) -> bool:
    """Set or (if left out) remove the keys of a host.

    Authenticated connections stay; new connections and authentications need the new keys.
    """
    values = _named(administration, params)
    with spdk_says(-errno.EINVAL):
        await administration.change(
            lambda config: edit.set_keys(config, params.nqn, params.host, values)
        )
    return True


@method("target_add_host", HostTable, "add_host_table", changes=True)
async def add_table(administration: Administration, params: HostTable) -> bool:
    """Allow a host to connect, with a configuration table."""
    made = _host(params.host)
    await administration.change(lambda config: edit.allow_host(config, params.nqn, made.nqn, made))
    return True


@method("target_set_host_keys", HostTable, "set_host_keys", changes=True)
async def set_table(administration: Administration, params: HostTable) -> bool:
    """Set the keys of a host, with a configuration table; see nvmf_subsystem_set_keys."""
    made = _host(params.host)
    values: dict[str, object] = {key: value for key, value in params.host.items() if key != "nqn"}
    await administration.change(lambda config: edit.set_keys(config, params.nqn, made.nqn, values))
    return True


def _named(administration: Administration, params: KeyedHost) -> dict[str, object]:
    """Return the parameters as keys of a configuration."""
    found: dict[str, object] = {}
    for name, key, called in (
        ("dhchap_key", "dhchap_key_file", params.dhchap_key),
        ("dhchap_ctrlr_key", "dhchap_ctrl_key_file", params.dhchap_ctrlr_key),
    ):
        if called is not None:
            found[key] = administration.keyring.find(name, called)
    return found


def _host(values: Mapping[str, object]) -> HostConfig:
    """Return a host table; refuse one that contains a key, or a relative path."""
    for key in ("dhchap_key", "dhchap_ctrl_key"):
        if key in values:
            raise EditError(f"{key} is not allowed in a request: use {key}_file, {key}_credential")
        path = values.get(f"{key}_file")
        refuse_key(f"{key}_file", str(path))
        refuse_key(f"{key}_credential", str(values.get(f"{key}_credential")))
        if isinstance(path, str) and not path.startswith("/"):
            raise EditError(f"{key}_file {path}: the path must be absolute")
    return edit.model(HostConfig, values)
