# SPDX-License-Identifier: BSD-3-Clause
"""What is allowed in a configuration, and yet is hardly what was meant."""

from __future__ import annotations

import os

from nvmf.config.models import Config
from nvmf.config.units import format_size


def advice(config: Config) -> list[str]:
    """A sentence for each; a target serves such a configuration all the same."""
    found: list[str] = []
    if not config.subsystems:
        found.append("there is no [[subsystem]]: hosts find a discovery log without entries")
    for subsystem in config.subsystems:
        if not subsystem.allow_any_host and not subsystem.hosts:
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
            if namespace.path is not None and not namespace.path.exists()
        ]
    return found + _memory(config)


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
        f"the ram namespaces have {format_size(asked)} altogether, and this machine "
        f"{there / (1 << 30):.1f} GiB of memory: hosts that fill them bring the target down"
    ]
