# SPDX-License-Identifier: BSD-3-Clause
"""The exception of the storage lab."""

from __future__ import annotations

from nvmf.errors import Error


class LabError(Error):
    """A run, a report or a comparison failed; the message is a sentence for the user."""


class DamagedError(LabError):
    """A results directory is damaged, or of a different version."""
