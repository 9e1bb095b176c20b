# SPDX-License-Identifier: BSD-3-Clause
"""UDP port 4791, which a port of the embedded RoCEv2 device needs on its address."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from nvmf.config.models import Config
from nvmf.doctor.machine import Finding, Level, Machine

UDP_PORT = 4791
"""The UDP port of RoCEv2."""
EVERYWHERE = {"0.0.0.0", "::"}
_RXE = "rdma_rxe"
VERBS_LIBRARY = "libnvmf-verbs"
"""The library that programs of `nvmeof verbs` have in LD_PRELOAD."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that has the port open."""

    pid: int
    command: str
    """The name of the process."""
    role: str
    """The use of the port: target, host or verbs program; "" if unknown."""

    def __str__(self) -> str:
        return f"{self.pid} ({self.command}{', ' if self.role else ''}{self.role})"


@dataclass(frozen=True, slots=True)
class Holder:
    """A socket, or several that share it, which has UDP port 4791 of an address."""

    address: str
    """Its own address, which may be the unspecified one."""
    processes: tuple[Process, ...] = ()
    """Processes that have it open; empty if it is the kernel's (rxe), or they are not visible."""
    uid: int | None = None
    """The user whose processes share it; None if it is not shared."""

    def __str__(self) -> str:
        *others, last = map(str, self.processes)
        listed = f"{', '.join(others)} and {last}" if others else last
        return f"process{'es' if others else ''} {listed}"


