# SPDX-License-Identifier: BSD-3-Clause
"""Namespaces: add, remove, resize, replace, protect, and masking.

A namespace names its bdev, as in SPDK, or its store, with the keys of [[subsystem.namespace]] in a
configuration: store, path, size, block_size, ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue

from nvmf.config.advice import machine_memory
from nvmf.config.models import Config, NamespaceConfig
from nvmf.config.units import format_size, parse_size
from nvmf.rpc.errors import Code
from nvmf.spec.features import WriteProtection
from nvmf.spec.status import StatusError
from nvmf.target.change import bdevs, edit
from nvmf.target.change.edit import EditError
from nvmf.target.commands.protection import check
from nvmf.target.commands.protection import protect as change
from nvmf.target.rpc.describe import protection_word
from nvmf.target.rpc.errors import spdk_says
from nvmf.target.rpc.registry import Params, method
from nvmf.target.rpc.subsystems import find

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class AddNamespace(Params):
    nqn: str
    namespace: dict[str, JsonValue]


class OneNamespace(Params):
    nqn: str
    nsid: int


class NamespaceHost(OneNamespace):
    host: str


class NamespaceGroup(OneNamespace):
    anagrpid: int
    """Number of the ANA group."""


class Resize(OneNamespace):
    size: int | str | None = None
    """Bytes; left out: the current size of the file."""


class Replace(OneNamespace):
    namespace: dict[str, JsonValue]
    """Keys of the new store."""


class Mask(OneNamespace):
    hosts: list[str] | None = None
    """If left out: every host sees the namespace."""


class Protect(OneNamespace):
    state: str = "protected"
    """One of: none, protected, until-power-cycle, permanent."""


@method("nvmf_subsystem_add_ns", AddNamespace, "add_namespace", changes=True)
async def add(administration: Administration, params: AddNamespace) -> int:
    """Add a namespace; return its NSID, by default the lowest free one.

    It is the bdev named bdev_name, which must not be a namespace yet, or a store.
    """
    values = dict(params.namespace)
    name = values.pop("bdev_name", None)
    if name is not None and not isinstance(name, str):
        raise EditError("bdev_name must be a string")
    made = _namespace(values) if name is None else None
    nsid = 0

    def change(config: Config) -> Config:
        nonlocal nsid
        if made is not None:
            changed, nsid = edit.add_namespace(config, params.nqn, made)
        else:
            changed, nsid = bdevs.attach(config, params.nqn, str(name), _spdk(values))
        return changed

    with spdk_says(Code.INVALID_PARAMS):
        await administration.change(change)
    return nsid


def _namespace(values: Mapping[str, object]) -> NamespaceConfig:
    if "bdev" in values:
        raise EditError("bdev is not allowed in a request: name an existing bdev with bdev_name")
    made = edit.model(NamespaceConfig, _spdk(values))
    check_request(made)
    return made


def check_request(made: NamespaceConfig, *, known: Collection[str | None] = ()) -> None:
    """Refuse a namespace that a request cannot add.

    known: stores in Python that the configuration already has.
    """
    if made.store == "ram" and (made.size or 0) > machine_memory():
        raise EditError(
            f"a ram namespace of {format_size(made.size or 0)} does not fit into this machine's "
            f"memory of {machine_memory() / (1 << 30):.1f} GiB: use a smaller size, or store file"
        )
    if made.python is not None and ":" in made.python and made.python not in known:
        # Access to the socket does not include the right to run any code in this process.
        raise EditError(
            "a class cannot be named here: name a registered store, or add the namespace to the "
            "configuration file and reload it"
        )


def _spdk(values: Mapping[str, object]) -> dict[str, object]:
    """Return SPDK's keys of a namespace as those of a configuration."""
    known = dict(values)
    if known.pop("no_auto_visible", False):
        known.setdefault("hosts", [])
    if known.get("nsid") == 0:  # SPDK's default
        del known["nsid"]
    if "anagrpid" in known:
        known["ana_group"] = known.pop("anagrpid")
    known.pop("hide_metadata", None)  # there is no metadata
    if known.pop("ptpl_file", None) is not None:
        raise EditError("ptpl_file is not supported: set state_dir, where reservations persist")
    return known


@method("nvmf_subsystem_remove_ns", OneNamespace, "remove_namespace", changes=True)
async def remove(administration: Administration, params: OneNamespace) -> bool:
    """Remove a namespace; its bdev stays, but the content of memory is lost."""
    await administration.change(
        lambda config: edit.remove_namespace(config, params.nqn, params.nsid)
    )
    return True


