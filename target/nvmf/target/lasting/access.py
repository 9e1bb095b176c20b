# SPDX-License-Identifier: BSD-3-Clause
"""The keys of the hosts of a subsystem, from where its configuration says that they are."""

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
    """The keys of the hosts that have to authenticate, by NQN; reads files.

    ValueError with a sentence where a key cannot be read, or is none.
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
            "host %s of %s: both keys are the same: whoever has one can play both parts",
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
        log.warning("%s: everybody can read %s: chmod 0600 it", where, path)
    return key


def protect() -> None:
    """Before this process holds a key; a warning where it cannot be."""
    try:
        protect_process()
    except OSError as error:
        log.warning("a core file of this process could hold keys: %s", error)
