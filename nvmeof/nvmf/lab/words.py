# SPDX-License-Identifier: BSD-3-Clause
"""Figures and names as text, for pictures."""

from __future__ import annotations

from nvmf.config.units import format_size


def short_text(size: int) -> str:
    """Return a size for an axis, such as 4K."""
    return format_size(size).replace(" ", "").replace("iB", "")


def figure_text(value: float | None, scale: float) -> str:
    """Return a figure for a table; a dash for None."""
    if value is None:
        return "–"
    scaled = value * scale
    return f"{scaled:,.0f}" if scaled >= 1000 else f"{scaled:.4g}"


def file_name(text: str) -> str:
    """Return a file name for a title."""
    return "".join(c if c.isalnum() else "-" for c in text.lower()).replace("--", "-").strip("-")
