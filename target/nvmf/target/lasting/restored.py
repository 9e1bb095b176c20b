# SPDX-License-Identifier: BSD-3-Clause
"""The state that earlier runs of the target left in its state folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nvmf.target.lasting.generation import Generation
from nvmf.target.lasting.healthkeeper import HealthKeeper
from nvmf.target.lasting.state import state_folder


@dataclass(frozen=True, slots=True)
class State:
    """The state of the whole target; that of each subsystem is read when it is served."""

    folder: Path | None
    """None: nothing outlives this run."""
    generation: Generation
    health: HealthKeeper

    @classmethod
    def restore(cls, configured: Path | None) -> Self:
        """Read the state folder, which is created if it is missing; may block.

        Raises:
            OSError: The folder cannot be created.
        """
        folder = state_folder(configured)
        return cls(folder, Generation(folder), HealthKeeper(folder))
