# SPDX-License-Identifier: BSD-3-Clause
"""The options of one connection in the kernel's words, as written to /dev/nvme-fabrics.

None means "not given": the kernel's default applies (Linux drivers/nvme/host/fabrics.c). Times are
whole seconds, as in the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path

from nvmf.auth.key import Key, read_key
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.base.option import Values
from nvmf.initiator.base.options import CLIENT_ONLY, OPTIONS, SECRETS, ConnectOptions
from nvmf.initiator.base.transport_id import DEFAULT_PORT, TransportId
from nvmf.initiator.kernel.errors import KernelError
from nvmf.spec.nqn import DISCOVERY_NQN, validate_nqn

LIMITS: dict[str, tuple[int, int]] = {
    "nr_io_queues": (1, 65535),
    "nr_write_queues": (1, 65535),
    "nr_poll_queues": (1, 65535),
    "queue_size": (16, 1024),
    "keep_alive_tmo": (0, 4294967),
    "reconnect_delay": (1, 2**31 - 1),
    "ctrl_loss_tmo": (-1, 2**31 - 1),
    "fast_io_fail_tmo": (-1, 2**31 - 1),
    "tos": (0, 255),
}
"""Minimum and maximum that the kernel accepts for each number."""
FLAGS = ("duplicate_connect", "disable_sqflow", "discovery")
"""Options without a value."""
UNASKED = frozenset({"discovery"})
"""Options that this module adds by itself, and omits if the kernel does not have them."""
PAGE = os.sysconf("SC_PAGESIZE")
"""Maximum bytes of one write to the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricsOptions:
    """Options of one connection; the fields are the kernel's words, in its order."""

    transport: str = "rdma"
    traddr: str
    """A numeric address: the kernel does not resolve names."""
    trsvcid: str = DEFAULT_PORT
    nqn: str
    queue_size: int | None = None
    nr_io_queues: int | None = None
    reconnect_delay: int | None = None
    ctrl_loss_tmo: int | None = None
    keep_alive_tmo: int | None = None
    hostnqn: str | None = None
    host_traddr: str | None = None
    hostid: str | None = None
    duplicate_connect: bool = False
    disable_sqflow: bool = False
    nr_write_queues: int | None = None
    nr_poll_queues: int | None = None
    tos: int | None = None
    fast_io_fail_tmo: int | None = None
    discovery: bool = False
    """The subsystem is a discovery subsystem, whatever its NQN."""
    dhchap_secret: Key | None = None
    dhchap_ctrl_secret: Key | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise ValueError(f"{name} is {least} to {most} for the kernel, not {value}")
        if self.dhchap_ctrl_secret is not None and self.dhchap_secret is None:
            raise ValueError("dhchap_ctrl_secret requires dhchap_secret")
        validate_nqn(self.nqn)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str) and ("," in value or not value.isprintable()):
                raise ValueError(f"{field.name}: the kernel does not accept {value!r}")

    @property
    def is_discovery(self) -> bool:
        """Whether this connects a discovery controller, which has no namespaces."""
        return self.discovery or self.nqn == DISCOVERY_NQN

    def given(self) -> Values:
        """Return the options that are not left to the kernel."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: v for name, v in values.items() if v is not None and v is not False}

    def text(self, known: Collection[str] = ()) -> str:
        """Return the line to write.

        known: the kernel's words, if it reports them. Raises KernelError for a requested option
        that is not among them.
        """
        parts = []
        for name, value in self.given().items():
            if known and name not in known:
                if name in UNASKED:
                    continue
                raise KernelError(
                    f"this kernel's NVMe driver ({os.uname().release}) has no option {name}: "
                    f"connect without it, or with a newer kernel"
                    + (" built with CONFIG_NVME_HOST_AUTH" if name in SECRETS else "")
                )
            written = value.text() if isinstance(value, Key) else value
            parts.append(name if name in FLAGS else f"{name}={written}")
        line = ",".join(parts)
        if len(line) >= PAGE:
            raise KernelError(f"the options take {len(line)} bytes; the kernel reads {PAGE - 1}")
        return line

    def __str__(self) -> str:
        """Return the line without the secrets, for logs."""
        return ",".join(
            name if name in FLAGS else f"{name}={value}" for name, value in self.given().items()
        )


def from_client(where: TransportId, options: ConnectOptions, traddr: str) -> FabricsOptions:
    """Return the kernel's options for those of the Python API; traddr is the address of where.

    Raises ValueError for an option that only the client has, and for a time that is not in whole
    seconds.
    """
    defaults = ConnectOptions.__dataclass_fields__
    given = {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if field.name not in CLIENT_ONLY
        or getattr(options, field.name) != defaults[field.name].default
    }
    identity = host_identity(options.hostnqn, options.hostid)
    values = {**kernel_words(given), "hostnqn": identity.nqn, "hostid": str(identity.id)}
    if where.is_discovery:
        values = {name: value for name, value in values.items() if name not in _IO_QUEUES}
    return FabricsOptions(
        traddr=traddr,
        trsvcid=where.trsvcid,
        nqn=where.subnqn,
        discovery=where.is_discovery,
        **values,
    )


def kernel_words(options: Values) -> Values:
    """Return options of ConnectOptions by the kernel's names, with keys read from their files.

    The kernel's names are accepted too. Raises ValueError for options that it does not have.
    """
    values: Values = {}
    for name, value in options.items():
        if name in CLIENT_ONLY:
            raise ValueError(f"{name} is an option of the client, which the kernel does not have")
        if value is None or name == "backend":
            continue
        word = OPTIONS[name].word if name in OPTIONS else name
        if word in SECRETS:
            if word in values:
                raise ValueError(f"give {word} or {word}_file, not both")
            value = _key(name, value)
        values[word] = _seconds(name, value) if isinstance(value, float) else value
    return {
        word: value
        for word, value in values.items()
        if value or word not in ("nr_write_queues", "nr_poll_queues")
    }


def _key(name: str, value: str | Key) -> Key:
    if isinstance(value, Key):
        return value
    if name in SECRETS:
        try:
            return Key.parse(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return read_key(Path(value))[0]


_IO_QUEUES = ("nr_io_queues", "nr_write_queues", "nr_poll_queues", "queue_size")


def _seconds(name: str, value: float) -> int:
    if value != int(value):
        raise ValueError(f"{name} must be whole seconds for the kernel, not {value:g}")
    return int(value)
