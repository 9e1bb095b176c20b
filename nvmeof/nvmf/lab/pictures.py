# SPDX-License-Identifier: BSD-3-Clause
"""The pictures of a report, each with the table of its data; drawn by matplotlib."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from nvmf.config.units import format_size
from nvmf.lab.drawing import (
    COLOURS,
    MARKS,
    MOST,
    PLAIN,
    STYLE,
    Mark,
    Moment,
    Picture,
    Point,
    plain_log,
)
from nvmf.lab.heat import heat_maps
from nvmf.lab.tidy import Row
from nvmf.lab.words import figure_text, file_name, short_text


def pictures(
    rows: Sequence[Row],
    series: Mapping[tuple[str, str], list[Point]],
    marks: Mapping[tuple[str, str], list[Mark]] | None = None,
    heat: Mapping[tuple[str, str], list[Moment]] | None = None,
) -> list[Picture]:
    """Return all pictures that the rows allow.

    series: (system, load) to the points of its time series. marks: the same to its faults.  heat:
    the same to its latencies over time.
    """
    systems = list(dict.fromkeys(row.system for row in rows))
    colour = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(systems)}
    measured = [row for row in rows if row.kind != "null"]
    made: list[Picture] = []
    with mpl.rc_context(STYLE):
        for draw in (_by_depth, _by_size, _by_jobs):
            made += islice(draw(measured, colour), MOST)
        if measured:
            made.append(_processors(measured, colour))
        made += islice(_latencies(measured, colour), MOST)
        made += islice(_over_time(measured, colour, series, marks or {}), MOST)
        made += islice(heat_maps(measured, heat or {}, marks or {}), MOST)
    return made


def _groups(
    rows: Sequence[Row], axis: str
) -> Iterator[tuple[str, dict[str, list[Row]], Callable[[Row], int]]]:
    """Yield (title, rows by system, value of the axis) for loads that differ in the axis only."""
    fields = ("workload", "bs", "iodepth", "numjobs", "rwmixread")
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if getattr(row, axis) is not None:
            key = tuple(getattr(row, name) for name in fields if name != axis)
            groups.setdefault(key, []).append(row)
    for group in groups.values():
        if len({getattr(row, axis) for row in group}) < 2:
            continue
        one = group[0]
        words = [one.workload]
        if axis != "bs" and one.bs:
            words.append(format_size(one.bs))
        if axis != "iodepth":
            words.append(f"depth {one.iodepth}")
        if one.rwmixread is not None:
            words.append(f"{one.rwmixread} % reads")
        if axis != "numjobs" and one.numjobs != 1:
            words.append(f"{one.numjobs} jobs")
        systems: dict[str, list[Row]] = {}
        for row in sorted(group, key=lambda row: int(getattr(row, axis))):
            systems.setdefault(row.system, []).append(row)
        yield ", ".join(words), systems, lambda row: int(getattr(row, axis))


def _lines(
    axes: Axes,
    systems: Mapping[str, list[Row]],
    x: Callable[[Row], int],
    column: str,
    scale: float,
    colour: Mapping[str, str],
    dashed: bool = False,
) -> None:
    """Draw medians over rounds, with a bar from the lowest to the highest round."""
    for n, (name, rows) in enumerate(systems.items()):
        points = [(x(row), [v * scale for v in row.values(column)]) for row in rows]
        points = [(at, values) for at, values in points if values]
        if not points:
            continue
        middle = [statistics.median(values) for _, values in points]
        spread = [
            [m - min(values) for m, (_, values) in zip(middle, points, strict=True)],
            [max(values) - m for m, (_, values) in zip(middle, points, strict=True)],
        ]
        axes.errorbar(
            [at for at, _ in points],
            middle,
            yerr=spread,
            label=f"{name}{' p99' if dashed else ''}",
            color=colour[name],
            marker=MARKS[n % len(MARKS)],
            markersize=4,
            linestyle="--" if dashed else "-",
            linewidth=1.4,
            capsize=2,
        )


def _ticks(axes: Axes, values: set[int], words: Callable[[int], str]) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(values)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: words(round(value))))


def _pair(width: float = 9.0) -> tuple[Figure, Axes, Axes]:
    figure = Figure(figsize=(width, 3.1), layout="constrained")
    left, right = figure.subplots(1, 2)
    return figure, left, right


def _two(
    rows: Sequence[Row], colour: Mapping[str, str], axis: str, kind: str, what: str, column: str
) -> Iterator[Picture]:
    """Yield pictures with a rate on the left and p50 and p99 on the right."""
    unit, scale = ("IOPS", 1.0) if column == "iops" else ("MB/s", 1e-6)
    for title, systems, x in _groups(rows, axis):
        figure, left, right = _pair()
        _lines(left, systems, x, column, scale, colour)
        _lines(right, systems, x, "p50_ns", 1e-3, colour)
        _lines(right, systems, x, "p99_ns", 1e-3, colour, dashed=True)
        values = {x(row) for group in systems.values() for row in group}
        for axes in (left, right):
            _ticks(axes, values, short_text if axis == "bs" else str)
            axes.set_xlabel(what)
        left.set_ylim(bottom=0)
        left.set_ylabel(f"{unit}: median, and range of the rounds")
        left.yaxis.set_major_formatter(PLAIN)
        right.set_yscale("log")
        plain_log(right.yaxis)
        right.set_ylabel("latency, µs: p50, and p99 dashed")
        left.legend(fontsize=8)
        header = ["system", what, unit, "p50 µs", "p99 µs", "rounds"]
        table = [
            [name, x(row), figure_text(row.median(column), scale)]
            + [figure_text(row.median(c), 1e-3) for c in ("p50_ns", "p99_ns")]
            + [len(row.rounds)]
            for name, group in systems.items()
            for row in group
        ]
        yield Picture(file_name(f"{kind} {title}"), f"{title}: by {what}", figure, (header, table))


def _by_depth(rows: Sequence[Row], colour: Mapping[str, str]) -> Iterator[Picture]:
    return _two(rows, colour, "iodepth", "depth", "depth", "iops")


def _by_size(rows: Sequence[Row], colour: Mapping[str, str]) -> Iterator[Picture]:
    return _two(rows, colour, "bs", "size", "block size", "bytes_per_second")


def _by_jobs(rows: Sequence[Row], colour: Mapping[str, str]) -> Iterator[Picture]:
    return _two(rows, colour, "numjobs", "jobs", "jobs", "iops")


def _processors(rows: Sequence[Row], colour: Mapping[str, str]) -> Picture:
    """Return the picture of processor time for each I/O, fio's and the system's."""
    loads = list(dict.fromkeys(row.title for row in rows))[:MOST]
    figure = Figure(figsize=(9.0, 1.2 + 0.34 * len(loads)), layout="constrained")
    axes = figure.subplots()
    systems = list(dict.fromkeys(row.system for row in rows))
    table: list[list[object]] = []
    height = 0.8 / len(systems)
    for n, name in enumerate(systems):
        for row in (row for row in rows if row.system == name and row.title in loads):
            host = row.median("host_cpu_us_per_io") or 0.0
            target = row.median("target_cpu_us_per_io")
            at = loads.index(row.title) + n * height
            axes.barh(at, host, height * 0.9, color=colour[name], label=f"{name}: fio")
            if target is not None:
                axes.barh(at, target, height * 0.9, host, color=colour[name], alpha=0.45)
            table.append([name, row.title, figure_text(host, 1), figure_text(target, 1)])
    axes.set_yticks([n + 0.4 - height / 2 for n in range(len(loads))], loads)
    axes.invert_yaxis()
    axes.set_xlabel("µs of processor time for each I/O: fio, and the target in a lighter colour")
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    axes.legend(unique.values(), unique.keys(), fontsize=8)
    header = ["system", "load", "fio µs", "target µs"]
    return Picture("processors", "Processor time for each I/O", figure, (header, table))


def _loads(rows: Sequence[Row]) -> dict[str, list[Row]]:
    made: dict[str, list[Row]] = {}
    for row in rows:
        made.setdefault(row.title, []).append(row)
    return made


def _latencies(rows: Sequence[Row], colour: Mapping[str, str]) -> Iterator[Picture]:
    """Yield the distribution of latency for each load, to five nines."""
    for title, group in _loads(rows).items():
        figure = Figure(figsize=(9.0, 3.1), layout="constrained")
        axes = figure.subplots()
        table: list[list[object]] = []
        for row in group:
            total, seen = sum(row.bins.values()), 0
            x, y = [], []
            for value, count in row.bins.items():
                seen += count
                x.append(value / 1000)
                y.append(-math.log10(max(1 - seen / total, 0.5 / total)))
            axes.step(x, y, where="post", color=colour[row.system], label=row.system)
            table.append([row.system, *(figure_text(v, 1e-3) for v in row.percentiles().values())])
        axes.set_xscale("log")
        plain_log(axes.xaxis)
        marks = {0.0: "0", 0.30103: "50", 1.0: "90", 2.0: "99", 3.0: "99.9", 4.0: "99.99"}
        marks[5.0] = "99.999"
        axes.set_ylim(0, 5.3)
        axes.set_yticks(list(marks), list(marks.values()))
        axes.set_xlabel("latency, µs")
        axes.set_ylabel("% of the I/Os, at most")
        axes.legend(fontsize=8)
        header = ["system", *(f"p{p:g} µs" for p in group[0].percentiles())]
        yield Picture(file_name(f"latency {title}"), f"{title}: latency", figure, (header, table))


def _over_time(
    rows: Sequence[Row],
    colour: Mapping[str, str],
    series: Mapping[tuple[str, str], list[Point]],
    marks: Mapping[tuple[str, str], list[Mark]],
) -> Iterator[Picture]:
    """Yield IOPS over the rounds for each load, with the window of steady state and the faults."""
    for title, group in _loads(rows).items():
        figure = Figure(figsize=(9.0, 2.8), layout="constrained")
        axes = figure.subplots()
        table: list[list[object]] = []
        for row in group:
            points = series.get((row.system, row.load), [])
            for number in sorted({point.round for point in points}):
                inside = [point for point in points if point.round == number]
                axes.plot(
                    [number - 0.5 + point.part for point in inside],
                    [point.iops for point in inside],
                    color=colour[row.system],
                    alpha=0.35,
                    linewidth=0.8,
                )
            numbers = [int(one["round"]) for one in row.rounds]
            axes.plot(numbers, row.values("iops"), "o-", color=colour[row.system], markersize=4)
            axes.lines[-1].set_label(f"{row.system}: steady state {row.steady}")
            if row.steady.window is not None and row.steady.reached:
                first, last = row.steady.window
                axes.axvspan(first - 0.5, last + 0.5, color=colour[row.system], alpha=0.07)
            _faults(axes, marks.get((row.system, row.load), []), colour[row.system])
            table += [
                [
                    row.system,
                    one["round"],
                    figure_text(one["iops"], 1),
                    figure_text(one["mean_ns"], 1e-3),
                ]
                for one in row.rounds
            ]
        axes.set_ylim(bottom=0)
        axes.set_xlabel("round")
        axes.set_ylabel("IOPS")
        axes.yaxis.set_major_formatter(PLAIN)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(fontsize=8)
        header = ["system", "round", "IOPS", "mean µs"]
        yield Picture(file_name(f"time {title}"), f"{title}: over time", figure, (header, table))


def _faults(axes: Axes, marks: Sequence[Mark], colour: str) -> None:
    """Mark the times of faults on purpose, with one line of the legend for each kind."""
    said: set[str] = set()
    for mark in marks:
        label = None if mark.said in said else f"fault: {mark.said}"
        said.add(mark.said)
        first, last = mark.round - 0.5 + mark.begin, mark.round - 0.5 + mark.end
        axes.axvspan(first, last, color=colour, alpha=0.18, hatch="//", linewidth=0, label=label)