@method("target_resize_ns", Resize, "resize_namespace", changes=True)
async def resize(administration: Administration, params: Resize) -> int:
    """Resize a namespace, to a given size or to that of its file; return the bytes."""
    nqn, nsid = params.nqn, params.nsid
    try:
        size = parse_size(params.size) if params.size is not None else None
    except ValueError as error:
        raise EditError(str(error)) from None

    def change(config: Config) -> Config:
        found = edit.find_namespace(config, nqn, nsid)
        if size is None and found.path is None:
            raise EditError(f"namespace {nsid} of {nqn} has no file that determines its size")
        if not found.enabled:
            raise EditError(f"namespace {nsid} of {nqn} is not enabled")
        return edit.change_namespace(config, nqn, nsid, size=size)

    await administration.change(change, follow=[(nqn, nsid)] if size is None else [])
    subsystem = administration.server.core.subsystems.get(nqn)  # may be removed meanwhile
    served = subsystem.namespaces.get(nsid) if subsystem is not None else None
    return served.store.size if served is not None else size or 0


@method("target_replace_ns", Replace, "replace_namespace", changes=True)
async def replace(administration: Administration, params: Replace) -> bool:
    """Replace the store of a namespace, which keeps its NSID, identifiers and hosts.

    Hosts see that the namespace is removed and that a new one is added.
    """
    nqn, nsid = params.nqn, params.nsid
    made = _namespace({**params.namespace, "nsid": nsid})

    def change(config: Config) -> Config:
        old = edit.find_namespace(config, nqn, nsid)
        kept = administration.identity(nqn, nsid, old)
        return edit.change_namespace(
            config,
            nqn,
            nsid,
            store=made.store,
            path=made.path,
            python=made.python,
            options=made.options,
            legs=made.legs,
            quorum=made.quorum,
            resync_rate=made.resync_rate,
            fence=made.fence,
            size=made.size,
            block_size=made.block_size if "block_size" in params.namespace else old.block_size,
            direct=made.direct,
            read_only=made.read_only,
            persistent=made.persistent,
            power_fail_atomic=made.power_fail_atomic,
            hotplug=_comes_and_goes(params.namespace, made, old),
            **kept,
        )

    await administration.change(change)
    return True


def _comes_and_goes(
    asked: Mapping[str, object], made: NamespaceConfig, old: NamespaceConfig
) -> bool:
    return made.hotplug if "hotplug" in asked else old.hotplug and made.path is not None


@method("nvmf_ns_add_host", NamespaceHost, "add_namespace_host", changes=True)
async def add_host(administration: Administration, params: NamespaceHost) -> bool:
    """Make a masked namespace visible to a host."""
    await administration.change(
        lambda config: edit.show_namespace(config, params.nqn, params.nsid, params.host)
    )
    return True


@method("nvmf_ns_remove_host", NamespaceHost, "remove_namespace_host", changes=True)
async def remove_host(administration: Administration, params: NamespaceHost) -> bool:
    """Hide a masked namespace from a host."""
    await administration.change(
        lambda config: edit.hide_namespace(config, params.nqn, params.nsid, params.host)
    )
    return True


@method("nvmf_subsystem_set_ns_ana_group", NamespaceGroup, "set_ana_group", changes=True)
async def set_group(administration: Administration, params: NamespaceGroup) -> bool:
    """Move a namespace to a different ANA group."""
    with spdk_says(Code.INTERNAL_ERROR):
        await administration.change(
            lambda config: edit.change_namespace(
                config, params.nqn, params.nsid, ana_group=params.anagrpid
            )
        )
    return True


@method("target_mask_ns", Mask, "mask_namespace", changes=True)
async def mask(administration: Administration, params: Mask) -> bool:
    """Make a namespace visible to these hosts only, or to all."""
    hosts = tuple(params.hosts) if params.hosts is not None else None
    await administration.change(
        lambda config: edit.change_namespace(config, params.nqn, params.nsid, hosts=hosts)
    )
    return True


@method("target_protect_ns", Protect, "protect_namespace", changes=True)
async def protect(administration: Administration, params: Protect) -> bool:
    """Write-protect a namespace for every host, as hosts can do with a feature (84h)."""
    words = {protection_word(state): state for state in WriteProtection}
    if params.state not in words:
        raise EditError(f"state {params.state!r}: expected one of {', '.join(words)}")
    wanted, subsystem = words[params.state], find(administration, params.nqn)
    if params.nsid not in subsystem.namespaces:
        raise EditError(f"namespace {params.nsid} of {params.nqn} is not available now")
    if not subsystem.lasting.nwpc:
        raise EditError(
            "write protection must persist, but the target has no state_dir: set state_dir, or use "
            "read_only = true for the namespace"
        )
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(failure: StatusError | None) -> None:
        if not ended.done():
            if failure is not None:
                ended.set_exception(EditError(str(failure)))
            else:
                ended.set_result(None)

    def begin() -> None:
        try:
            check(subsystem, params.nsid, wanted)
            change(subsystem, params.nsid, wanted, end)
        except StatusError as failure:
            end(failure)

    subsystem.soon(begin)
    await ended
    return True
