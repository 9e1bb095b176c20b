# SPDX-License-Identifier: BSD-3-Clause
"""A line of the log as text, as JSON, and with the prefix by which the journal knows its level.

Hosts choose their names: nothing in a line can end it or speak to a terminal.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from nvmf.target.logs.fields import fields_of


def priority(level: int) -> int:
    """Syslog's number of a level (sd-daemon(3))."""
    for least, number in ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4)):
        if level >= least:
            return number
    return 6 if level >= logging.INFO else 7


def one_line(text: str) -> str:
    """Text without control characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def sentence(record: logging.LogRecord) -> str:
    """The words of a line."""
    return one_line(record.getMessage())


class TextFormatter(logging.Formatter):
    """LEVEL: words; and what was raised, on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """A line."""
        text = f"{record.levelname}: {sentence(record)}"
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        return text


class PrefixFormatter(logging.Formatter):
    """<PRIORITY>words, each line of it."""

    def format(self, record: logging.LogRecord) -> str:
        """A line."""
        text = sentence(record)
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        return "\n".join(f"<{priority(record.levelno)}>{line}" for line in text.splitlines())


class JsonFormatter(logging.Formatter):
    """An object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """A line."""
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
