# SPDX-License-Identifier: BSD-3-Clause
"""The type of command handlers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from nvmf.target.command.request import Completion, Request
from nvmf.target.model.controller import Controller

Handler: TypeAlias = Callable[[Controller, Request], Completion | None]
"""Return the completion, or None if the command stays outstanding.

StatusError: the command failed with that status.
"""
