# SPDX-License-Identifier: BSD-3-Clause
"""What every table of the configuration is made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Unknown keys are refused, and what was validated does not change.

    Whole numbers and booleans are strict: "yes" in quotes may be meant as either answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
