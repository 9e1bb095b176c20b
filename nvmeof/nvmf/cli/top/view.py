# SPDX-License-Identifier: BSD-3-Clause
"""Rates as tables: on a terminal limited to the rows that fit, otherwise as plain text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nvmf.cli.base import printable
from nvmf.cli.output import print_table, shortened
from nvmf.cli.target.mirror import leg_text, mirror_text
from nvmf.cli.top.rates import Rate, Rates, ranked


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    cell: Callable[[Rate], str]
    text: bool = False
    """Text, left-aligned and shortened if too long; otherwise a number."""
    wide: bool = False
    """Left out on a terminal of less than _WIDE columns."""


def _name(key: str, title: str, *, text: bool = False, wide: bool = False) -> Column:
    return Column(title, lambda rate: printable(str(rate.names[key])), text, wide)


def number(value: float) -> str:
    """Format a rate of counts, with all digits for small values."""
    return f"{value:.1f}" if 0 < value < 10 else f"{value:.0f}"


def megabytes(value: float) -> str:
    """Format MB/s, in powers of 1000 as usual for networks."""
    return f"{value / 1e6:.2f}" if value < 1e8 else f"{value / 1e6:.0f}"


def _latency(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


_IOPS = Column("IOPS", lambda rate: number(rate.iops))
_BYTES = (
    Column("read MB/s", lambda rate: megabytes(rate.read_bytes)),
    Column("write MB/s", lambda rate: megabytes(rate.write_bytes)),
)
_ERRORS = Column("errors/s", lambda rate: number(rate.errors))
_RARE_ERRORS = Column("errors/s", lambda rate: number(rate.errors), wide=True)
_DEPTH = Column("depth", lambda rate: str(rate.outstanding or 0))

TABLES: dict[str, tuple[Column, ...]] = {
    "reactors": (_name("reactor", "reactor"), _DEPTH, _IOPS, *_BYTES, _ERRORS),
    "namespaces": (
        _name("nqn", "subsystem", text=True),
        _name("nsid", "NSID"),
        Column("reads/s", lambda rate: number(rate.read_iops or 0)),
        Column("writes/s", lambda rate: number(rate.write_iops or 0)),
        *_BYTES,
        Column("read µs", lambda rate: _latency(rate.read_us)),
        Column("write µs", lambda rate: _latency(rate.write_us)),
        Column("99 % <", lambda rate: _latency(rate.p99_us), wide=True),
        _RARE_ERRORS,
    ),
    "hosts": (
        _name("hostnqn", "host", text=True),
        _name("queues", "queues"),
        _DEPTH,
        _IOPS,
        *_BYTES,
        _ERRORS,
    ),
    "queues": (
        _name("hostnqn", "queues of host", text=True),
        _name("peer", "address", text=True),
        _name("cntlid", "controller", wide=True),
        _name("qid", "queue"),
        _name("reactor", "reactor", wide=True),
        _DEPTH,
        _IOPS,
        *_BYTES,
    ),
}
"""Tables in the order of display."""
_WIDE = 110
"""Columns of a terminal that shows all of a table."""
_FRAME = 2
"""Lines of a table in addition to its rows."""


_MIRRORS = 4
"""Lines on mirrors in the live view."""


def _mirrors(rates: Rates) -> list[str]:
    """Return a line for each mirror, with the legs that are not in sync; such mirrors first."""
    every = sorted(rates.mirrors, key=lambda one: one["state"] == "clean")
    lines = []
    for one in every:
        words = [f"mirror, namespace {one['nsid']} of {one['nqn']}: {mirror_text(one)}"]
        words += [leg_text(leg) for leg in one["legs"] if leg["state"] != "in-sync"]
        lines.append(printable("; ".join(words)))
    return lines


def live(rates: Rates, by: str, height: int, header: str, width: int = _WIDE) -> RenderableType:
    """Return tables that fit into this height and width, with the busiest rows of each."""
    shown: list[RenderableType] = [Text(header, style="bold", overflow="ellipsis", no_wrap=True)]
    told = _mirrors(rates)[: min(_MIRRORS, max(height // 6, 1))]
    shown += [Text(line, overflow="ellipsis", no_wrap=True) for line in told]
    left = height - 1 - len(told)
    kinds = list(TABLES)
    for index, kind in enumerate(kinds):
        every = ranked(getattr(rates, kind), by)
        # Lines that one table does not need are available to the following ones.
        room = max(left // (len(kinds) - index) - _FRAME, 1)
        rows = every[:room]
        shown.append(_table(kind, rows, len(every) - len(rows), width))
        left -= len(rows) + _FRAME
    return Group(*shown)


def _table(kind: str, rows: list[Rate], more: int, width: int) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, header_style="bold reverse")
    columns = [column for column in TABLES[kind] if not (column.wide and width < _WIDE)]
    cells = [[column.cell(row) for column in columns] for row in rows]
    for index, column in enumerate(columns):
        if column.text:  # the numbers are shown in full; names share the rest
            numbers = [
                max([len(other.title), *(len(row[at]) for row in cells)])
                for at, other in enumerate(columns)
                if not other.text
            ]
            names = sum(other.text for other in columns)
            room = max((width - sum(numbers) - len(columns) + 1) // names, 8)
            for row in cells:
                row[index] = shortened(row[index], room)
    for column in columns:
        if column.text:
            table.add_column(column.title, overflow="ellipsis", no_wrap=True, ratio=1, min_width=8)
        else:
            table.add_column(column.title, justify="right", no_wrap=True)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    if not rows:
        table.add_row(Text("none", style="dim"))
    table.caption = f"and {more} more" if more else ""
    table.caption_justify = "left"
    return table


def plain(rates: Rates, by: str, header: str) -> None:
    """Print all rates; namespaces and hosts sorted, reactors and queues in their own order."""
    print(header)
    for line in _mirrors(rates):
        print(line)
    for kind, columns in TABLES.items():
        every = ranked(getattr(rates, kind), by)
        print()
        if not every:
            print(f"no {kind}")
            continue
        print_table(
            [column.title for column in columns],
            [[column.cell(rate) for column in columns] for rate in every],
        )
    print(flush=True)
