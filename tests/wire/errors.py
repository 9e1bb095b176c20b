# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong on the wire, seen from the independent peer."""


class WireViolation(AssertionError):
    """The product sent what a specification forbids."""


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
