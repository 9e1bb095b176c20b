# SPDX-License-Identifier: BSD-3-Clause
"""The type of values that JSON can represent."""

from __future__ import annotations

from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""A parsed JSON document, or a part of it."""
