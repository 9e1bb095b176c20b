# SPDX-License-Identifier: BSD-3-Clause
"""The log at run time: its level, and loggers that log everything."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from nvmf.rpc.errors import Code, RpcError
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration

LEVELS = ("debug", "info", "warning", "error")


class LogLevel(Params):
    level: str | None = None
    """One of: debug, info, warning, error; left out: the level stays."""


class SetLevel(Params):
    level: str
    """One of: ERROR, WARNING, NOTICE (the same as INFO), INFO, DEBUG."""


class Flag(Params):
    flag: str
    """all, or one of log_get_flags."""


class Timestamps(Params):
    enabled: Literal[True]
    """Timestamps cannot be turned off."""


_FLAGS = (("nvmf", "nvmf.target"), ("rpc", "nvmf.target.rpc"))
"""SPDK's flags, and loggers."""


@method("target_log_level", LogLevel, "log_level")
def log_level(administration: Administration, params: LogLevel) -> str:
    """Set the minimum level of log messages until the target ends; return the level."""
    if params.level is not None:
        if params.level not in LEVELS:
            raise RpcError(
                Code.INVALID_PARAMS, f"level must be one of {', '.join(LEVELS)}, not {params.level}"
            )
        _set(params.level)
    return _get()


def _get() -> str:
    return logging.getLevelName(logging.getLogger().level).lower()


def _set(level: str) -> None:
    logging.getLogger().setLevel(level.upper())


@method("log_set_level", SetLevel, "log_set_level")
def set_level(administration: Administration, params: SetLevel) -> bool:
    """Set the minimum level of log messages until the target ends (SPDK's method)."""
    return _spdk_set(params.level)


@method("log_get_level", Params, "log_get_level")
def get_level(administration: Administration, params: Params) -> str:
    """Return the minimum level of log messages, as in SPDK: ERROR, WARNING, INFO or DEBUG."""
    return _get().upper()


@method("log_set_print_level", SetLevel, "log_set_print_level")
def set_print_level(administration: Administration, params: SetLevel) -> bool:
    """Set the minimum level of log messages; the same as log_set_level."""
    return _spdk_set(params.level)


@method("log_get_print_level", Params, "log_get_print_level")
def get_print_level(administration: Administration, params: Params) -> str:
    """Return the minimum level of log messages; the same as log_get_level."""
    return _get().upper()


def _spdk_set(level: str) -> bool:
    known = {word.upper(): word for word in LEVELS} | {"NOTICE": "info"}
    if level.upper() not in known:
        raise RpcError(
            Code.INVALID_PARAMS, f"level must be one of {', '.join(known)}, not {level[:32]}"
        )
    _set(known[level.upper()])
    return True


@method("log_get_flags", Params, "log_get_flags")
def get_flags(administration: Administration, params: Params) -> dict[str, bool]:
    """Return the flags: parts of the target, and whether they log everything."""
    return {name: logging.getLogger(logger).level == logging.DEBUG for name, logger in _FLAGS}


@method("log_set_flag", Flag, "log_set_flag")
def set_flag(administration: Administration, params: Flag) -> bool:
    """Log all messages of a part of the target, until the target ends."""
    return _flag(params.flag, logging.DEBUG)


@method("log_clear_flag", Flag, "log_clear_flag")
def clear_flag(administration: Administration, params: Flag) -> bool:
    """Log a part of the target at the general level again."""
    return _flag(params.flag, logging.NOTSET)


def _flag(flag: str, level: int) -> bool:
    chosen = [logger for name, logger in _FLAGS if flag in ("all", name)]
    if not chosen:
        names = ", ".join(name for name, _ in _FLAGS)
        raise RpcError(Code.INVALID_PARAMS, f"flag must be one of all, {names}, not {flag[:32]}")
    for logger in chosen:
        logging.getLogger(logger).setLevel(level)
    return True


@method("log_enable_timestamps", Timestamps, "log_enable_timestamps")
def enable_timestamps(administration: Administration, params: Timestamps) -> bool:
    """Return True: every message has a timestamp, unless the reader of the log adds it."""
    return True
