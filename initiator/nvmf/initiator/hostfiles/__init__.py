# SPDX-License-Identifier: BSD-3-Clause
"""The files in /etc/nvme with the controllers to connect: those of nvme-cli 3, or of nvme-cli 2.

    for endpoint in configured():
        print(endpoint.source, endpoint.place())

If nvme-fabrics.conf exists, only it and its drop-ins are read; otherwise config.json and
discovery.conf are. hostnqn and hostid have the host's identity, unless those files give one.
"""

from __future__ import annotations

import logging
from pathlib import Path

from nvmf.initiator.hostfiles.config_json import read_config_json
from nvmf.initiator.hostfiles.discovery_conf import read_discovery_conf
from nvmf.initiator.hostfiles.fabrics import drop_ins, read_fabrics_conf
from nvmf.initiator.hostfiles.model import (
    Endpoint,
    HostFileError,
    Identity,
    Parameters,
    check_identity,
    read_text,
)

__all__ = [
    "FOLDER",
    "Endpoint",
    "HostFileError",
    "Identity",
    "Parameters",
    "configured",
    "read_config_json",
    "read_discovery_conf",
    "read_fabrics_conf",
    "system_identity",
]

log = logging.getLogger(__name__)

FOLDER = Path("/etc/nvme")
_FABRICS, _JSON, _DISCOVERY = "nvme-fabrics.conf", "config.json", "discovery.conf"


def system_identity(folder: Path = FOLDER) -> Identity:
    """Return the contents of hostnqn and hostid; None for a file that is missing or empty.

    Raise HostFileError if one is invalid.
    """
    found: list[str | None] = []
    for index, name in enumerate(("hostnqn", "hostid")):
        path = folder / name
        text = read_text(path).strip() if path.exists() else ""
        found.append(text or None)
        try:
            check_identity(*((text or None, None) if index == 0 else (None, text or None)))
        except ValueError as error:
            raise HostFileError(f"{path}:1: {error}") from None
    return found[0], found[1]


def configured(config: Path | None = None, *, folder: Path = FOLDER) -> list[Endpoint]:
    """Return the controllers of the host files, in their order; [] if there is no file.

    config is a file to read instead of those in the folder: in the format of config.json if its
    name ends in .json, otherwise of nvme-fabrics.conf. HostFileError names every fault.
    """
    system = system_identity(folder)
    if config is not None:
        if not config.exists():
            raise HostFileError(f"{config}: there is no such file")
        if config.suffix == ".json":
            return read_config_json(config, system)
        return read_fabrics_conf(config, system)
    fabrics = folder / _FABRICS
    legacy = [folder / name for name in (_JSON, _DISCOVERY) if (folder / name).exists()]
    if fabrics.exists() or drop_ins(fabrics):
        for path in legacy:
            log.warning("%s is ignored, because %s exists", path, fabrics)
        return read_fabrics_conf(fabrics, system)
    endpoints: list[Endpoint] = []
    problems: list[str] = []
    for path in legacy:
        read = read_config_json if path.name == _JSON else read_discovery_conf
        try:
            endpoints += read(path, system)
        except HostFileError as error:
            problems += error.problems
    if problems:
        raise HostFileError(*problems)
    return endpoints
