# SPDX-License-Identifier: BSD-3-Clause
"""Output for people and programs: tables, fields, JSON, sizes, rates, progress."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, TextIO
from uuid import UUID

from nvmf.cli.base import Failures, printable

_SHORTEST = 12
"""Columns of a table that a text keeps at least."""


def plain(value: object) -> Any:
    """Convert to JSON types: bytes to hexadecimal digits, structures to objects."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


def print_json(value: object, file: TextIO | None = None) -> None:
    """Print one JSON document."""
    out = file or sys.stdout
    if out is sys.stdout:
        Failures.as_json = False  # one document only
    json.dump(plain(value), out, indent=2)
    out.write("\n")
    out.flush()


def print_fields(fields: Mapping[str, object], indent: str = "") -> None:
    """Print lines NAME : VALUE; fields without a value (None) are left out."""
    fields = {name: value for name, value in fields.items() if value is not None}
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        text = value.hex() if isinstance(value, bytes) else str(value)
        print(f"{indent}{name:<{width}} : {printable(text)}")


def shortened(text: str, width: int) -> str:
    """Return text of at most width characters: names of hosts differ in their last ones."""
    if len(text) <= width:
        return text
    head = (width - 1) // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def _fitted(header: Sequence[str], texts: list[list[str]], numeric: Sequence[bool]) -> list[int]:
    """Return the widths of columns; shorten the longest texts if a terminal is too narrow."""
    widths = [max(len(row[i]) for row in [list(header), *texts]) for i in range(len(header))]
    if not sys.stdout.isatty():
        return widths
    least = [
        width if number else max(_SHORTEST, len(title))
        for width, number, title in zip(widths, numeric, header, strict=True)
    ]
    over = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
    while over > 0:
        widest = max(range(len(widths)), key=lambda i: widths[i] - least[i])
        room = widths[widest] - least[widest]
        if room <= 0:
            break
        widths[widest] -= min(over, room)
        over -= min(over, room)
    for row in texts:
        row[:] = [shortened(text, width) for text, width in zip(row, widths, strict=True)]
    return widths


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns as wide as their content; numbers are right-aligned.

    On a terminal that is too narrow, the longest texts are shortened in the middle.
    """
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    numeric = [
        bool(rows) and all(isinstance(row[i], int) for row in rows) for i in range(len(header))
    ]
    widths = _fitted(header, texts, numeric)

    def line(cells: Sequence[str]) -> str:
        parts = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ]
        return "  ".join(parts).rstrip()

    print(line(header))
    print("  ".join("-" * width for width in widths))
    for row in texts:
        print(line(row))


def size_text(size: float) -> str:
    """Format a size in bytes: 512 B, 4.00 KiB, 1.50 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    raise AssertionError


def counted(count: int, what: str, many: str = "") -> str:
    """Return a number with its noun: 1 queue, 2 queues; many: an irregular plural."""
    return f"{count} {what if count == 1 else many or f'{what}s'}"


def rate_text(count: float, seconds: float) -> str:
    """Format a rate in bytes per second, in powers of 1000 as usual for networks."""
    rate = count / seconds if seconds > 0 else 0.0
    for unit in ("B/s", "kB/s", "MB/s", "GB/s"):
        if rate < 1000 or unit == "GB/s":
            return f"{rate:.0f} {unit}" if unit == "B/s" else f"{rate:.2f} {unit}"
        rate /= 1000
    raise AssertionError


class Progress:
    """The progress of a transfer, on stderr: one line, updated in place on a terminal."""

    def __init__(self, what: str, total: int | None, *, show: bool) -> None:
        self._what = what
        self._total = total
        self._live = show and sys.stderr.isatty()
        self._show = show
        self._began = time.monotonic()
        self._last = self._began
        self.done = 0

    def add(self, count: int) -> None:
        """Add count bytes."""
        self.done += count
        now = time.monotonic()
        if not self._show or now - self._last < (0.2 if self._live else 5.0):
            return
        self._last = now
        text = f"{self._what}: {size_text(self.done)}"
        if self._total:
            text += f" of {size_text(self._total)} ({100 * self.done // self._total} %)"
        text += f", {rate_text(self.done, now - self._began)}"
        sys.stderr.write(f"\r\x1b[K{text}" if self._live else f"{text}\n")
        sys.stderr.flush()

    def summary(self) -> dict[str, float | int]:
        """Return bytes, seconds and rate so far."""
        seconds = time.monotonic() - self._began
        rate = self.done / seconds if seconds > 0 else 0.0
        return {"bytes": self.done, "seconds": seconds, "bytes_per_second": rate}

    def end(self) -> str:
        """Clear the line; return a message about the whole transfer."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
        seconds = time.monotonic() - self._began
        return (
            f"{self._what}: {self.done} bytes ({size_text(self.done)}) in {seconds:.3f} s, "
            f"{rate_text(self.done, seconds)}"
        )
