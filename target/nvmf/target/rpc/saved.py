# SPDX-License-Identifier: BSD-3-Clause
"""The configuration as calls of methods, as SPDK's rpc.py saves and loads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue

from nvmf.config.models import BdevConfig, NamespaceConfig, PortConfig, SubsystemConfig
from nvmf.config.plain import plain
from nvmf.json import JSON
from nvmf.rpc.errors import Code, RpcError
from nvmf.rpc.results import ConfigCall, FrameworkPart, SavedConfig
from nvmf.target.change import bdevs
from nvmf.target.change.bdevs import Storage
from nvmf.target.change.edit import EditError
from nvmf.target.io.stores import ServerError
from nvmf.target.rpc.bdevlist import rates
from nvmf.target.rpc.registry import METHODS, Params, method
from nvmf.target.rpc.transport import KEYS

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration

PARTS: dict[str, tuple[str, ...]] = {
    "keyring": (),
    "bdev": ("keyring",),
    "nvmf": ("bdev", "keyring"),
}
"""Parts in the order in which they are loaded, and those that they depend on."""
_UNSAVED = ("save_config", "load_config", "target_reload")
"""Methods that a saved configuration may not call."""


class OnePart(Params):
    name: str
    """keyring, bdev or nvmf."""
    with_batches: bool = False
    """No effect: there are no batches."""


class SaveConfig(Params):
    subsystems: list[str] | None = None
    """keyring, bdev, nvmf; if left out: all."""


class LoadConfig(Params):
    subsystems: list[dict[str, JsonValue]]
    """As in the result of save_config."""


@method("framework_get_subsystems", Params, "framework_subsystems")
def get_subsystems(administration: Administration, params: Params) -> list[FrameworkPart]:
    """Return the parts of the configuration that framework_get_config returns."""
    return [{"subsystem": name, "depends_on": list(needs)} for name, needs in PARTS.items()]


@method("framework_get_config", OnePart, "framework_config")
def get_config(administration: Administration, params: OnePart) -> list[ConfigCall]:
    """Return the calls that recreate a part of the configuration, without keys."""
    return _calls(administration, params.name)


@method("save_config", SaveConfig, "save_config")
def save_config(administration: Administration, params: SaveConfig) -> SavedConfig:
    """Return the calls that recreate the configuration, as rpc.py save_config does.

    Ports, subsystems, bdevs and referrals are included; the tables that are read only when the
    target starts, and hosts with keys in the configuration itself, are not.
    """
    wanted = list(PARTS) if params.subsystems is None else params.subsystems
    found = {name: _calls(administration, name) for name in wanted}
    return {"subsystems": [{"subsystem": name, "config": found[name]} for name in found]}


@method("load_config", LoadConfig, "load_config", changes=True)
async def load_config(administration: Administration, params: LoadConfig) -> int:
    """Make the calls of a saved configuration, in order; return their number.

    All method names are checked first. Loading stops at the first call that fails; the error
    names that call, and the calls before it remain in effect.
    """
    calls = [call for part in params.subsystems for call in _flat(part)]
    for name, _ in calls:
        if name not in METHODS or name in _UNSAVED:
            raise EditError(f"there is no method {name[:64]} for a saved configuration")
    for done, (name, values) in enumerate(calls):
        try:
            await METHODS[name].call(administration, values)
        except RpcError as error:
            raise RpcError(error.code, _failed(name, done, error)) from None
        except (EditError, ServerError) as error:
            raise type(error)(_failed(name, done, error)) from None
    return len(calls)


def _failed(name: str, done: int, error: Exception) -> str:
    return f"call {done + 1}, {name}, failed, after {done} were made: {error}"


def _flat(part: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield the calls of a part; a batch is an array of calls."""
    config = part.get("config") or []
    if not isinstance(config, list):
        raise EditError("config must be an array of calls")
    for entry in config:
        for call in entry if isinstance(entry, list) else [entry]:
            name = call.get("method") if isinstance(call, dict) else None
            if not isinstance(call, dict) or not isinstance(name, str):
                raise EditError('a call must be an object with "method" and "params"')
            yield name, call.get("params")


