# SPDX-License-Identifier: BSD-3-Clause
"""How to connect: options with the names and defaults that the Linux host has."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

from nvmf.auth.key import Key, read_key
from nvmf.initiator.base.option import Values, about, described, option

DeviceKind = Literal["auto", "iwarp", "roce", "system"]
_DEVICES = "auto, iwarp, roce or system"
RemoteKeys = Literal["command", "buffer"]
Backend = Literal["client", "kernel"]
_TRUE, _FALSE = {"1", "true", "yes", "on", ""}, {"0", "false", "no", "off"}


@described
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """Options of a connection to a controller.  Times are in seconds.

    The value of an option is the first one given by: the keyword argument, the URL, an object of
    this class, the default. Raises ValueError for a value that is out of range.
    """

    queues: int = option(
        min(4, os.cpu_count() or 1),
        "I/O queues to ask for; the controller may grant fewer.",
        "number of I/O queues",
        flags=("-i", "--nr-io-queues"),
        kernel_default="one per CPU",
        word="nr_io_queues",
        key="nr-io-queues",
    )
    queue_depth: int = option(
        128,
        "Entries of an I/O queue: 16 to 1024 on Linux, 2 to 65535 here.",
        "entries per I/O queue",
        flags=("-Q", "--queue-size"),
        word="queue_size",
        key="queue-size",
    )
    kato: float = option(
        5.0,
        "Keep Alive Timeout; 0: no Keep Alive.",
        "keep-alive timeout in seconds, 0 for none",
        flags=("-k", "--keep-alive-tmo"),
        word="keep_alive_tmo",
        key="keep-alive-tmo",
    )
    hostnqn: str | None = option(
        None,
        "NQN of this host; None: /etc/nvme/hostnqn, or one made from the machine's identity.",
        "NQN of this host",
        flags=("-q", "--hostnqn"),
        metavar="NQN",
        shown_default="/etc/nvme/hostnqn",
        word="hostnqn",
    )
    hostid: str | None = option(
        None,
        "Identifier of this host, a UUID; None: /etc/nvme/hostid, or one made from the NQN.",
        "identifier of this host, a UUID",
        flags=("-I", "--hostid"),
        metavar="UUID",
        shown_default="/etc/nvme/hostid",
        word="hostid",
    )
    host_traddr: str | None = option(
        None,
        "Source address; None: that of the route.",
        "source address",
        flags=("-w", "--host-traddr"),
        metavar="ADDRESS",
        word="host_traddr",
    )
    reconnect_delay: float = option(
        10.0,
        "Time between attempts to reconnect.  The first attempt is immediate if the connection "
        "ended by itself.  It is made after this delay if a command timed out, or if the last "
        "connection was short-lived: a slow controller must have abandoned a write before that is "
        "sent again.",
        "seconds between attempts to reconnect",
        flags=("-c", "--reconnect-delay"),
        word="reconnect_delay",
        key="reconnect-delay",
    )
    ctrl_loss_tmo: float = option(
        600.0,
        "Time from the loss of the connection until commands fail; 0: no reconnection, -1: never.",
        "seconds after which a lost controller is given up, -1 for never",
        flags=("-l", "--ctrl-loss-tmo"),
        word="ctrl_loss_tmo",
        key="ctrl-loss-tmo",
    )
    io_timeout: float = option(
        30.0,
        "Time limit of an I/O command; after it the client disconnects and reconnects.",
        "timeout of an I/O command in seconds",
        flags=("--io-timeout",),
    )
    admin_timeout: float = option(
        60.0,
        "Time limit of an admin command; after it the client disconnects and reconnects.",
        "timeout of an admin command in seconds",
    )
    connect_timeout: float = option(
        10.0,
        "Time limit of the connection of one queue.",
        "timeout of the connection of a queue in seconds",
    )
    in_capsule: bool = option(
        True,
        "Send small writes in the capsule if the controller supports it.",
        "send small writes in the capsule",
    )
    disable_sqflow: bool = option(
        False,
        "Ask for queues without submission queue flow control.",
        "disable SQ flow control",
        flags=("--disable-sqflow",),
        kernel_flags=("-d",),
        word="disable_sqflow",
        key="disable-sqflow",
    )
    dhchap_secret: Key | str | None = option(
        None,
        "This host's key, DHHC-1:HH:BASE64:, or a Key.",
        "this host's key, in the format of gen-dhchap-key",
        flags=("-S", "--dhchap-secret"),
        metavar="KEY",
        word="dhchap_secret",
        key="dhchap-secret",
        secret=True,
    )
    dhchap_ctrl_secret: Key | str | None = option(
        None,
        "The controller's key; if it is given, the controller must authenticate itself too.",
        "the controller's key, to authenticate the controller too, in the format of gen-dhchap-key",
        flags=("-C", "--dhchap-ctrl-secret"),
        metavar="KEY",
        word="dhchap_ctrl_secret",
        key="dhchap-ctrl-secret",
        secret=True,
    )
    dhchap_secret_file: str | None = option(
        None,
        "A file with this host's key, read at every connection.",
        "file with this host's key",
        flags=("--dhchap-secret-file",),
        metavar="FILE",
        word="dhchap_secret",
    )
    dhchap_ctrl_secret_file: str | None = option(
        None,
        "A file with the controller's key.",
        "file with the controller's key",
        flags=("--dhchap-ctrl-secret-file",),
        metavar="FILE",
        word="dhchap_ctrl_secret",
    )
    device: DeviceKind = option(
        "auto",
        "iwarp, roce: embedded devices; system: libibverbs; auto: system if it reaches the "
        "address, or else the embedded device that the discovery record names, or else iwarp.",
        "an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one "
        "reaches the address, else iwarp",
        flags=("--device",),
    )
    remote_keys: RemoteKeys = option(
        "command",
        "Memory that the controller may access.  command: the bytes of each command, in its "
        "direction, until it completes, as with Linux; buffer: every registered buffer, for as "
        "long as it is registered.",
        "memory that the target can access: the data of each command until it completes, or all "
        "I/O buffers, which is faster",
        flags=("--remote-keys",),
    )
    backend: Backend = option(
        "client",
        "client: this process moves the data; kernel: Linux's nvme-rdma does, which requires root.",
        "client, or kernel: Linux's nvme-rdma; the options below are for kernel only",
    )
    write_queues: int = option(
        0,
        "Kernel only: I/O queues for writes, in addition to the queues for reads.",
        "additional queues for writes only",
        flags=("-W", "--nr-write-queues"),
        kernel_default="none",
        word="nr_write_queues",
        key="nr-write-queues",
        kernel_only=True,
    )
    poll_queues: int = option(
        0,
        "Kernel only: I/O queues that are polled, for io_uring's IOPOLL.",
        "polled queues",
        flags=("-P", "--nr-poll-queues"),
        kernel_default="none",
        word="nr_poll_queues",
        key="nr-poll-queues",
        kernel_only=True,
    )
    fast_io_fail_tmo: float | None = option(
        None,
        "Kernel only: time from the loss of the connection until commands fail; None: "
        "ctrl_loss_tmo.",
        "seconds after which I/O of a lost controller fails, -1 for never",
        flags=("-F", "--fast-io-fail-tmo"),
        kernel_flags=("--fast_io_fail_tmo",),
        kernel_default="-1",
        word="fast_io_fail_tmo",
        key="fast-io-fail-tmo",
        kernel_only=True,
    )
    tos: int | None = option(
        None,
        "Kernel only: type of service of the connections, 0 to 255.",
        "type of service of the connections, 0 to 255",
        flags=("-T", "--tos"),
        metavar="TOS",
        word="tos",
        key="tos",
        kernel_only=True,
    )
    duplicate_connect: bool = option(
        False,
        "Kernel only: connect even if this host is already connected to this address.",
        "connect even if this host is already connected",
        flags=("-D", "--duplicate-connect"),
        word="duplicate_connect",
        key="duplicate-connect",
        kernel_only=True,
    )

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
        self._check("device", self.device in get_args(DeviceKind), _DEVICES)
        self._check("remote_keys", self.remote_keys in ("command", "buffer"), "command or buffer")
        self._check("backend", self.backend in ("client", "kernel"), "client or kernel")
        if self.backend == "client":
            for one in fields(self):
                if about(one).kernel_only and getattr(self, one.name) != one.default:
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
            raise ValueError("dhchap_ctrl_secret requires dhchap_secret: hosts authenticate first")

    def keys(self) -> tuple[Key | None, Key | None]:
        """Return this host's and the controller's key; raise ValueError if a file has no key."""
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
        """Keep Alive Timeout in milliseconds, as sent."""
        return round(self.kato * 1000)

    def with_options(self, changes: Values) -> ConnectOptions:
        """Return these options with changes; raise ValueError for an unknown name."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise ValueError(f"there is no option {name!r}: there are {', '.join(known)}")
        return replace(self, **changes)


