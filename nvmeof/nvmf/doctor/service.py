# SPDX-License-Identifier: BSD-3-Clause
"""Other requirements of a target: state folder, keys and metrics address."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from nvmf.auth.key import read_key
from nvmf.config.base import endpoint
from nvmf.config.models import Config
from nvmf.doctor.machine import Finding, Level, Machine

_ROOM = 1 << 20
"""Upper limit for the files of the state folder in bytes, unless there are very many namespaces."""

_KEYS = ("dhchap_key_file", "dhchap_ctrl_key_file")


def state(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check that the state folder, for state that persists across restarts, can be written."""
    folder = config.target.state_dir if config else None
    if folder is None:
        return
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        yield _state(f"{there} is not a folder", "Correct state_dir.")
    elif not os.access(there, os.W_OK | os.X_OK):
        verb = "written" if there == folder else f"created in {there}"
        yield _state(f"{folder} cannot be {verb}", "Give it to the target's user: chown, mount.")
    elif (room := os.statvfs(there)).f_bavail * room.f_frsize < _ROOM:
        yield Finding(
            "state",
            Level.WARNING,
            f"the file system of {folder} is full: persistent reservations and write protection"
            " would be refused",
            "Free space.",
        )
    else:
        yield Finding("state", Level.OK, f"{folder} can be written")


def _state(text: str, remedy: str) -> Finding:
    return Finding("state", Level.PROBLEM, text, remedy)


def keys(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check that key files of hosts and of mirrors' legs can be read; credentials exist only in
    systemd's service.
    """
    for subsystem in config.subsystems if config else ():
        for host in subsystem.host_tables:
            for name in _KEYS:
                if (path := getattr(host, name)) is not None:
                    yield _key(f"{name} of {host.nqn} ({subsystem.nqn})", path)
        for nsid, namespace in subsystem.numbered():
            for leg in namespace.legs:
                for name in _KEYS:
                    if (path := getattr(leg, name)) is not None:
                        where = f"{name} of leg {leg.name} of namespace {nsid}"
                        yield _key(f"{where} ({subsystem.nqn})", path)


def _key(where: str, path: Path) -> Finding:
    try:
        _, exposed = read_key(path, waits=False)
    except ValueError as error:
        remedy = f"(umask 077; nvmeof gen-dhchap-key > {path}), or correct the path."
        return Finding("keys", Level.PROBLEM, f"{where}: {error}", remedy)
    if exposed:
        text = f"{where}: {path} is world-readable"
        return Finding("keys", Level.WARNING, text, f"chmod 0600 {path}")
    return Finding("keys", Level.OK, f"{where} can be used")


def metrics(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check that the metrics address is this machine's, and that its port is free."""
    if config is None or not config.metrics.enabled:
        return
    address, port = str(config.metrics.address), config.metrics.port
    where = endpoint(address, port)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((address, port))
            trial.listen()
    except OSError as error:
        text = f"metrics cannot use {where}: {error.strerror or error}"
        remedy = "If no target is running, set a different address or port in [metrics]."
        yield Finding("metrics", Level.WARNING, text, remedy)
        return
    ours = {one.trsvcid for one in config.ports if one.traddr in (address, "0.0.0.0", "::")}
    if port and port in ours:
        text = f"[[port]] and [metrics] both use port {port}"
        yield Finding("metrics", Level.PROBLEM, text, "Change one of them.")
    else:
        yield Finding("metrics", Level.OK, f"{where} is free")
