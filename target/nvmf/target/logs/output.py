# SPDX-License-Identifier: BSD-3-Clause
"""The destination of a process's log while a target runs in it."""

from __future__ import annotations

import logging
import sys
from types import TracebackType

from nvmf.target.logs.formats import JsonFormatter, TextFormatter
from nvmf.target.logs.journal import JournalHandler, is_journal
from nvmf.target.logs.limit import LimitedHandler
from nvmf.target.logs.patient import PatientHandler

FORMATS = ("text", "json", "journal")
TELL_EVERY = 60.0
"""Seconds between reports of suppressed lines, if nothing else is logged."""


class LogOutput:
    """Logs to stderr, or to the journal if stderr is connected to it, until closed.

    Lines of text have the time unless stderr is a terminal or the journal, which has its own.

    form: one of FORMATS; None for text, or the journal if stderr is connected to it.
    """

    def __init__(self, form: str | None = None) -> None:
        stream = PatientHandler(sys.stderr)
        if form is None:
            form = "journal" if is_journal(2) else "text"
        if form == "journal":
            self._handler = LimitedHandler(JournalHandler(stream))
        else:
            stamped = not (is_journal(2) or (sys.stderr is not None and sys.stderr.isatty()))
            text = TextFormatter(stamped=stamped)
            stream.setFormatter(JsonFormatter() if form == "json" else text)
            self._handler = LimitedHandler(stream)
        self._before: list[logging.Handler] = []

    def tell(self) -> None:
        """Log the numbers of suppressed lines."""
        self._handler.tell()

    def __enter__(self) -> LogOutput:
        root = logging.getLogger()
        # The handlers that the command line has installed for all commands.
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
