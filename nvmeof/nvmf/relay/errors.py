# SPDX-License-Identifier: BSD-3-Clause
"""The exception of relays."""

from __future__ import annotations

from nvmf.errors import Error


class RelayError(Error):
    """A relay cannot be opened; the message is a sentence for the user."""
