# SPDX-License-Identifier: BSD-3-Clause
"""Errors of JSON-RPC 2.0, with the codes that SPDK uses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import IntEnum

from nvmf.target.change.edit import EditError, NoSuchSubsystem
from nvmf.target.io.stores import ServerError


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


class RpcError(Exception):
    """A request failed: the message is sent to the client, and nothing has changed."""

    code: int
    """A Code, or a negative errno as used by SPDK."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message if len(message) <= _SAID_MOST else f"{message[:_SAID_MOST]} ...")
        self.code = code


@contextlib.contextmanager
def spdk_says(code: int) -> Iterator[None]:
    """Give the errors of an SPDK method in this block the code that SPDK uses.

    A missing subsystem is an invalid parameter in all of these methods.
    """
    try:
        yield
    except NoSuchSubsystem:
        raise
    except (EditError, ServerError) as error:
        raise RpcError(code, str(error)) from None
