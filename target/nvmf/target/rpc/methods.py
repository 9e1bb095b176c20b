# SPDX-License-Identifier: BSD-3-Clause
"""The list of modules with methods."""

from __future__ import annotations

import importlib

from nvmf.target.rpc.registry import METHODS

__all__ = ["METHODS", "MODULES"]

MODULES = (
    "framework",
    "threads",
    "transport",
    "bdevs",
    "bdevlist",
    "subsystems",
    "namespaces",
    "limits",
    "hosts",
    "keys",
    "ports",
    "referrals",
    "ana",
    "connected",
    "memory",
    "mirrors",
    "statistics",
    "counters",
    "faults",
    "loglevel",
    "capture",
    "whole",
    "replace",
    "saved",
    "accepted",
)
"""Modules of this package that contain methods."""

for _module in MODULES:
    importlib.import_module(f"nvmf.target.rpc.{_module}")
