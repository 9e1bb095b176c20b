# SPDX-License-Identifier: BSD-3-Clause
"""JSON documents out of a stream of bytes, in which they follow each other without a separator.

Sans-IO.  Brackets are counted outside strings, so that each byte is looked at once however slowly
it arrives; whether the document is JSON is the parser's to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MESSAGE_MOST = 1 << 20
"""Bytes of a message."""
DEPTH_MOST = 32
"""Brackets within brackets."""

_SPACE = b" \t\r\n"
_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


class FramingError(Exception):
    """What came is not a sequence of documents; where the next one starts is not known."""


class Splitter:
    """Collects bytes and gives documents."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._looked_at = 0
        self._depth = 0
        self._string = False

    @property
    def partial(self) -> bool:
        """Whether a document has begun and not ended."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The documents that are complete now, all of which are to be taken.

        FramingError where something else stands between them, or one is too long or too deep.
        """
        self._buffer += data
        while (end := self._end()) is not None:
            document = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._looked_at = 0
            yield document
        if len(self._buffer) > MESSAGE_MOST:
            raise FramingError(f"a message has at most {MESSAGE_MOST} bytes")

    def _end(self) -> int | None:
        """Where the first document ends; None where that has not come yet."""
        buffer = self._buffer
        if not self._depth:
            while buffer and buffer[0] in _SPACE:
                del buffer[: len(buffer) - len(buffer.lstrip(_SPACE))]
            if buffer and buffer[0] not in b"{[":
                raise FramingError("a message is a JSON object, or an array of them")
        while self._looked_at < len(buffer):
            match = (_INSIDE if self._string else _OUTSIDE).search(buffer, self._looked_at)
            if match is None:
                self._looked_at = len(buffer)
                return None
            self._looked_at = match.end()
            mark = match[0]
            if mark == b"\\":
                if self._looked_at == len(buffer):  # what it escapes has not come yet
                    self._looked_at -= 1
                    return None
                self._looked_at += 1
            elif mark == b'"':
                self._string = not self._string
            elif mark in b"{[":
                self._depth += 1
                if self._depth > DEPTH_MOST:
                    raise FramingError(f"a message has at most {DEPTH_MOST} levels")
            else:
                self._depth -= 1
                if not self._depth:
                    return self._looked_at
        return None


def parse(document: bytes) -> Any:
    """A document; FramingError where it is not JSON, or not text that could be written again."""
    try:
        value = json.loads(document.decode(), parse_constant=_no_constant)
        if b"\\u" in document:  # half of a surrogate pair is not a character
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise FramingError(f"it is not JSON: {error}") from None
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")
