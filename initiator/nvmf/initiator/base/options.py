# SPDX-License-Identifier: BSD-3-Clause
"""How to connect: options with the names and defaults that the Linux host has."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from nvmf.auth.key import Key, read_key

DeviceKind = Literal["auto", "iwarp", "system"]
RemoteKeys = Literal["command", "buffer"]
SECRETS = ("dhchap_secret", "dhchap_ctrl_secret")
Backend = Literal["client", "kernel"]
CLIENT_ONLY = (
    "io_timeout",
    "admin_timeout",
    "connect_timeout",
    "in_capsule",
    "device",
    "remote_keys",
)
"""Options that the kernel has no equal of."""
KERNEL_ONLY = (
    "write_queues",
    "poll_queues",
    "fast_io_fail_tmo",
    "tos",
    "duplicate_connect",
)
"""Options that the client has no equal of."""
_TRUE, _FALSE = {"1", "true", "yes", "on", ""}, {"0", "false", "no", "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """Options of a connection to a controller.  Times are in seconds."""

    queues: int = min(4, os.cpu_count() or 1)
    """I/O queues to ask for; the controller may grant fewer."""
    queue_depth: int = 128
    """Entries of an I/O queue: 16 to 1024 on Linux, 2 to 65535 here."""
    kato: float = 5.0
    """Keep Alive Timeout; 0 is none."""
    hostnqn: str | None = None
    """None: /etc/nvme/hostnqn, or one made of the machine's identity."""
    hostid: str | None = None
    """A UUID."""
    host_traddr: str | None = None
    """Source address."""
    reconnect_delay: float = 10.0
    """Between attempts to reconnect.  The first attempt is at once where the connection ended by
    itself, and after this delay where a command timed out, or where the last one was short-lived:
    a controller that is slow must not see a write again before it has given up the first."""
    ctrl_loss_tmo: float = 600.0
    """From the loss of the connection until its commands fail; 0 never reconnects, -1 for ever."""
    io_timeout: float = 30.0
    """Of an I/O command; then the connection is torn down and made anew."""
    admin_timeout: float = 60.0
    """Of an admin command; the same follows."""
    connect_timeout: float = 10.0
    """Of the connection of one queue."""
    in_capsule: bool = True
    """Send small writes in the capsule where the controller takes them so."""
    disable_sqflow: bool = False
    """Ask for queues without submission queue flow control."""
    dhchap_secret: Key | str | None = field(default=None, repr=False)
    """This host's key, DHHC-1:HH:BASE64:; a Key once it is here."""
    dhchap_ctrl_secret: Key | str | None = field(default=None, repr=False)
    """The controller's key: it has to authenticate too."""
    dhchap_secret_file: str | None = None
    """A file with this host's key, read at every connection."""
    dhchap_ctrl_secret_file: str | None = None
    """A file with the controller's key."""
    device: DeviceKind = "auto"
    """iwarp: the embedded device; system: libibverbs; auto: system where it reaches the address."""
    remote_keys: RemoteKeys = "command"
    """What controllers may reach: command: the bytes of each command, in its direction, until it
    completes, as with Linux; buffer: every registered buffer, for as long as it is registered."""
    backend: Backend = "client"
    """client: this process moves the data; kernel: Linux's nvme-rdma does, which takes root."""
    write_queues: int = 0
    """Of the kernel alone, as all that follow: I/O queues for writes, beside queues for reads."""
    poll_queues: int = 0
    """I/O queues that are polled, for io_uring's IOPOLL."""
    fast_io_fail_tmo: float | None = None
    """From the loss of the connection until commands fail rather than wait; None: ctrl_loss_tmo."""
    tos: int | None = None
    """Type of service of the connections, 0 to 255."""
    duplicate_connect: bool = False
    """Connect although this host is connected there already."""

    def __post_init__(self) -> None:
        self._check("queues", 1 <= self.queues <= 65535, "1 to 65535")
        self._check("queue_depth", 2 <= self.queue_depth <= 65535, "2 to 65535")
        self._check("kato", 0 <= self.kato <= 4294967, "0 to 4294967 seconds")
        self._check("reconnect_delay", self.reconnect_delay > 0, "more than 0 seconds")
        self._check("ctrl_loss_tmo", self.ctrl_loss_tmo >= -1, "-1 or more seconds")
        for name in ("io_timeout", "admin_timeout", "connect_timeout"):
            self._check(name, getattr(self, name) > 0, "more than 0 seconds")
        self._check_keys()
        source = self.host_traddr or ""
        self._check("host_traddr", source.isprintable() and " " not in source, "an address")
        self._check("device", self.device in ("auto", "iwarp", "system"), "auto, iwarp or system")
        self._check("remote_keys", self.remote_keys in ("command", "buffer"), "command or buffer")
        self._check("backend", self.backend in ("client", "kernel"), "client or kernel")
        if self.backend == "client":
            for one in fields(self):
                if one.name in KERNEL_ONLY and getattr(self, one.name) != one.default:
                    raise ValueError(f"{one.name} is an option of backend kernel only")

    def _check_keys(self) -> None:
        for name in SECRETS:
            value = getattr(self, name)
            if value is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"give {name} or {name}_file, not both")
            if isinstance(value, str):
                try:
                    object.__setattr__(self, name, Key.parse(value))
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
        host, controller = (getattr(self, n) or getattr(self, f"{n}_file") for n in SECRETS)
        if controller and not host:
            raise ValueError("dhchap_ctrl_secret goes with dhchap_secret: hosts authenticate first")

    def keys(self) -> tuple[Key | None, Key | None]:
        """This host's key and the controller's; ValueError where a file has none."""
        found: list[Key | None] = []
        for name in SECRETS:
            path: str | None = getattr(self, f"{name}_file")
            key: Key | None = getattr(self, name)
            found.append(read_key(Path(path))[0] if path is not None else key)
        return found[0], found[1]

    @property
    def authenticates(self) -> bool:
        """Whether a key of this host was given."""
        return self.dhchap_secret is not None or self.dhchap_secret_file is not None

    def _check(self, name: str, good: bool, expected: str) -> None:
        if not good:
            raise ValueError(f"{name} is {expected}, not {getattr(self, name)!r}")

    @property
    def kato_ms(self) -> int:
        """Keep Alive Timeout as the wire has it."""
        return round(self.kato * 1000)

    def with_options(self, changes: Mapping[str, Any]) -> ConnectOptions:
        """These options but for the changes; ValueError names an option that there is not."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise ValueError(f"there is no option {name!r}: there are {', '.join(known)}")
        return replace(self, **changes)


def parse_options(texts: Mapping[str, str]) -> dict[str, Any]:
    """Values of options written as text (the query of a URL); ValueError names the wrong one."""
    hints = get_type_hints(ConnectOptions)
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if name in SECRETS:
            raise ValueError(
                f"option {name}: a URL ends up in logs and process lists: give {name}_file"
            )
        hint = hints.get(name)
        if get_origin(hint) is UnionType:  # float | None
            hint = next(part for part in get_args(hint) if part is not NoneType)
        try:
            if hint is bool:
                values[name] = _boolean(text)
            elif hint is int:
                values[name] = int(text)
            elif hint is float:
                values[name] = number(text)
            else:
                values[name] = text
        except ValueError:
            expected = {bool: "yes or no", int: "a whole number", float: "a number"}[hint or int]
            raise ValueError(f"option {name}: expected {expected}, not {text!r}") from None
    return values


def number(text: str) -> float:
    """A number that can be reckoned with; ValueError for others, and for nan and inf."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise ValueError(text)
