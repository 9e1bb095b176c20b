# SPDX-License-Identifier: BSD-3-Clause
"""Subsystems and namespaces, created from a configuration and the engine's stores."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from nvmf.auth import HostKeys
from nvmf.config.limits import LimitsConfig
from nvmf.config.models import NamespaceConfig, ReferralConfig, SubsystemConfig
from nvmf.errors import Error
from nvmf.spec.fabrics import TransportType
from nvmf.spec.memory import Access
from nvmf.target.commands.discovery import Referral
from nvmf.target.io.engine import Engine, Store, Target
from nvmf.target.io.storethread import PythonStore, native_of
from nvmf.target.lasting.access import host_keys
from nvmf.target.lasting.health import SubsystemHealth
from nvmf.target.model.memory import MemoryFence
from nvmf.target.model.namespace import Identity, Namespace
from nvmf.target.model.subsystem import Subsystem, Work, serial_of


class ServerError(Error):
    """The target cannot start or apply a change; the message has the reason and the remedy."""


def open_store(engine: Engine, config: NamespaceConfig, where: str) -> Store | PythonStore:
    """Open the store of a namespace; raise ServerError on failure.  Blocks to open files."""
    try:
        if config.store in ("python", "mirror"):
            return PythonStore(engine, config, where)
        return engine.Store(
            config.store,
            path=os.fspath(config.path) if config.path is not None else None,
            size=config.size or 0,
            block_size=config.block_size,
            direct=config.direct,
            read_only=config.read_only,
            persistent=config.persistent,
            power_fail_atomic=config.power_fail_atomic,
        )
    except OSError as error:
        said = error.strerror or str(error)
        raise ServerError(f"{where}: cannot open the {config.store} store: {said}") from error


def read_keys(config: SubsystemConfig) -> dict[str, HostKeys]:
    """Return the keys of a subsystem's hosts; raise ServerError if one cannot be read."""
    try:
        return host_keys(config)
    except ValueError as error:
        raise ServerError(str(error)) from None


def make_subsystem(
    engine: Engine,
    target: Target,
    config: SubsystemConfig,
    keys: dict[str, HostKeys],
    state: Path | None,
    work: Work,
    health: SubsystemHealth,
    memory: MemoryFence,
) -> Subsystem:
    """Create a subsystem without namespaces.

    keys: of its hosts.  state: the folder for persistent state.  work: Storage.work().  health: the
    stored counters of its SMART log.  memory: Memory.fence().
    """
    return Subsystem(
        nqn=config.nqn,
        serial=config.serial or serial_of(config.nqn),
        model=config.model,
        allow_any_host=config.allow_any_host,
        hosts=frozenset(config.host_nqns),
        keys=keys,
        max_namespaces=config.max_namespaces,
        mdts=config.mdts,
        in_capsule=config.in_capsule,
        max_io_queues=config.max_io_queues,
        queue_size=config.queue_size,
        make_gates=lambda: engine.Gates(target, config.max_namespaces),
        fence=target.fence,
        memory=memory,
        call_later=asyncio.get_running_loop().call_later,
        work=work,
        permanent_protection=config.permanent_write_protect,
        state=state,
        health=health,
        make_table=lambda: engine.NamespaceTable(target, config.max_namespaces),
    )


def make_referral(config: ReferralConfig) -> Referral:
    """Create a referral to a different discovery service."""
    kind = TransportType[config.trtype.upper()]
    return Referral(config.traddr, config.trsvcid, kind, config.nqn)


def identity_of(nqn: str, nsid: int, config: NamespaceConfig) -> Identity:
    """Return the identifiers of a namespace: those configured; the others are derived."""
    return Identity.derive(
        nqn,
        nsid,
        str(config.path or config.python or config.store),
        uuid=config.uuid,
        nguid=config.nguid,
        eui64=config.eui64,
    )


def make_namespace(
    engine: Engine,
    target: Target,
    nqn: str,
    nsid: int,
    config: NamespaceConfig,
    store: Store | PythonStore,
) -> Namespace:
    """Create a namespace on an open store."""
    identity = identity_of(nqn, nsid, config)
    moves = engine.Namespace(target, nsid, native_of(store))
    made = Namespace(
        nsid,
        store,
        identity,
        moves,
        config.ana_group,
        memory=exported(config),
    )
    if config.limits != LimitsConfig():
        set_limits(made, config.limits)
    return made


def exported(config: NamespaceConfig) -> dict[str, Access]:
    """Return what hosts may do with a namespace as memory, by NQN."""
    read_only = dict.fromkeys(config.memory_read_only, Access.READ)
    return dict.fromkeys(config.memory, Access.READ_WRITE) | read_only


def set_limits(namespace: Namespace, limits: LimitsConfig) -> None:
    """Limit the use of a namespace by all hosts together, from now on."""
    namespace.engine.limit(**{key: value or 0 for key, value in limits.model_dump().items()})
    namespace.limits.clear()
    if limits.limited:
        namespace.limits.update(limits.model_dump(exclude_none=True))
