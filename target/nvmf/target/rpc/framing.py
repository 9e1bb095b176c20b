# SPDX-License-Identifier: BSD-3-Clause
"""Splits a stream of bytes into JSON documents, which follow each other without a separator.

Sans-IO.  Only brackets outside strings are counted, so that each byte is examined once, however
slowly it arrives; the parser checks whether the document is valid JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from nvmf.errors import Error
from nvmf.json import JSON

MESSAGE_MOST = 1 << 20
"""Maximum bytes of a message."""
DEPTH_MOST = 32
"""Maximum nesting of brackets."""

_SPACE = b" \t\r\n"
_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


class FramingError(Error):
    """The data are not a sequence of documents; the start of the next document is unknown."""


class Splitter:
    """Collects bytes, and returns complete documents."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._looked_at = 0
        self._depth = 0
        self._string = False

    @property
    def partial(self) -> bool:
        """Whether a document is incomplete."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the documents that are complete now; the caller must consume all of them.

        FramingError if there is other data between them, or a document is too long or too deep.
        """
        self._buffer += data
        while (end := self._end()) is not None:
            document = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._looked_at = 0
            yield document
        if len(self._buffer) > MESSAGE_MOST:
            raise FramingError(f"the message has more than {MESSAGE_MOST} bytes")

    def _end(self) -> int | None:
        """Return the end of the first document; None if it has not arrived yet."""
        buffer = self._buffer
        if not self._depth:
            while buffer and buffer[0] in _SPACE:
                del buffer[: len(buffer) - len(buffer.lstrip(_SPACE))]
            if buffer and buffer[0] not in b"{[":
                raise FramingError("a message must be a JSON object, or an array of objects")
        while self._looked_at < len(buffer):
            match = (_INSIDE if self._string else _OUTSIDE).search(buffer, self._looked_at)
            if match is None:
                self._looked_at = len(buffer)
                return None
            self._looked_at = match.end()
            mark = match[0]
            if mark == b"\\":
                if self._looked_at == len(buffer):  # the escaped character has not arrived yet
                    self._looked_at -= 1
                    return None
                self._looked_at += 1
            elif mark == b'"':
                self._string = not self._string
            elif mark in b"{[":
                self._depth += 1
                if self._depth > DEPTH_MOST:
                    raise FramingError(f"the message has more than {DEPTH_MOST} levels")
            else:
                self._depth -= 1
                if not self._depth:
                    return self._looked_at
        return None


def parse(document: bytes) -> JSON:
    """Parse a document; raise FramingError if it is not JSON, or contains invalid Unicode or a
    number that cannot be written as JSON again.
    """
    try:
        text = document.decode()
        value: JSON = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        if b"\\u" in document:  # an unpaired surrogate is not a character
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise FramingError(f"the message is not JSON: {error}") from None
    return value


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # a response with it would not be JSON
        raise ValueError(f"{text[:32]} is too large for a number")
    return number


def _no_constant(name: str) -> JSON:
    raise ValueError(f"{name} is not a number in JSON")
