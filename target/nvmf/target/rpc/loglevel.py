# SPDX-License-Identifier: BSD-3-Clause
"""The level of the log, at run time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nvmf.rpc.errors import Code, RpcError
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration

LEVELS = ("debug", "info", "warning", "error")


class LogLevel(Params):
    level: str | None = None
    """One of: debug, info, warning, error; left out: the level stays."""


@method("target_log_level", LogLevel, "log_level")
def log_level(administration: Administration, params: LogLevel) -> str:
    """Set the minimum level of log messages until the target ends; return the level."""
    root = logging.getLogger()
    if params.level is not None:
        if params.level not in LEVELS:
            raise RpcError(
                Code.INVALID_PARAMS, f"level must be one of {', '.join(LEVELS)}, not {params.level}"
            )
        root.setLevel(params.level.upper())
    return logging.getLevelName(root.level).lower()
