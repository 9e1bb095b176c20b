# SPDX-License-Identifier: BSD-3-Clause
"""Errors of JSON-RPC 2.0, with the codes that SPDK uses too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import IntEnum

from nvmf.target.change.edit import EditError, NoSuchSubsystem
from nvmf.target.io.stores import ServerError


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
    """ENODEV: a subsystem, transport or bdev that was asked for is not there."""


_SAID_MOST = 1000
"""Characters of a sentence: it may repeat what was asked, which may be long."""


class RpcError(Exception):
    """A request failed: the sentence goes to the client, and nothing has changed."""

    code: int
    """A Code, or what SPDK makes of errno: the negative number."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message if len(message) <= _SAID_MOST else f"{message[:_SAID_MOST]} ...")
        self.code = code


@contextlib.contextmanager
def spdk_says(code: int) -> Iterator[None]:
    """What a method of SPDK's refuses in here has the code that SPDK gives to it.

    Where it is the subsystem that is not there, that is a wrong parameter of them all.
    """
    try:
        yield
    except NoSuchSubsystem:
        raise
    except (EditError, ServerError) as error:
        raise RpcError(code, str(error)) from None