def _calls(administration: Administration, part: str) -> list[ConfigCall]:
    if part not in PARTS:
        names = ", ".join(PARTS)
        raise RpcError(Code.INVALID_PARAMS, f"there is no subsystem {part[:32]}: only {names}")
    config = administration.server.config
    if part == "keyring":
        keys = administration.keyring.all()
        return [_call("keyring_file_add_key", name=n, path=str(p)) for n, p in keys.items()]
    if part == "bdev":
        return [call for name, bdev, _ in bdevs.named(config) for call in _bdev(name, bdev)]
    transport = administration.transport
    parameters = {name: (transport or {}).get(key) for name, key in KEYS.items()}
    found = [_call("nvmf_create_transport", trtype="RDMA", **_known(parameters))]
    for referral in config.referrals:
        where: JSON = {
            "trtype": referral.trtype.upper(),
            "traddr": referral.traddr,
            "trsvcid": str(referral.trsvcid),
        }
        found.append(_call("nvmf_discovery_add_referral", address=where, subnqn=referral.nqn))
    for subsystem in config.subsystems:
        found += _subsystem(subsystem, transport or {})
    first = config.subsystems[0].nqn if config.subsystems else "discovery"
    return found + [_port(port, first) for port in config.ports]


def _call(method: str, /, **params: JSON) -> ConfigCall:
    return {"method": method, "params": params}


def _known(values: Mapping[str, object]) -> dict[str, JSON]:
    return {k: v for k, v in values.items() if isinstance(v, str | int | bool)}


def _bdev(name: str, bdev: Storage) -> Iterator[ConfigCall]:
    values: dict[str, JSON] = {"name": name, "block_size": bdev.block_size}
    if bdev.uuid is not None:
        values["uuid"] = str(bdev.uuid)
    if bdev.store == "file":
        extra: dict[str, JSON] = {"filename": str(bdev.path), "readonly": bdev.read_only}
        yield _call("bdev_aio_create", **values, **extra)
    else:
        kind = "malloc" if bdev.store == "ram" else "null"
        blocks = (bdev.size or 0) // bdev.block_size
        yield _call(f"bdev_{kind}_create", **values, num_blocks=blocks)
    if isinstance(bdev, BdevConfig) and bdev.limits.limited:
        yield _call("bdev_set_qos_limit", name=name, **rates(bdev.limits))


def _subsystem(config: SubsystemConfig, transport: Mapping[str, object]) -> Iterator[ConfigCall]:
    """Yield the calls for a subsystem, with SPDK's methods if these can express it."""
    bare = config.model_copy(update={"namespaces": (), "hosts": (), "host_tables": ()})
    values = plain(bare)
    names = {
        "nqn": "nqn",
        "serial": "serial_number",
        "model": "model_number",
        "max_namespaces": "max_namespaces",
        "allow_any_host": "allow_any_host",
    }
    rest = {key: value for key, value in values.items() if key not in names}
    if all(transport.get(key) == value for key, value in rest.items()):
        said = {names[key]: value for key, value in values.items() if key in names}
        yield _call("nvmf_create_subsystem", **said)
    else:
        yield _call("target_add_subsystem", subsystem=values)
    nqn = config.nqn
    for host in config.hosts:
        yield _call("nvmf_subsystem_add_host", nqn=nqn, host=host)
    for table in config.host_tables:
        if table.dhchap_key is None and table.dhchap_ctrl_key is None:
            yield _call("target_add_host", nqn=nqn, host=plain(table))
    for nsid, namespace in config.numbered():
        yield from _namespace(nqn, nsid, namespace)


def _namespace(nqn: str, nsid: int, config: NamespaceConfig) -> Iterator[ConfigCall]:
    values = plain(config) | {"nsid": nsid}
    name = values.pop("bdev", None)
    limits = values.pop("limits", None)
    if name is not None:
        own = BdevConfig.model_fields.keys() - {"uuid", "limits"}
        values = {key: value for key, value in values.items() if key not in own}
        values["bdev_name"] = name
    yield _call("nvmf_subsystem_add_ns", nqn=nqn, namespace=values)
    if name is not None and config.store == "file" and config.size is not None:
        yield _call("target_resize_ns", nqn=nqn, nsid=nsid, size=config.size)
    if limits is not None:
        yield _call("target_set_ns_limits", nqn=nqn, nsid=nsid, limits=limits)


def _port(port: PortConfig, nqn: str) -> ConfigCall:
    """Return the call for a port: ports serve every subsystem, so that one call is enough."""
    values = plain(port)
    if values.keys() <= {"traddr", "trsvcid"}:
        where: JSON = {"trtype": "RDMA", "traddr": port.traddr, "trsvcid": str(port.trsvcid)}
        return _call("nvmf_subsystem_add_listener", nqn=nqn, listen_address=where)
    return _call("target_add_port", port=values)
