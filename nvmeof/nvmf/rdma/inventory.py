# SPDX-License-Identifier: BSD-3-Clause
"""The list of RDMA devices: the embedded one, and those of the system by means of pyverbs.

For display and for the choice of a device; no data is transferred here.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from nvmf.engine import EngineError, list_devices, verbs_available

if TYPE_CHECKING:
    from nvmf.engine._engine import ListedDevice

log = logging.getLogger("nvmf.rdma")

Kind = Literal["iwarp", "roce", "system"]
EMBEDDED: tuple[Kind, ...] = ("iwarp", "roce")
"""The devices that are always there."""

Limit: TypeAlias = Literal[
    "max_qp",
    "max_qp_wr",
    "max_cq",
    "max_cqe",
    "max_mr",
    "max_sge",
    "max_qp_rd_atom",
    "max_qp_init_rd_atom",
]
"""A capability relevant to NVMe-oF, with its name in struct ibv_device_attr."""
LIMITS: tuple[Limit, ...] = get_args(Limit)


@dataclass(frozen=True, slots=True)
class Gid:
    """An entry of a port's GID table."""

    index: int
    gid: str
    type: str = ""
    """IB, RoCE v1 or RoCE v2, if the library reports it."""


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a device."""

    port: int
    state: str
    link_layer: str
    max_mtu: int
    """Bytes; 0 if unknown."""
    active_mtu: int
    """Bytes; 0 if unknown."""
    gids: list[Gid]


@dataclass(frozen=True, slots=True)
class Device:
    """An RDMA device."""

    name: str
    kind: Kind
    """iwarp, roce: the embedded devices; system: a device of libibverbs."""
    transport: str
    fw_ver: str
    vendor_id: int
    limits: dict[str, int]
    ports: list[Port]


@dataclass(frozen=True, slots=True)
class Inventory:
    """The devices, and notes about devices that are missing."""

    devices: list[Device]
    notes: list[str] = field(default_factory=list)


def inventory() -> Inventory:
    """Return all devices; never fails: errors are in the notes."""
    devices: list[Device] = []
    notes: list[str] = []
    try:
        for kind in EMBEDDED:
            devices += [_of_engine(raw, kind) for raw in list_devices(kind)]
    except EngineError as error:
        notes.append(f"the embedded device: {error}")
    found, note = system_devices()
    devices += found
    if note:
        notes.append(note)
    return Inventory(devices, notes)


def system_devices() -> tuple[list[Device], str]:
    """Return the system's devices, and why there are none or less is known about them."""
    why = verbs_available("system")
    if why is not None:
        return [], f"no system device: {why}"
    pyverbs = import_pyverbs()
    if isinstance(pyverbs, str):
        try:
            found = [_of_engine(raw, "system") for raw in list_devices("system")]
        except EngineError as error:
            return [], f"no system device: {error}"
        return found, pyverbs if found else _none()
    try:
        names = [raw.name.decode() for raw in pyverbs.get_device_list()]
    except Exception as error:
        return [], f"{_none()} (pyverbs: {_words(error)})"
    devices: list[Device] = []
    notes: list[str] = []
    for name in names:
        try:
            devices.append(_of_pyverbs(pyverbs, name))
        except Exception as error:
            notes.append(f"cannot open RDMA device {name}: {_words(error)}")
    if not names:
        notes.append(_none())
    return devices, "; ".join(notes)


def _none() -> str:
    return (
        "no system device: the kernel offers no RDMA device (no RDMA network card, and no rdma_rxe "
        "or siw link; `rdma link` lists them)"
    )


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def import_pyverbs() -> ModuleType | str:
    """Return pyverbs.device, or why it is not available.

    It calls logging.basicConfig() on import; the effect on the root logger is undone.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        import pyverbs.device
    except ImportError as error:
        return f"cannot import pyverbs ({error}): install python3-pyverbs to see GID types"
    finally:
        for handler in root.handlers[:]:
            if handler not in handlers:
                root.removeHandler(handler)
        root.setLevel(level)
    module: ModuleType = pyverbs.device
    return module


def _of_engine(raw: ListedDevice, kind: Kind) -> Device:
    ports = [
        Port(
            port["port"],
            port["state"],
            port["link_layer"],
            port["max_mtu"],
            port["active_mtu"],
            [Gid(index, gid) for index, gid in enumerate(port["gids"])],
        )
        for port in raw["ports"]
    ]
    limits: dict[str, int] = {name: raw[name] for name in LIMITS}
    return Device(
        raw["name"], kind, raw["transport"], raw["fw_ver"], raw["vendor_id"], limits, ports
    )


def _of_pyverbs(pyverbs: Any, name: str) -> Device:
    raw = next(raw for raw in pyverbs.get_device_list() if raw.name.decode() == name)
    with pyverbs.Context(name=name) as context:
        attr = context.query_device()
        try:
            table = context.query_gid_table(1024)
        except Exception as error:  # show the device without its GIDs
            log.warning("%s: cannot read the GID table: %s", name, error)
            table = []
        ports = []
        for number in range(1, attr.phys_port_cnt + 1):
            port = context.query_port(number)
            gids = [
                Gid(entry.gid_index, entry.gid_str(), pyverbs.translate_gid_type(entry.gid_type))
                for entry in table
                if entry.port_num == number
            ]
            ports.append(
                Port(
                    number,
                    pyverbs.port_state_to_str(port.state),
                    pyverbs.translate_link_layer(port.link_layer),
                    _mtu(port.max_mtu),
                    _mtu(port.active_mtu),
                    gids,
                )
            )
        return Device(
            name,
            "system",
            pyverbs.translate_transport_type(raw.transport_type),
            str(attr.fw_version),
            attr.vendor_id,
            {limit: getattr(attr, limit) for limit in LIMITS},
            ports,
        )


def _mtu(enum: int) -> int:
    return 128 << enum if 1 <= enum <= 5 else 0
