# SPDX-License-Identifier: BSD-3-Clause
"""Subsystems and namespaces of a configuration, made of the engine's stores."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from nvmf.auth import HostKeys
from nvmf.config.limits import LimitsConfig
from nvmf.config.models import NamespaceConfig, ReferralConfig, SubsystemConfig
from nvmf.spec.fabrics import TransportType
from nvmf.target.commands.discovery import Referral
from nvmf.target.lasting.access import host_keys
from nvmf.target.lasting.health import SubsystemHealth
from nvmf.target.model.namespace import Identity, Namespace
from nvmf.target.model.subsystem import Subsystem, Work, serial_of


class ServerError(Exception):
    """The server cannot start: a sentence says what was tried, what came back, what to do."""


def open_store(engine: Any, config: NamespaceConfig, where: str) -> Any:
    """Open the store of a namespace; blocks while files are opened.  ServerError if it cannot."""
    try:
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
        raise ServerError(f"{where}: the {config.store} store cannot be opened: {said}") from error


def read_keys(config: SubsystemConfig) -> dict[str, HostKeys]:
    """The keys of its hosts; ServerError where one cannot be read."""
    try:
        return host_keys(config)
    except ValueError as error:
        raise ServerError(str(error)) from None


def make_subsystem(
    engine: Any,
    target: Any,
    config: SubsystemConfig,
    keys: dict[str, HostKeys],
    state: Path | None,
    work: Work,
    health: SubsystemHealth,
) -> Subsystem:
    """A subsystem without namespaces.

    keys are those of its hosts, state is the folder for what outlives the target, work is
    storage.Storage's, health what its SMART log has counted.
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
        call_later=asyncio.get_running_loop().call_later,
        work=work,
        permanent_protection=config.permanent_write_protect,
        state=state,
        health=health,
        make_table=lambda: engine.NamespaceTable(target, config.max_namespaces),
    )


def make_referral(config: ReferralConfig) -> Referral:
    """What hosts are told of another discovery service."""
    kind = TransportType[config.trtype.upper()]
    return Referral(config.traddr, config.trsvcid, kind, config.nqn)


def identity_of(nqn: str, nsid: int, config: NamespaceConfig) -> Identity:
    """The identifiers of a namespace: those that it was given, and made ones for the others."""
    return Identity.derive(
        nqn,
        nsid,
        str(config.path) if config.path is not None else config.store,
        uuid=config.uuid,
        nguid=config.nguid,
        eui64=config.eui64,
    )


def make_namespace(
    engine: Any, target: Any, nqn: str, nsid: int, config: NamespaceConfig, store: Any
) -> Namespace:
    """A namespace of an open store."""
    identity = identity_of(nqn, nsid, config)
    moves = engine.Namespace(target, nsid, store)
    made = Namespace(nsid, store, identity, moves, config.ana_group)
    if config.limits != LimitsConfig():
        set_limits(made, config.limits)
    return made


def set_limits(namespace: Namespace, limits: LimitsConfig) -> None:
    """How much of it all hosts together may use, from now on."""
    namespace.engine.limit(**{key: value or 0 for key, value in limits.model_dump().items()})
    namespace.limits.clear()
    if limits.limited:
        namespace.limits.update(limits.model_dump(exclude_none=True))
