# SPDX-License-Identifier: BSD-3-Clause
"""The configuration of a target, as TOML files and as validated models."""

from nvmf.config.advice import advice
from nvmf.config.limits import LimitsConfig
from nvmf.config.loader import ConfigError, from_dict, json_schema, load, loads
from nvmf.config.models import (
    Config,
    IwarpConfig,
    NamespaceConfig,
    PortConfig,
    SubsystemConfig,
    TargetConfig,
)
from nvmf.config.plain import plain
from nvmf.config.services import MetricsConfig, RpcConfig

__all__ = [
    "Config",
    "ConfigError",
    "IwarpConfig",
    "LimitsConfig",
    "MetricsConfig",
    "NamespaceConfig",
    "PortConfig",
    "RpcConfig",
    "SubsystemConfig",
    "TargetConfig",
    "advice",
    "from_dict",
    "json_schema",
    "load",
    "loads",
    "plain",
]
