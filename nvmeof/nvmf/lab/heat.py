# SPDX-License-Identifier: BSD-3-Clause
"""Heat maps of latency over time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nvmf.lab.drawing import COLOURS, Mark, Moment, Picture, plain_log
from nvmf.lab.tidy import Row
from nvmf.lab.words import figure_text, file_name

_COLUMNS_MOST = 240
"""Columns of a heat map, of all rounds together."""
_CELLS = 50
"""Cells of a column."""


def heat_maps(
    rows: Sequence[Row],
    heat: Mapping[tuple[str, str], list[Moment]],
    marks: Mapping[tuple[str, str], list[Mark]],
) -> Iterator[Picture]:
    """Yield heat maps of latency over time; without fio's logs of it, a column is a round."""
    for row in rows:
        parts = heat.get((row.system, row.load)) or _whole_rounds(row)
        edges, cells = _cells(parts)
        if not cells:
            continue
        figure = Figure(figsize=(9.0, 2.8), layout="constrained")
        axes = figure.subplots()
        low, high = _range(parts)
        lines = [10 ** (low + (high - low) * n / _CELLS) / 1000 for n in range(_CELLS + 1)]
        shown = [[math.log10(cell) if cell else math.nan for cell in line] for line in cells]
        mesh = axes.pcolormesh(edges, lines, shown, cmap="viridis", rasterized=True)
        for mark in marks.get((row.system, row.load), []):
            for at in (mark.begin, mark.end):
                axes.axvline(mark.round - 0.5 + at, color=COLOURS[1], linewidth=0.8, linestyle=":")
        axes.set_yscale("log")
        plain_log(axes.yaxis)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("round")
        axes.set_ylabel("latency, µs")
        figure.colorbar(mesh, ax=axes, label="part of the I/Os, log10")
        header = ["round", "p50 µs", "p99 µs", "p99.9 µs"]
        columns = ("p50_ns", "p99_ns", "p99_9_ns")
        table = [
            [one["round"], *(figure_text(one[c], 1e-3) for c in columns)] for one in row.rounds
        ]
        title = f"{row.system}: {row.title}"
        yield Picture(
            file_name(f"heat {title}"), f"{title}: latency over time", figure, (header, table)
        )


def _whole_rounds(row: Row) -> list[Moment]:
    return [
        Moment(int(one["round"]), 1.0, {int(k): int(v) for k, v in json.loads(one["bins"]).items()})
        for one in row.rounds
    ]


def _range(parts: Sequence[Moment]) -> tuple[float, float]:
    """Return the logarithms of the lowest and the highest latency."""
    values = [value for part in parts for value in part.bins] or [1]
    return math.log10(max(min(values), 1)), math.log10(max(*values, 1)) + 0.01


def _cells(parts: Sequence[Moment]) -> tuple[list[float], list[list[float]]]:
    """Return the edges of the columns, and lines of parts of the I/Os of each column."""
    numbers = sorted({part.round for part in parts})
    if not numbers:
        return [], []
    most = max(1, _COLUMNS_MOST // (numbers[-1] - numbers[0] + 1))
    fine = min(most, max(sum(part.round == number for part in parts) for number in numbers))
    first, count = numbers[0] - 0.5, (numbers[-1] - numbers[0] + 1) * fine
    edges = [first + n / fine for n in range(count + 1)]
    low, high = _range(parts)
    counts = [[0] * count for _ in range(_CELLS)]
    for part in parts:
        within = min(int(max(part.part - 1e-6, 0) * fine), fine - 1)
        column = (part.round - numbers[0]) * fine + within
        for value, number in part.bins.items():
            line = int((math.log10(max(value, 1)) - low) / (high - low) * _CELLS)
            counts[min(line, _CELLS - 1)][column] += number
    totals = [sum(line[column] for line in counts) or 1 for column in range(count)]
    cells = [[n / total for n, total in zip(line, totals, strict=True)] for line in counts]
    return edges, cells
