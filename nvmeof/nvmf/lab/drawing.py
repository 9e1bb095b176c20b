# SPDX-License-Identifier: BSD-3-Clause
"""A picture of a report with the table of its data, the style of all pictures, and their data
types.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

INK, PAPER = "#2b2b2b", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b", "#999999")
"""Colours that people with colour blindness can tell apart (Okabe and Ito)."""
MARKS = "osD^vPX*"
MOST = 24
"""Pictures of one kind, so that a report stays small."""
STYLE: dict[RcKeyType, object] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "legend.frameon": False,
}

PLAIN = FuncFormatter(lambda value, _: f"{value:,.10g}")
"""Numbers without exponents."""
_SOME = FuncFormatter(lambda value, _: f"{value:,.10g}" if f"{value:e}"[0] in "25" else "")
"""Such numbers of 2 and 5 times powers of ten."""


def plain_log(axis: Axis) -> None:
    """Label a logarithmic axis, after its data was drawn, with numbers rather than powers of ten,
    whose typesetting takes a large part of a report's time."""
    low, high = axis.get_view_interval()
    axis.set_major_formatter(PLAIN)
    axis.set_minor_formatter(_SOME if low > 0 and high < 100 * low else NullFormatter())


Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Header and rows."""


@dataclass(frozen=True)
class Picture:
    """A picture and its data."""

    name: str
    """Name of its files."""
    title: str
    figure: Figure
    table: Table

    def svg(self) -> str:
        """Return the picture as SVG, the same for the same data."""
        out = io.StringIO()
        with mpl.rc_context({**STYLE, "svg.hashsalt": self.name}):
            self.figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
        text = out.getvalue()
        return text[text.index("<svg") :]

    def png(self) -> bytes:
        """Return the picture as PNG, on white."""
        out = io.BytesIO()
        with mpl.rc_context(STYLE):
            self.figure.savefig(out, format="png", dpi=144, facecolor=PAPER)
        return out.getvalue()


@dataclass(frozen=True)
class Point:
    """A point of a time series."""

    round: int
    part: float
    """The position in the round, 0 to 1."""
    iops: float


@dataclass(frozen=True)
class Moment:
    """Latencies of a part of a round."""

    round: int
    part: float
    """The end of the part in the round, 0 to 1."""
    bins: Mapping[int, int]


@dataclass(frozen=True)
class Mark:
    """A fault on purpose on the time axis."""

    round: int
    begin: float
    """Position in the round, 0 to 1."""
    end: float
    said: str
