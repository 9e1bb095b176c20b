# SPDX-License-Identifier: BSD-3-Clause
"""Where the log of a process goes while a target runs in it."""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import Any

from nvmf.target.logs.formats import JsonFormatter, TextFormatter
from nvmf.target.logs.journal import JournalHandler, is_journal
from nvmf.target.logs.limit import LimitedHandler

FORMATS = ("text", "json", "journal")
TELL_EVERY = 60.0
"""Seconds until it is said what was left out, though nothing else is to be said."""


class LogOutput:
    """Lines to stderr, or to the journal where that is what stderr is, for as long as it lasts.

    form: one of FORMATS; None for text, or the journal where stderr is connected to it.
    """

    def __init__(self, form: str | None = None) -> None:
        stream: logging.StreamHandler[Any] = logging.StreamHandler(sys.stderr)
        if form is None:
            form = "journal" if is_journal(2) else "text"
        if form == "journal":
            self._handler = LimitedHandler(JournalHandler(stream))
        else:
            stream.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
            self._handler = LimitedHandler(stream)
        self._before: list[logging.Handler] = []

    def tell(self) -> None:
        """Say what was left out."""
        self._handler.tell()

    def __enter__(self) -> LogOutput:
        root = logging.getLogger()
        # What the command line made for all its commands.
        self._before = [one for one in root.handlers if type(one) is logging.StreamHandler]
        for one in self._before:
            root.removeHandler(one)
        root.addHandler(self._handler)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        root = logging.getLogger()
        root.removeHandler(self._handler)
        self._handler.close()
        for one in self._before:
            root.addHandler(one)
