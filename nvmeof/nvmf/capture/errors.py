# SPDX-License-Identifier: BSD-3-Clause
"""The exception of captures."""

from __future__ import annotations

from nvmf.errors import Error


class CaptureError(Error):
    """A capture cannot be read, made or replayed; the message is a sentence for the user."""
