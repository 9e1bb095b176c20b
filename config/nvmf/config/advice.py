# SPDX-License-Identifier: BSD-3-Clause
"""What is allowed in a configuration, and yet is hardly what was meant."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nvmf.config.models import Config


def advice(config: Config, source: str | Path | None = None) -> list[str]:
    """A sentence for each; a target serves such a configuration all the same.

    source: the file that it came from, which may have keys in it.
    """
    found: list[str] = []
    if source is not None and _keys_are_exposed(config, Path(source)):
        found.append(
            "there are keys in this file, and everybody can read it: chmod 0600 it, or put the "
            "keys into files of their own (dhchap_key_file)"
        )
    if not config.ports:
        found.append("port = []: no host can connect until a port is added (target port add)")
    if not config.subsystems:
        found.append("there is no [[subsystem]]: hosts find a discovery log without entries")
    for subsystem in config.subsystems:
        if not subsystem.allow_any_host and not subsystem.host_nqns:
            found.append(
                f"no host may connect to {subsystem.nqn}: name the hosts, hosts = [NQN, ...], or "
                "let everybody in, allow_any_host = true"
            )
        if not subsystem.namespaces:
            found.append(
                f"{subsystem.nqn} has no [[subsystem.namespace]]: hosts connect, and find no disk"
            )
        if not subsystem.allow_any_host:
            found += [
                f"namespace {nsid} of {subsystem.nqn} is for {host}, which may not connect: name "
                "it in the hosts of the subsystem too"
                for nsid, namespace in subsystem.numbered()
                for host in namespace.hosts or ()
                if not subsystem.allows(host)
            ]
        found += [
            f"{namespace.path}, namespace {nsid} of {subsystem.nqn}, does not exist"
            for nsid, namespace in subsystem.numbered()
            if namespace.path is not None and not (namespace.hotplug or namespace.path.exists())
        ]
        for host in subsystem.host_tables:
            if not host.authenticates:
                continue
            files = (host.dhchap_key_file, host.dhchap_ctrl_key_file)
            found += [
                f"{path}, a key of host {host.nqn} of {subsystem.nqn}, does not exist"
                for path in files
                if path is not None and not path.exists()
            ]
    return found + _memory(config)


def _keys_are_exposed(config: Config, source: Path) -> bool:
    hosts = [host for subsystem in config.subsystems for host in subsystem.host_tables]
    if not any(host.dhchap_key or host.dhchap_ctrl_key for host in hosts):
        return False
    try:
        return bool(source.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def _memory(config: Config) -> list[str]:
    """RAM is taken page by page as hosts write, so that too much of it is noticed late."""
    asked = sum(
        namespace.size or 0
        for subsystem in config.subsystems
        for namespace in subsystem.namespaces
        if namespace.store == "ram"
    )
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if asked <= there:
        return []
    return [
        f"the ram namespaces have {_rounded(asked)} altogether, and this machine "
        f"{_rounded(there)} of memory: hosts that fill them bring the target down"
    ]


def _rounded(size: int) -> str:
    shift, unit = (40, "TiB") if size >= 1 << 40 else (30, "GiB")
    return f"{size / (1 << shift):.1f} {unit}"
