# SPDX-License-Identifier: BSD-3-Clause
"""Lines for stderr, whose reader may be slow or have stopped: the target does not wait for it.

A line is written at once if the descriptor has room.  Otherwise it waits, with the lines after it,
for a thread that writes them in order.  Lines for which there is no room are counted, and their
number is logged when the reader goes on.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import select
import threading
from collections import deque
from typing import TextIO

WAITING_MOST = 4 << 20
"""Maximum bytes that wait."""
LAST_SECONDS = 2.0
"""Maximum seconds in which waiting lines are written when the handler is closed."""


class PatientHandler(logging.Handler):
    """Writes lines to a stream; a stream without a descriptor is memory, which always has room."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._stream = stream
        self._number = _descriptor(stream)
        self._at_once = None if self._number is None else _at_once(self._number)
        """The descriptor for writes that must not wait; None if all lines wait for the thread."""
        self._changed = threading.Condition()
        """Protects the following."""
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._lost = 0
        self._thread: threading.Thread | None = None
        """It exists while lines wait."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or let it wait."""
        try:
            text = f"{self.format(record)}\n"
        except Exception:  # the caller must not fail
            self.handleError(record)
            return
        if self._number is None:
            if self._stream is not None:
                with contextlib.suppress(OSError, ValueError):  # it was closed
                    self._stream.write(text)
            return
        data = self._encoded(text)
        with self._changed:
            if self._at_once is not None and self._thread is None and not self._waiting:
                data = data[_write_some(self._at_once, data) :]
            if data:
                self._wait(data, self._number)

    def close(self) -> None:
        """Give waiting lines a moment to be written."""
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, LAST_SECONDS)
            if self._at_once not in (None, self._number):
                os.close(self._at_once)
                self._at_once = None
        super().close()

    def _wait(self, data: bytes, number: int) -> None:
        if self._bytes + len(data) > WAITING_MOST:
            self._lost += 1
            return
        self._waiting.append(data)
        self._bytes += len(data)
        if self._thread is None:
            # A daemon: it may wait forever, and the process must be able to end.
            thread = threading.Thread(
                target=self._run, args=(number,), name="nvmf-log", daemon=True
            )
            with contextlib.suppress(RuntimeError):  # there are too many: the next line tries again
                thread.start()
                self._thread = thread

    def _run(self, number: int) -> None:
        while True:
            with self._changed:
                if self._waiting:
                    data = self._waiting.popleft()
                    self._bytes -= len(data)
                elif self._lost:
                    data = self._said()
                else:
                    self._thread = None
                    self._changed.notify_all()
                    return
            _write_all(number, data)

    def _said(self) -> bytes:
        """Return the line with the number of lost lines, and count from zero."""
        words = "%d lines of the log were lost: the reader of stderr did not read"
        record = logging.LogRecord(
            "nvmf.target", logging.WARNING, __file__, 0, words, (self._lost,), None
        )
        self._lost = 0
        return self._encoded(f"{self.format(record)}\n")

    def _encoded(self, text: str) -> bytes:
        encoding = self._stream.encoding if self._stream is not None else "utf-8"
        return text.encode(encoding, "backslashreplace")


def _descriptor(stream: TextIO | None) -> int | None:
    if stream is None:
        return None
    try:
        return stream.fileno()
    except (io.UnsupportedOperation, ValueError):
        return None


def _at_once(number: int) -> int | None:
    """Return a descriptor of the same file for writes that must not wait; None if there is none.

    A terminal may have less room than a line needs, and does not say how much: it is opened again,
    in non-blocking mode, which must not be set on a descriptor that other programs share.
    """
    if not os.isatty(number):
        return number
    try:
        return os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:  # of a different user, for example
        return None


def _write_some(number: int, data: bytes) -> int:
    """Write data if that does not wait; return the number of bytes that need no further attempt.

    A pipe that has room at all takes PIPE_BUF bytes at once.
    """
    room = select.poll()
    room.register(number, select.POLLOUT)
    if len(data) > select.PIPE_BUF or not room.poll(0):
        return 0
    try:
        return os.write(number, data)
    except BlockingIOError:
        return 0
    except OSError:  # there is no reader: nobody can be told
        return len(data)


def _write_all(number: int, data: bytes) -> None:
    """Write data; waits."""
    room = select.poll()
    room.register(number, select.POLLOUT)
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(number, left) :]
        except BlockingIOError:  # another program has set it to non-blocking mode
            room.poll()
        except OSError:
            return
