# SPDX-License-Identifier: BSD-3-Clause
"""Log records with fields to systemd's journal, in its native protocol (datagrams of fields)."""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections.abc import Mapping

from nvmf.target.logs.fields import fields_of
from nvmf.target.logs.formats import PrefixFormatter, priority

SOCKET = "/run/systemd/journal/socket"
IDENTIFIER = "nvmeof-target"


def is_journal(descriptor: int, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a descriptor is the stream that connects a service to the journal."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return environment.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


class JournalHandler(logging.Handler):
    """Sends records to the journal, or if that fails, to a stream with the priority as prefix."""

    def __init__(self, otherwise: logging.Handler, path: str = SOCKET) -> None:
        super().__init__()
        self._otherwise = otherwise
        otherwise.setFormatter(PrefixFormatter())
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Send one datagram."""
        try:
            self._socket.sendto(datagram(record), self._path)
        except OSError:  # no journal, journal busy, or record too long
            self._otherwise.handle(record)

    def close(self) -> None:
        """Close the socket and the stream."""
        self._socket.close()
        self._otherwise.close()
        super().close()


def datagram(record: logging.LogRecord) -> bytes:
    """Return the fields of a record in the journal's format."""
    message = record.getMessage()
    if record.exc_info:
        message += "\n" + logging.Formatter().formatException(record.exc_info)
    fields = {
        "MESSAGE": message,
        "PRIORITY": priority(record.levelno),
        "SYSLOG_IDENTIFIER": IDENTIFIER,
        "SYSLOG_PID": os.getpid(),
        "LOGGER": record.name,
        **{f"NVMEOF_{name.upper()}": value for name, value in fields_of(record).items()},
    }
    return b"".join(_field(name.encode(), str(value)) for name, value in fields.items())


def _field(name: bytes, text: str) -> bytes:
    """Return NAME=VALUE, or the form with a length if the value has several lines."""
    value = text.encode(errors="backslashreplace")
    if b"\n" in value:
        return name + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"
    return name + b"=" + value + b"\n"
