# SPDX-License-Identifier: BSD-3-Clause
"""Log records as text, as JSON, and with the priority prefix that the journal reads.

Hosts choose their names: control characters are escaped, so that no name can end a line.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from nvmf.target.logs.fields import fields_of


def priority(level: int) -> int:
    """Return syslog's number of a level (sd-daemon(3))."""
    for least, number in ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4)):
        if level >= least:
            return number
    return 6 if level >= logging.INFO else 7


def one_line(text: str) -> str:
    """Return text with nonprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def sentence(record: logging.LogRecord) -> str:
    """Return the message of a record."""
    return one_line(record.getMessage())


class TextFormatter(logging.Formatter):
    """LEVEL: message, after the local time if stamped; an exception follows on separate lines."""

    def __init__(self, *, stamped: bool = False) -> None:
        super().__init__()
        self._stamped = stamped

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        text = f"{record.levelname}: {sentence(record)}"
        if self._stamped:
            time = datetime.fromtimestamp(record.created).astimezone()
            text = f"{time.isoformat(timespec='milliseconds')} {text}"
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        return text


class PrefixFormatter(logging.Formatter):
    """<PRIORITY>message, on each line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        text = sentence(record)
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        return "\n".join(f"<{priority(record.levelno)}>{line}" for line in text.splitlines())


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        found = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(
                timespec="milliseconds"
            ),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found)
