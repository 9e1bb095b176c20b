# SPDX-License-Identifier: BSD-3-Clause
"""Reads the keys of a subsystem's hosts from the sources given in its configuration."""

from __future__ import annotations

import logging
from pathlib import Path

from nvmf.auth import HostKeys, Key
from nvmf.auth.key import credential, protect_process, read_key
from nvmf.config.hosts import HostConfig
from nvmf.config.models import SubsystemConfig
from nvmf.spec.auth import DhGroup, Hash

log = logging.getLogger("nvmf.target")


def host_keys(config: SubsystemConfig) -> dict[str, HostKeys]:
    """Return the keys of the hosts that must authenticate, by NQN; reads files.

    Raise ValueError if a key cannot be read or is invalid.
    """
    hosts = [host for host in config.host_tables if host.authenticates]
    if hosts:
        protect()
    return {host.nqn: _keys(config.nqn, host) for host in hosts}


def _keys(nqn: str, host: HostConfig) -> HostKeys:
    key = _key(nqn, host, "dhchap_key")
    assert key is not None
    controller_key = _key(nqn, host, "dhchap_ctrl_key")
    if controller_key == key:
        log.warning(
            "host %s of %s: both keys are the same: each end can impersonate the other",
            host.nqn,
            nqn,
        )
    return HostKeys(
        key,
        controller_key,
        tuple(one for name in host.dhchap_hashes for one in Hash if one.digest == name),
        tuple(one for name in host.dhchap_dhgroups for one in DhGroup if one.title == name),
    )


def _key(nqn: str, host: HostConfig, name: str) -> Key | None:
    inline: Key | None = getattr(host, name)
    path: Path | None = getattr(host, f"{name}_file")
    called: str | None = getattr(host, f"{name}_credential")
    where = f"host {host.nqn} of {nqn}: {name}"
    try:
        if called is not None:
            return read_key(credential(called), waits=False)[0]
        if path is None:
            return inline
        key, exposed = read_key(path, waits=False)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if exposed:
        log.warning("%s: %s is world-readable: chmod 0600 it", where, path)
    return key


def protect() -> None:
    """Protect the memory of this process, before it holds a key; log a warning on failure."""
    try:
        protect_process()
    except OSError as error:
        log.warning("cannot disable core files, which could contain keys: %s", error)