def addresses(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check that UDP port 4791 of the address of each roce port is free, or name its holder."""
    seen = set()
    for port in config.ports if config else ():
        if port.device != "roce":
            continue
        for address in _meant(machine, port.traddr):
            if address not in seen:
                seen.add(address)
                yield _try(machine, address, waits=port.hotplug)


def _meant(machine: Machine, traddr: str) -> list[str]:
    """Return the addresses that a traddr stands for."""
    if traddr not in EVERYWHERE:
        return [traddr]
    version = 6 if ":" in traddr else 4
    found = [one for link in machine.interfaces or [] for one in link.addresses]
    parsed = [ipaddress.ip_address(one) for one in found]
    usable = [one for one in parsed if one.version == version and not one.is_link_local]
    return [str(one) for one in usable] or [traddr]


def _try(machine: Machine, address: str, *, waits: bool) -> Finding:
    """Bind to UDP port 4791 of an address as the device does.

    waits: the target waits for the address.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    where = f"UDP port {UDP_PORT} of {address}"
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            if family == socket.AF_INET6:
                trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            trial.bind((address, UDP_PORT))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _taken(machine, address, where)
        if error.errno == errno.EADDRNOTAVAIL:
            text, remedy = f"{address} is not an address of this machine", "See ip address."
            if waits:
                return Finding(
                    "addresses", Level.NOTE, f"{text}; the target waits for it (hotplug)"
                )
        else:
            text = f"{where} cannot be opened: {error.strerror or error}"
            remedy = "See ip address and ip route."
        return Finding("addresses", Level.PROBLEM, text, remedy)
    return Finding("addresses", Level.OK, f"{where}, for RoCEv2, is free")


def _taken(machine: Machine, address: str, where: str) -> Finding:
    """Return the finding for a port in use: by a process, by the kernel's rxe, or unknown."""
    found = holder(machine, address)
    owner = sharer(machine, address)
    if owner == os.geteuid():
        who = str(found) if found is not None and found.processes else "a process"
        verb = "share" if found is not None and len(found.processes) > 1 else "shares"
        text = f"{where} is in use by {who}, which {verb} it with this user's"
        return Finding("addresses", Level.OK, text)
    if owner is not None:
        return Finding(
            "addresses",
            Level.WARNING,
            f"{where} is in use by a process of the user with UID {owner}",
            "Only processes of one user share it: run both as that user, or choose a different"
            " traddr.",
        )
    if found is not None and found.processes:
        return Finding(
            "addresses",
            Level.WARNING,
            f"{where} is in use by {found}, on {found.address}",
            "That process does not share it: stop it, or choose a different traddr.",
        )
    rxe = _RXE in machine.modules
    if rxe and machine.root_user:
        return Finding(
            "addresses",
            Level.PROBLEM,
            f"{where} is in use by the kernel's rxe (module {_RXE}), which takes it on every"
            " address",
            'Use device = "system", which uses rxe; or remove it: rdma link del NAME; modprobe -r'
            f" {_RXE}.",
        )
    who = f"the kernel's rxe (module {_RXE} is loaded) or another user" if rxe else "another user"
    if machine.root_user:
        who = "the kernel or a process in a different PID namespace"
    return Finding(
        "addresses",
        Level.PROBLEM,
        f"{where} is in use, probably by {who}",
        f"Run doctor as root to see by whom; or ss -lunp 'sport = :{UDP_PORT}'. Processes of"
        " different users need addresses of their own.",
    )


def sharer(machine: Machine, address: str) -> int | None:
    """Return the UID of the processes that share the port of an address; None if none do."""
    wanted = str(ipaddress.ip_address(address))
    for line in (machine.read("/proc/net/unix") or "").splitlines():
        prefix, _, rest = line.rpartition(" ")[2].partition("@nvmf-roce.")
        uid, _, name = rest.partition(".")
        if not prefix and name == wanted and uid.isdecimal():
            return int(uid)
    return None


def holder(machine: Machine, address: str) -> Holder | None:
    """Return the holder of UDP port 4791 of an address; None if none is listed."""
    wanted = ipaddress.ip_address(address)
    for found in holders(machine):
        own = ipaddress.ip_address(found.address)
        if own == wanted or own.is_unspecified:
            return found
    return None


def holders(machine: Machine) -> list[Holder]:
    """Return the holders of UDP port 4791 by address, unspecified addresses last."""
    sockets: dict[ipaddress.IPv4Address | ipaddress.IPv6Address, set[str]] = {}
    for name in ("/proc/net/udp", "/proc/net/udp6"):
        for line in (machine.read(name) or "").splitlines()[1:]:
            words = line.split()
            if len(words) < 10:
                continue
            own, _, port = words[1].partition(":")
            if int(port, 16) == UDP_PORT:
                sockets.setdefault(_address(own), set()).add(words[9])
    owners = _owners(machine, set().union(*sockets.values())) if sockets else {}
    found = []
    for address in sorted(sockets, key=lambda one: (one.is_unspecified, one.version, one.packed)):
        pids = set().union(*(owners.get(inode, ()) for inode in sockets[address]))
        processes = tuple(_process(machine, pid) for pid in sorted(pids))
        found.append(Holder(str(address), processes, sharer(machine, str(address))))
    return found


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address of /proc/net: words of 32 bits in the machine's byte order, in hex."""
    raw = bytes.fromhex(text)
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return ipaddress.ip_address(raw)


def _owners(machine: Machine, inodes: set[str]) -> dict[str, set[int]]:
    """Return the PIDs of the visible processes that have each of these sockets open."""
    links = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[str, set[int]] = {}
    for pid in machine.names("/proc"):
        if not pid.isdecimal():
            continue
        for number in machine.names(f"/proc/{pid}/fd"):
            try:
                link = os.readlink(machine.path(f"/proc/{pid}/fd/{number}"))
            except OSError:
                continue  # it has been closed, or belongs to a different user
            if link in links:
                found.setdefault(links[link], set()).add(int(pid))
    return found


def _process(machine: Machine, pid: int) -> Process:
    command = machine.read(f"/proc/{pid}/comm") or "unknown"
    words = (machine.read(f"/proc/{pid}/cmdline") or "").split("\0")
    settings = (machine.read(f"/proc/{pid}/environ") or "").split("\0")
    return Process(pid, command, _role(command, words, settings))


def _role(command: str, words: list[str], settings: list[str]) -> str:
    """Return what a process does with the device, by its command line and environment."""
    if any(one.startswith("LD_PRELOAD=") and VERBS_LIBRARY in one for one in settings):
        return "verbs program"
    for at, word in enumerate(words):
        if word == "nvmf.cli.main" or word.rpartition("/")[2] == "nvmeof":
            return "target" if words[at + 1 : at + 2] == ["target"] else "host"
    return "host" if command == "fio" else ""
