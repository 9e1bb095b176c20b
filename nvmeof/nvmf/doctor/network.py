# SPDX-License-Identifier: BSD-3-Clause
"""Addresses, ports, MTU, firewall, names, and the clock."""

from __future__ import annotations

import errno
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from nvmf.config.base import endpoint
from nvmf.config.models import Config, PortConfig
from nvmf.doctor.machine import Finding, Level, Machine
from nvmf.doctor.roce import UDP_PORT

_EVERYWHERE = {"0.0.0.0", "::"}
_LOW_MTU = 1500
_DAY = 86400
_ROCE_PAYLOAD = 4096
_ROCE_MTU = 4200
"""Ethernet MTU that an RDMA MTU of 4096 bytes requires, because of the headers."""


def _where(port: PortConfig) -> str:
    return endpoint(port.traddr, port.trsvcid)


def addresses(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check that each port's address is this machine's, and that its number is free.

    Ports of the embedded RoCEv2 device are roce.addresses().
    """
    for port in config.ports if config else ():
        if port.device == "roce":
            continue
        family = socket.AF_INET6 if ":" in port.traddr else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind((port.traddr, port.trsvcid))
                trial.listen()
        except OSError as error:
            yield _not_ours(port, error)
        else:
            yield Finding("addresses", Level.OK, f"port {_where(port)} is free")


def _not_ours(port: PortConfig, error: OSError) -> Finding:
    where = _where(port)
    match error.errno:
        case errno.EADDRINUSE:
            text = f"port {where} is in use"
            remedy = f"See what uses it (a running target?): ss -ltnp 'sport = :{port.trsvcid}'"
            return Finding("addresses", Level.WARNING, text, remedy)
        case errno.EADDRNOTAVAIL:
            text = f"{port.traddr} is not an address of this machine"
            if port.hotplug:
                return Finding(
                    "addresses", Level.NOTE, f"{text}; the target waits for it (hotplug)"
                )
            return Finding("addresses", Level.PROBLEM, text, "See ip address; 0.0.0.0 means all.")
        case errno.EACCES:
            text = f"port {where} is below 1024: only root may use it"
            return Finding("addresses", Level.PROBLEM, text, "NVMe-oF's standard port is 4420.")
        case _:
            text = f"port {where} cannot be opened: {error.strerror or error}"
            return Finding("addresses", Level.PROBLEM, text, "See ip address and ip route.")


def mtu(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check the MTU: a small one reduces throughput and the payload of RoCE packets."""
    seen = set()
    for port in config.ports if config else ():
        interface = machine.interface_of(port.traddr)
        if interface is None or interface.name == "lo" or interface.name in seen:
            continue
        seen.add(interface.name)
        text = f"{interface.name} has an MTU of {interface.mtu} bytes"
        if not interface.up:
            remedy = f"ip link set {interface.name} up"
            yield Finding("mtu", Level.PROBLEM, f"{interface.name} is down", remedy)
        elif interface.mtu <= _LOW_MTU:
            remedy = (
                f"ip link set {interface.name} mtu 9000, on the peers and the switches too: fewer"
                f" frames, and RoCE's {_ROCE_PAYLOAD} byte payload needs {_ROCE_MTU}."
            )
            yield Finding("mtu", Level.NOTE, text, remedy)
        else:
            yield Finding("mtu", Level.OK, text)


def firewall(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check whether the firewall drops input by default and no rule names the target's ports."""
    if config is None:
        return
    if not machine.root_user:
        yield Finding("firewall", Level.NOTE, "only root can read the firewall's rules")
        return
    rules = machine.output("nft", "list", "ruleset")
    if rules is None:
        rules = machine.output("iptables", "-S", "INPUT")
    if rules is None:
        yield Finding("firewall", Level.NOTE, "neither nft nor iptables lists the rules")
        return
    closed = re.search(r"hook input [^}]*policy drop|^-P INPUT DROP", rules, re.MULTILINE)
    numbers = {
        ("udp", UDP_PORT) if port.device == "roce" else ("tcp", port.trsvcid)
        for port in config.ports
        if port.traddr not in ("127.0.0.1", "::1")
    }
    missing = sorted(one for one in numbers if not re.search(rf"(?<!\d){one[1]}(?!\d)", rules))
    if closed and missing:
        listed = ", ".join(f"{number} ({protocol.upper()})" for protocol, number in missing)
        also = "" if ("udp", UDP_PORT) in numbers else f" RoCEv2 adapters use udp dport {UDP_PORT}."
        yield Finding(
            "firewall",
            Level.WARNING,
            f"the firewall drops input by default, and no rule names port {listed}",
            "".join(
                f"nft add rule inet filter input {protocol} dport {number} accept. "
                for protocol, number in missing
            ).strip()
            + also,
        )
    else:
        yield Finding("firewall", Level.OK, "the firewall does not block the ports")


def names(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check that the machine's own name and those in the files of /etc/nvme can be resolved."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
        yield Finding("names", Level.OK, f"the machine's own name, {name}, has an address")
    except OSError as error:
        yield Finding(
            "names",
            Level.NOTE,
            f"the machine's own name, {name}, has no address: {error.strerror or error}",
            "If hosts reach this machine by name, add it to /etc/hosts.",
        )
    yield from _configured(machine)


def _configured(machine: Machine) -> Iterator[Finding]:
    """Check the names of targets in the files of /etc/nvme."""
    from nvmf.initiator.hostfiles import HostFileError, configured

    try:
        endpoints = configured(folder=machine.path("/etc/nvme"))
    except HostFileError as error:
        for problem in error.problems:
            yield Finding("names", Level.WARNING, problem, "Correct the file.")
        return
    for address in sorted({e.traddr for e in endpoints if e.traddr}):
        try:
            socket.getaddrinfo(address, None)
        except OSError as error:
            yield Finding(
                "names",
                Level.WARNING,
                f"{address}, named in the files of /etc/nvme, has no address: "
                f"{error.strerror or error}",
                "Correct the name, or the resolver's configuration.",
            )


def clock(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check the clock, used for logs, the Timestamp feature and the discovery generation."""
    said = machine.output("timedatectl", "show", "-p", "NTPSynchronized", "--value")
    synchronized = (said or "").strip()
    if synchronized == "yes" or machine.path("/run/systemd/timesync/synchronized").exists():
        yield Finding("clock", Level.OK, "the clock is synchronized")
    elif synchronized == "no":
        yield Finding(
            "clock",
            Level.WARNING,
            "the clock is not synchronized: times in logs of hosts and target do not match",
            "timedatectl set-ntp true, or install chrony.",
        )
    else:
        yield Finding("clock", Level.NOTE, "cannot determine whether the clock is synchronized")
    if time.time() < Path(__file__).stat().st_mtime - _DAY:
        yield Finding(
            "clock",
            Level.PROBLEM,
            "the clock is earlier than the date of this program's files",
            "Set it (timedatectl set-time) or synchronize it.",
        )
