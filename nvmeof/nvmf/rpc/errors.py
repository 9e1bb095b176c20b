# SPDX-License-Identifier: BSD-3-Clause
"""Errors of JSON-RPC 2.0, with the codes that SPDK uses, and errors of the connection."""

from __future__ import annotations

from enum import IntEnum

from nvmf.errors import Error


class Code(IntEnum):
    """Error codes."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    """Also for a change that conflicts with the configuration, or names a missing object."""
    INTERNAL_ERROR = -32603
    """Also for a change that fails on this machine."""
    INVALID_STATE = -1
    NO_SUCH_DEVICE = -19
    """ENODEV: the requested subsystem, transport or bdev does not exist."""


_SAID_MOST = 1000
"""Maximum characters of a message: it may repeat a parameter, which may be long."""


class ClientError(Error):
    """Base of all errors of a client."""


class RpcError(ClientError):
    """A request failed: the message is the target's, and nothing has changed."""

    code: int
    """A Code, or a negative errno as used by SPDK."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message if len(message) <= _SAID_MOST else f"{message[:_SAID_MOST]} ...")
        self.code = code


class NoTargetError(ClientError, ConnectionError):
    """There is no target at the socket, or it is not accessible; no request was sent."""


class AnswerLostError(ClientError, ConnectionError):
    """The connection ended before the response: the target may have completed the request."""


class AnswerTimeoutError(ClientError, TimeoutError):
    """The target has not answered in time, or does not run; it may still complete the request."""


class AnswerError(ClientError):
    """The response is not the one that a target sends to this request."""
