# SPDX-License-Identifier: BSD-3-Clause
"""The type of tables whose fields are known only when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Table: TypeAlias = dict[str, Any]
"""A TOML table before its validation, fio's JSON, or a row of the results by its columns."""
View: TypeAlias = Mapping[str, Any]
"""The same, for reading only."""
