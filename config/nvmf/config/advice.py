# SPDX-License-Identifier: BSD-3-Clause
"""Finds settings that are valid but probably unintended."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nvmf.auth.key import read_key
from nvmf.config.models import Config, SubsystemConfig
from nvmf.spec.nqn import DISCOVERY_NQN, nqn_advice


def advice(
    config: Config, source: str | Path | None = None, *, key_files: bool = True
) -> list[str]:
    """Return a message for each probably unintended setting; the configuration can still be served.

    source: the file of the configuration, checked for world-readable keys.
    key_files: read these too; the target, which reads them itself, has messages of its own.
    """
    found: list[str] = []
    if source is not None and _keys_are_exposed(config, Path(source)):
        found.append(
            "this file contains keys and is world-readable: chmod 0600 it, or put the keys into "
            "separate files (dhchap_key_file)"
        )
    if not config.ports:
        found.append("port = []: no host can connect until a port is added (target port add)")
    if not config.subsystems:
        found.append("there is no [[subsystem]]: hosts find an empty discovery log")
    for subsystem in config.subsystems:
        reachable = subsystem.allow_any_host or bool(subsystem.host_nqns)
        if not reachable:
            found.append(
                f"no host may connect to {subsystem.nqn}: list the hosts, hosts = [NQN, ...], or "
                "allow all hosts, allow_any_host = true"
            )
        if not subsystem.namespaces:
            found.append(
                f"{subsystem.nqn} has no [[subsystem.namespace]]"
                + (": hosts connect, but find no disk" if reachable else "")
            )
        if not subsystem.allow_any_host:
            found += [
                f"namespace {nsid} of {subsystem.nqn} is for {host}, which may not connect: add "
                "it to the hosts of the subsystem too"
                for nsid, namespace in subsystem.numbered()
                for host in namespace.hosts or ()
                if not subsystem.allows(host)
            ]
        found += [
            f"{namespace.path} (namespace {nsid} of {subsystem.nqn}) does not exist"
            for nsid, namespace in subsystem.numbered()
            if namespace.path is not None and not (namespace.hotplug or namespace.path.exists())
        ]
        found += _legs(subsystem, key_files)
        for host in subsystem.host_tables:
            if not (host.authenticates and key_files):
                continue
            for path in (host.dhchap_key_file, host.dhchap_ctrl_key_file):
                found += _key_file(path, f"key of host {host.nqn} of {subsystem.nqn}")
    found += [
        f"{bdev.path} (bdev {bdev.name}) does not exist"
        for bdev in config.bdevs
        if bdev.path is not None and not bdev.path.exists()
    ]
    return found + names_advice(config) + _memory(config)


def _legs(subsystem: SubsystemConfig, key_files: bool) -> list[str]:
    """Return a message for each file of a mirror's leg that is missing or cannot be used."""
    found: list[str] = []
    for nsid, namespace in subsystem.numbered():
        of = f"namespace {nsid} of {subsystem.nqn}"
        for leg in namespace.legs:
            if leg.path is not None and not leg.path.exists():
                found.append(f"{leg.path} (leg of {of}) does not exist")
            for path in (leg.dhchap_key_file, leg.dhchap_ctrl_key_file) if key_files else ():
                found += _key_file(path, f"key of leg {leg.name} of {of}")
    return found


def names_advice(config: Config) -> list[str]:
    """Return a message for each NQN that does not have a form of the specification."""
    names = [config.target.discovery_nqn or DISCOVERY_NQN]
    names += [referral.nqn for referral in config.referrals]
    for subsystem in config.subsystems:
        names += [subsystem.nqn, *subsystem.host_nqns]
        for namespace in subsystem.namespaces:
            names += namespace.hosts or ()
    return [said for name in dict.fromkeys(names) if (said := nqn_advice(name))]


def machine_memory() -> int:
    """Return the bytes of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _key_file(path: Path | None, of: str) -> list[str]:
    """Check that a key can be read from a file, as the target does."""
    if path is None:
        return []
    if not path.exists():
        return [f"{path} ({of}) does not exist"]
    try:
        exposed = read_key(path, waits=False)[1]
    except ValueError as error:
        return [f"{error} ({of})"]
    return [f"{path} ({of}) is world-readable: chmod 0600 it"] if exposed else []


def _keys_are_exposed(config: Config, source: Path) -> bool:
    hosts = [host for subsystem in config.subsystems for host in subsystem.host_tables]
    if not any(host.dhchap_key or host.dhchap_ctrl_key for host in hosts):
        return False
    try:
        return bool(source.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def _memory(config: Config) -> list[str]:
    """Check the size of RAM namespaces: memory is allocated only as hosts write, page by page."""
    asked = sum(
        namespace.size or 0
        for subsystem in config.subsystems
        for namespace in subsystem.namespaces
        if namespace.store == "ram"
    )
    there = machine_memory()
    if asked <= there:
        return []
    return [
        f"the ram namespaces have {_rounded(asked)} in total, but this machine has "
        f"{_rounded(there)} of memory: the target does not start, or fails when hosts fill them"
    ]


def _rounded(size: int) -> str:
    shift, unit = (40, "TiB") if size >= 1 << 40 else (30, "GiB")
    return f"{size / (1 << shift):.1f} {unit}"