OPTIONS = {field.name: about(field) for field in fields(ConnectOptions)}
"""The Option of each field, by the field's name."""
SECRETS = tuple(name for name, one in OPTIONS.items() if one.secret)
CLIENT_ONLY = tuple(name for name, one in OPTIONS.items() if not one.word and name != "backend")
"""Options that the kernel does not have."""
KERNEL_ONLY = tuple(name for name, one in OPTIONS.items() if one.kernel_only)
"""Options that the client does not have."""


_HINTS = get_type_hints(ConnectOptions)
_EXPECTED: dict[object, str] = {bool: "yes or no", int: "a whole number", float: "a number"}


def kind_of(name: str) -> object:
    """Return the type of an option: int, float, bool, str, or a Literal with its choices."""
    hint = _HINTS[name]
    if get_origin(hint) in (Union, UnionType):  # float | None; Key | str | None
        return next(part for part in get_args(hint) if part not in (NoneType, Key))
    return hint


def parse_options(texts: Mapping[str, str]) -> Values:
    """Parse options written as text (the query of a URL); raise ValueError for an invalid one."""
    values: Values = {}
    for name, text in texts.items():
        if name in SECRETS:
            raise ValueError(
                f"option {name}: a URL ends up in logs and process lists: give {name}_file"
            )
        hint = kind_of(name) if name in OPTIONS else None
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
            expected = _EXPECTED.get(hint, "text")
            raise ValueError(f"option {name}: expected {expected}, not {text!r}") from None
    return values


def number(text: str) -> float:
    """Return a finite number; raise ValueError for nan, inf, and text that is not a number."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise ValueError(text)
