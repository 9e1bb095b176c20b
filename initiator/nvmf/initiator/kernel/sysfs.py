# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's NVMe devices, as shown in sysfs.

A controller is class/nvme/nvme0. Its namespaces are block devices: nvme0n1 in the controller's
folder, or, if the subsystem may have several controllers, a hidden path nvme0c0n1 there and one
block device nvme0n1 for the subsystem (multipath). Any file may disappear while it is read.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.system import System, names

SECTOR = 512
"""Bytes of a sector: the unit of size in sysfs, whatever the block size."""
_CONTROLLER = re.compile(r"nvme\d+")
_BLOCK = re.compile(r"nvme(\d+)(?:c\d+)?n(\d+)")
LIVE = "live"
GOING = ("dead", "deleting", "deleting (no IO)")
"""States of a controller: it takes commands; it does not come back."""


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """A block device of a namespace."""

    name: str
    """Name of the block device: nvme0n1."""
    path: str
    """Path of its node: /dev/nvme0n1."""
    nsid: int
    size: int
    """Bytes."""
    block_size: int
    """Bytes of a logical block."""
    metadata_size: int
    used: int | None
    """Allocated bytes, if the kernel reports them (Linux 6.8 and later)."""
    uuid: str | None
    nguid: str | None
    eui: str | None


@dataclass(frozen=True, slots=True)
class ControllerInfo:
    """A controller of the kernel."""

    name: str
    """nvme0."""
    path: str
    folder: Path
    """Its folder in sysfs."""
    transport: str
    """rdma, tcp, fc, loop, pcie."""
    address: str
    """As the kernel writes it: traddr=...,trsvcid=..."""
    state: str
    """new, connecting, live, resetting, deleting, dead."""
    cntlid: int | None
    subsysnqn: str
    hostnqn: str | None
    hostid: str | None
    model: str
    serial: str
    firmware: str
    numa_node: int | None
    queue_count: int | None
    """Queues, including the admin queue."""
    sqsize: int | None
    kato: int | None
    """Keep Alive Timeout: seconds."""
    reconnect_delay: str | None
    ctrl_loss_tmo: str | None
    fast_io_fail_tmo: str | None
    """Seconds, or off; this and the two above as the kernel writes them."""

    @property
    def place(self) -> dict[str, str]:
        """Return the parts of the address."""
        return dict(part.split("=", 1) for part in self.address.split(",") if "=" in part)

    @property
    def is_fabrics(self) -> bool:
        """Whether it was connected, and can be disconnected."""
        return self.transport != "pcie" and bool(self.transport)

    @property
    def is_live(self) -> bool:
        """Whether it takes commands."""
        return self.state == LIVE

    @property
    def is_going(self) -> bool:
        """Whether it is being removed."""
        return self.state in GOING


@dataclass(frozen=True, slots=True)
class SubsystemInfo:
    """A subsystem, and the controllers through which the kernel reaches it."""

    name: str
    """nvme-subsys0."""
    nqn: str
    model: str
    serial: str
    firmware: str
    policy: str | None
    """The policy of the choice of paths."""
    controllers: tuple[ControllerInfo, ...]
    namespaces: tuple[NamespaceInfo, ...]


def controllers(system: System) -> list[ControllerInfo]:
    """Return all controllers, by number."""
    found = [controller(name, system) for name in _in_order(system.controllers())]
    return [one for one in found if one]


def controller(name: str, system: System) -> ControllerInfo | None:
    """Return a controller by its name; None if it does not exist."""
    folder = system.sysfs / "class" / "nvme" / name
    nqn = _text(folder / "subsysnqn")
    if not _CONTROLLER.fullmatch(name) or nqn is None:
        return None
    return ControllerInfo(
        name=name,
        path=str(system.dev / name),
        folder=folder,
        transport=_text(folder / "transport") or "",
        address=_text(folder / "address") or "",
        state=_text(folder / "state") or "",
        cntlid=_number(folder / "cntlid"),
        subsysnqn=nqn,
        hostnqn=_text(folder / "hostnqn"),
        hostid=_text(folder / "hostid"),
        model=_text(folder / "model") or "",
        serial=_text(folder / "serial") or "",
        firmware=_text(folder / "firmware_rev") or "",
        numa_node=_number(folder / "numa_node"),
        queue_count=_number(folder / "queue_count"),
        sqsize=_number(folder / "sqsize"),
        kato=_number(folder / "kato"),
        reconnect_delay=_text(folder / "reconnect_delay"),
        ctrl_loss_tmo=_text(folder / "ctrl_loss_tmo"),
        fast_io_fail_tmo=_text(folder / "fast_io_fail_tmo"),
    )


