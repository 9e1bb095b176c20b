# SPDX-License-Identifier: BSD-3-Clause
"""Errors on the wire, from the independent peer's view."""


class WireViolation(AssertionError):
    """The product sent something that a specification forbids."""


class ConnectionEnded(Exception):
    """The other end closed or reset the connection."""


class Rejected(Exception):
    """The other end refused the connection with an MPA reject; args[0] is its private data."""

    @property
    def private_data(self) -> bytes:
        """The application's private data in the reject."""
        data = self.args[0]
        assert isinstance(data, bytes)
        return data
