# SPDX-License-Identifier: BSD-3-Clause
"""discovery.conf of nvme-cli: a line for each discovery controller, of options of nvme discover."""

from __future__ import annotations

from pathlib import Path

from nvmf.initiator.base.options import OPTIONS
from nvmf.initiator.hostfiles.model import (
    PARAMETERS,
    Endpoint,
    HostFileError,
    Identity,
    check_identity,
    parse_value,
    read_text,
)
from nvmf.spec.nqn import DISCOVERY_NQN, validate_nqn

_SHORT = {
    "t": "transport",
    "a": "traddr",
    "s": "trsvcid",
    "f": "host-iface",
    "n": "nqn",
    "g": "hdr-digest",
    "G": "data-digest",
    "p": "persistent",
} | {one.flags[0][1:]: one.flags[1][2:] for one in OPTIONS.values() if len(one.flags) == 2}
"""Options of one letter: the short flags of nvme connect."""
_TEXTS = ("transport", "traddr", "trsvcid", "host-traddr", "host-iface", "nqn", "hostnqn", "hostid")


def read_discovery_conf(path: Path, system: Identity = (None, None)) -> list[Endpoint]:
    """Return the discovery controllers of discovery.conf; HostFileError lists every fault."""
    problems: list[str] = []
    endpoints: list[Endpoint] = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            options = _options(line.split())
            if not options:
                continue
            endpoints.append(_of_line(f"{path}:{number}", options, system))
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        raise HostFileError(*problems)
    return endpoints


def _options(words: list[str]) -> dict[str, str]:
    """Return the values by long option; that of a switch is empty."""
    found: dict[str, str] = {}
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        long = name[2:].replace("_", "-") if name.startswith("--") else _SHORT.get(name[1:2], "")
        if not name.startswith("-") or long not in (*_TEXTS, *PARAMETERS, "persistent"):
            raise ValueError(f"{name!r} is not an option of nvme discover")
        joined = "" if name.startswith("--") else name[2:] + equals + value
        if PARAMETERS.get(long) == "switch" or long == "persistent":
            found[long] = value
        elif joined:  # -t rdma may be written -trdma
            found[long] = joined
        elif equals:
            found[long] = value
        elif words:
            found[long] = words.pop(0)
        else:
            raise ValueError(f"{name} needs a value")
    return found


def _of_line(source: str, options: dict[str, str], system: Identity) -> Endpoint:
    texts = {name: options.pop(name) for name in _TEXTS if name in options}
    persistent = "persistent" in options
    options.pop("persistent", None)
    parameters = {
        name: parse_value(name, PARAMETERS[name], text or "yes") for name, text in options.items()
    }
    if "transport" not in texts:
        raise ValueError("a line needs -t TRANSPORT")
    if "traddr" not in texts and texts["transport"] != "loop":
        raise ValueError("a line needs -a ADDRESS")
    hostnqn, hostid = texts.get("hostnqn"), texts.get("hostid")
    check_identity(hostnqn, hostid)
    if hostnqn is None and hostid is None:
        hostnqn, hostid = system
    found = {name: value for name, value in parameters.items() if name != "keep-alive-tmo"}
    return Endpoint(
        source=source,
        transport=texts["transport"],
        traddr=texts.get("traddr", ""),
        trsvcid=texts.get("trsvcid"),
        host_traddr=texts.get("host-traddr"),
        host_iface=texts.get("host-iface"),
        subnqn=validate_nqn(texts.get("nqn", DISCOVERY_NQN)),
        hostnqn=hostnqn,
        hostid=hostid,
        persistent=persistent,
        parameters=parameters,
        found_discovery=parameters,
        found_subsystem=found,
    )