def state(name: str, system: System) -> str | None:
    """Return the state of a controller, or None if there is no such controller: one file."""
    return _text(system.sysfs / "class" / "nvme" / name / "state")


def subsystems(system: System) -> list[SubsystemInfo]:
    """Return all subsystems, by number."""
    root = system.sysfs / "class" / "nvme-subsystem"
    found = []
    for name in _in_order(names(root)):
        folder = root / name
        nqn = _text(folder / "subsysnqn")
        if nqn is None:
            continue
        within = [controller(one, system) for one in _in_order(names(folder))]
        members = tuple(one for one in within if one)
        blocks = {b.name: b for one in members for b in namespaces(one, system)}
        found.append(
            SubsystemInfo(
                name=name,
                nqn=nqn,
                model=_text(folder / "model") or "",
                serial=_text(folder / "serial") or "",
                firmware=_text(folder / "firmware_rev") or "",
                policy=_text(folder / "iopolicy"),
                controllers=members,
                namespaces=tuple(sorted(blocks.values(), key=lambda block: block.nsid)),
            )
        )
    return found


def namespaces(one: ControllerInfo, system: System) -> list[NamespaceInfo]:
    """Return the block devices of a controller's namespaces, by NSID."""
    found = []
    for entry in names(one.folder):
        match = _BLOCK.fullmatch(entry)
        if not match:
            continue
        # A hidden path nvme0c1n2 belongs to the subsystem's block device nvme0n2.
        block = _block(f"nvme{match[1]}n{match[2]}", one, entry, system)
        if block:
            found.append(block)
    return sorted(found, key=lambda block: block.nsid)


def _block(name: str, one: ControllerInfo, entry: str, system: System) -> NamespaceInfo | None:
    """Return a block device if it is ready for use, or None."""
    folder = system.sysfs / "class" / "block" / name
    sectors, block_size = _number(folder / "size"), _number(folder / "queue/logical_block_size")
    nsid = _number(folder / "nsid") or _number(one.folder / entry / "nsid")
    node = system.dev / name
    if sectors is None or block_size is None or nsid is None or not node.exists():
        return None
    used = _number(folder / "nuse")
    return NamespaceInfo(
        name=name,
        path=str(node),
        nsid=nsid,
        size=sectors * SECTOR,
        block_size=block_size,
        metadata_size=_number(folder / "metadata_bytes") or 0,
        used=None if used is None else used * block_size,
        uuid=_identifier(folder / "uuid"),
        nguid=_identifier(folder / "nguid"),
        eui=_identifier(folder / "eui"),
    )


def delete(one: ControllerInfo) -> None:
    """Disconnect; blocks until the controller is gone.  Idempotent."""
    _write(one, "delete_controller", "disconnect")


def reset(one: ControllerInfo) -> None:
    """Reset a controller, which reconnects; blocks until it has reconnected or failed to."""
    if not _write(one, "reset_controller", "reset"):
        raise KernelError(f"cannot reset {one.name} ({one.subsysnqn}): it no longer exists")


def _write(one: ControllerInfo, attribute: str, verb: str) -> bool:
    """Write 1 to an attribute of a controller; return whether the attribute existed."""
    try:
        file = os.open(one.folder / attribute, os.O_WRONLY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        raise KernelError(
            f"cannot {verb} {one.name} ({one.subsysnqn}): this requires root: try sudo"
        ) from None
    try:
        os.write(file, b"1")
    except OSError as error:
        if one.folder.exists():
            raise KernelError(
                f"cannot {verb} {one.name} ({one.subsysnqn}): {error.strerror}; see dmesg",
                errno=error.errno,
            ) from None
    finally:
        os.close(file)
    return True


def _in_order(found: frozenset[str] | list[str]) -> list[str]:
    """Return a sort key by the number in the name: nvme2 before nvme10."""
    return sorted(found, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    text = _text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _identifier(path: Path) -> str | None:
    """Return an identifier, or "" if it is all zeroes."""
    text = (_text(path) or "").replace(" ", "")
    return text if text.strip("0-") else None
