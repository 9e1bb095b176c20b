# SPDX-License-Identifier: BSD-3-Clause
"""A report of a run: one HTML file that needs no network, and Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from importlib import resources

from nvmf.lab import tidy
from nvmf.lab.compare import METRICS, Ratio, compared, of_systems
from nvmf.lab.drawing import INK, MOST, Mark, Moment, Picture, Point, Table
from nvmf.lab.errors import LabError
from nvmf.lab.machine import sentence
from nvmf.lab.pictures import pictures
from nvmf.lab.store import Results
from nvmf.lab.tidy import Row

_MARGIN = 0.03
_DOUBTS = "Reasons to doubt the figures"


class Report:
    """Everything that a report shows."""

    def __init__(self, results: Results) -> None:
        description = results.description()
        self.title = str(description.get("lab", {}).get("name", "lab"))
        self.note = str(description.get("lab", {}).get("note", ""))
        self.machine = results.machine()
        self.rows = tidy.rows(results)
        self.doubts = tidy.doubts(results, self.rows)
        self.pictures = pictures(self.rows, _series(results), _marks(results), _heat(results))
        self.ratios = _ratios(self.rows)
        self.failures = [
            f"{one['system']}: {one['title']}, round {one['round']}: {one['error']}"
            for one in results.rows("SELECT * FROM round WHERE error IS NOT NULL ORDER BY id")
        ]

    def summary(self) -> list[str]:
        """Return sentences that answer which system is faster, by how much, and how sure."""
        said = []
        for name, ratios in self.ratios.items():
            rates = [one for one in ratios if one.metric == "iops"]
            better = [one for one in rates if one.verdict == "better"]
            worse = [one for one in rates if one.verdict == "worse"]
            base = next(row.system for row in self.rows if row.kind != "null")
            said.append(
                f"{name} against {base}, IOPS: better in {len(better)} of {len(rates)} loads"
                f"{_range(better)}, worse in {len(worse)}{_range(worse)}; in the others no "
                "difference is shown (95 % confidence, differences under 3 % do not count)."
            )
        if not self.ratios:
            names = {row.system for row in self.rows if row.kind != "null"}
            if len(names) == 1:
                said.append(
                    f"{names.pop()} was the only system: nvmeof lab compare compares it with "
                    "another run."
                )
        return said

    def legend(self) -> list[str]:
        """Return sentences that explain the columns of the results."""
        said = [
            "IOPS, MB/s and mean latency are medians of the rounds; percentiles are those of all "
            "I/Os of all rounds."
        ]
        said += [
            f"{name} is fio's null engine, which does no I/O: its rows show fio's own limit."
            for name in dict.fromkeys(row.system for row in self.rows if row.kind == "null")
        ]
        return said

    def results_table(self) -> Table:
        """Return the table of all rows."""
        header = ["system", "load", "IOPS", "MB/s", "mean µs", "p50 µs", "p99 µs", "p99.9 µs"]
        header += ["rounds", "steady state"]
        table = []
        for row in self.rows:
            marks = row.percentiles()
            latencies = [row.median("mean_ns"), marks[50.0], marks[99.0], marks[99.9]]
            table.append(
                [row.system, row.title, _number(row.median("iops"), 1)]
                + [_number(row.median("bytes_per_second"), 1e-6)]
                + [_number(value, 1e-3) for value in latencies]
                + [str(len(row.rounds)), "" if row.kind == "null" else str(row.steady)]
            )
        return header, table

    def html(self) -> str:
        """Return the whole report as one HTML file."""
        style = resources.files("nvmf.lab").joinpath("report.css").read_text()
        parts = [f"<h1>{escape(self.title)}</h1>", f"<p>{escape(sentence(self.machine))}</p>"]
        parts.append(f"<p>{escape(self._versions())}</p>")
        if self.note:
            parts.append(f"<p>{escape(self.note)}</p>")
        parts.append("<h2>Summary</h2>")
        parts += [f"<p class=answer>{escape(said)}</p>" for said in self.summary()]
        for name, ratios in self.ratios.items():
            parts.append(f"<h3>{escape(name)}</h3>{_html_table(ratio_table(ratios))}")
        parts.append(f"<h2>Results</h2>{_html_table(self.results_table())}")
        parts += [f"<p>{escape(said)}</p>" for said in self.legend()]
        parts.append(_html_list(_DOUBTS, self.doubts))
        parts.append(_html_list("Failures", self.failures))
        parts.append("<h2>Pictures</h2>")
        if sum(row.kind != "null" for row in self.rows) > MOST:
            parts.append(
                f"<p>There are at most {MOST} pictures of a kind: those of the first loads.</p>"
            )
        parts += [_html_picture(picture) for picture in self.pictures]
        facts = [[key, str(value)] for key, value in self.machine.items() if value]
        machine = _html_table((["fact", "value"], facts))
        parts.append(f"<details><summary>The machine</summary>{machine}</details>")
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{style}</style></head>\n"
            f"<body><main>{chr(10).join(parts)}</main></body></html>\n"
        )

    def markdown(self) -> str:
        """Return a summary as Markdown."""
        parts = [f"# {self.title}", f"{sentence(self.machine)}; {self._versions()}"]
        parts += [*([self.note] if self.note else []), *self.summary()]
        for name, ratios in self.ratios.items():
            parts += [f"## {name}", _markdown_table(ratio_table(ratios))]
        parts += ["## Results", _markdown_table(self.results_table()), *self.legend()]
        for heading, sentences in ((_DOUBTS, self.doubts), ("Failures", self.failures)):
            if sentences:
                parts += [f"## {heading}", "\n".join(f"- {said}" for said in sentences)]
        return "\n\n".join(parts) + "\n"

    def _versions(self) -> str:
        return f"{self.machine['fio']}, nvmeof {self.machine['nvmeof']}"


def ratio_table(ratios: Sequence[Ratio], confidence: float = 95) -> Table:
    """Return the table of a comparison."""
    header = ["load", "figure", "A", "B", "B / A", f"{confidence:g} % interval", "verdict"]
    table = []
    for one in ratios:
        name = METRICS[one.metric][0]
        scale, unit = (1.0, "") if one.metric == "iops" else (1e-3, " µs")
        a, b = f"{_number(one.a, scale)}{unit}", f"{_number(one.b, scale)}{unit}"
        within = f"{one.low:.3f} to {one.high:.3f}" if one.low else "–"
        table.append([one.title, name, a, b, f"{one.ratio:.3f}", within, one.verdict])
    return header, table


def _ratios(rows: Sequence[Row]) -> dict[str, list[Ratio]]:
    """Return the ratios of each system to the first one; not those of fio alone."""
    _, found = of_systems(rows)
    return {
        name: compared(pairs, ("iops", "p99_ns"), _MARGIN, 0.95) for name, pairs in found.items()
    }


def _series(results: Results) -> dict[tuple[str, str], list[Point]]:
    made: dict[tuple[str, str], list[Point]] = {}
    query = (
        "SELECT system, load, round, ms, series.iops AS rate, max(ms) OVER (PARTITION BY round.id) "
        "AS last FROM series JOIN round ON round.id = round_id ORDER BY round.id, ms"
    )
    least = _least(results)
    for one in results.rows(query):
        point = Point(one["round"], one["ms"] / max(one["last"], least), one["rate"])
        made.setdefault((one["system"], one["load"]), []).append(point)
    return made


def _heat(results: Results) -> dict[tuple[str, str], list[Moment]]:
    made: dict[tuple[str, str], list[Moment]] = {}
    query = (
        "SELECT system, load, round, ms, latency.bins AS bins, max(ms) OVER (PARTITION BY round.id)"
        " AS last FROM latency JOIN round ON round.id = round_id ORDER BY round.id, ms"
    )
    least = _least(results)
    for one in results.rows(query):
        try:
            bins = {int(value): int(count) for value, count in json.loads(one["bins"]).items()}
        except (ValueError, AttributeError):
            raise LabError(
                f"the latencies over time of {one['system']}, {one['load']}, round {one['round']} "
                "are damaged"
            ) from None
        moment = Moment(one["round"], one["ms"] / max(one["last"], least), bins)
        made.setdefault((one["system"], one["load"]), []).append(moment)
    return made


def _least(results: Results) -> float:
    """Return the milliseconds of a measurement: fio logs no points while no I/O ends."""
    return max(float(results.description().get("method", {}).get("runtime", 10)) * 1000, 1.0)


def _marks(results: Results) -> dict[tuple[str, str], list[Mark]]:
    made: dict[tuple[str, str], list[Mark]] = {}
    query = (
        "SELECT system, load, round, event.*, (SELECT max(ms) FROM series WHERE "
        "series.round_id = event.round_id) AS last FROM event JOIN round ON round.id = round_id "
        "ORDER BY round, begin_ms"
    )
    least = _least(results)
    for one in results.rows(query):
        last = max(one["last"] or 0, least)
        end = last if one["end_ms"] is None else one["end_ms"]
        begin, end = (min(ms / last, 1.0) for ms in (one["begin_ms"], end))
        mark = Mark(one["round"], begin, end, str(one["said"]))
        made.setdefault((one["system"], one["load"]), []).append(mark)
    return made


def _range(ratios: Sequence[Ratio]) -> str:
    if not ratios:
        return ""
    low, high = (pick(one.ratio for one in ratios) for pick in (min, max))
    return f" (by a factor of {low:.2f})" if low == high else f" (by {low:.2f} to {high:.2f})"


def _number(value: float | None, scale: float) -> str:
    if value is None:
        return "–"
    scaled = value * scale
    return f"{scaled:,.0f}" if scaled >= 1000 else f"{scaled:.4g}"


def _html_table(table: Table) -> str:
    header = "".join(f"<th>{escape(str(cell))}</th>" for cell in table[0])
    lines = [
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in table[1]
    ]
    return (
        f"<div class=table tabindex=0><table><thead><tr>{header}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _html_list(title: str, said: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(one)}</li>" for one in said)
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>" if said else ""


def _html_picture(picture: Picture) -> str:
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", picture.svg(), count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace(INK, "currentColor")
    label = f'role="img" aria-label="{escape(picture.title)}"'
    return (
        f'<figure id="{picture.name}"><figcaption>{escape(picture.title)}</figcaption>'
        f"<div class=picture>{svg.replace('<svg', f'<svg {label}', 1)}</div>"
        f"<details><summary>Data</summary>{_html_table(picture.table)}</details></figure>"
    )


def _markdown_table(table: Table) -> str:
    lines = [table[0], ["---"] * len(table[0]), *table[1]]
    return "\n".join(f"| {' | '.join(str(c).replace('|', '/') for c in line)} |" for line in lines)
