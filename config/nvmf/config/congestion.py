# SPDX-License-Identifier: BSD-3-Clause
"""TCP congestion control: whether this kernel has an algorithm and permits this user to use it."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

_LISTS = Path("/proc/sys/net/ipv4")


def check_congestion(name: str) -> None:
    """Raise ValueError if a connection cannot use it; the kernel loads its module if permitted."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise ValueError(
                f"this kernel has no TCP congestion control {name!r}: choose "
                f"{_names('available')}, or load the module tcp_{name}"
            ) from None
        if error.errno == errno.EPERM:
            raise ValueError(
                f"user {os.geteuid()} may not choose the TCP congestion control {name!r}: choose "
                f"{_names('allowed')}, or add it to net.ipv4.tcp_allowed_congestion_control"
            ) from None


def _names(which: str) -> str:
    """Return the names in one of the kernel's lists, as text."""
    try:
        names = sorted((_LISTS / f"tcp_{which}_congestion_control").read_text().split())
    except OSError:
        names = []
    if not names:
        return "a different one"
    return f"{', '.join(names[:-1])} or {names[-1]}" if names[1:] else names[0]
