# SPDX-License-Identifier: BSD-3-Clause
"""Errors of JSON-RPC 2.0, with the codes that SPDK uses too."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """What went wrong."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    """Of a change too: it conflicts with what there is, or names what there is not."""
    INTERNAL_ERROR = -32603
    """Of a change too: the machine cannot do it."""
    INVALID_STATE = -1
    NO_SUCH_DEVICE = -19
    """ENODEV: a subsystem that was asked for is not there."""


_SAID_MOST = 1000
"""Characters of a sentence: it may repeat what was asked, which may be long."""


class RpcError(Exception):
    """A request failed: the sentence goes to the client, and nothing has changed."""

    code: Code

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message if len(message) <= _SAID_MOST else f"{message[:_SAID_MOST]} ...")
        self.code = code
