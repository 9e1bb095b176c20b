# SPDX-License-Identifier: BSD-3-Clause
"""Requests and responses of a client (JSON-RPC 2.0).  Sans-IO."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

from nvmf.json import JSON
from nvmf.paths import default_socket
from nvmf.rpc.errors import (
    AnswerError,
    AnswerLostError,
    AnswerTimeoutError,
    NoTargetError,
    RpcError,
)

ANSWER_TIMEOUT = 120.0
"""Maximum seconds to wait for a response: opening stores may take long."""
ANSWER_MOST = 1 << 26
"""Maximum bytes of a response."""


def place(socket: str | PathLike[str] | None) -> Path:
    """Return the path of the socket, by default that of this machine's target."""
    path = Path(socket) if socket is not None else default_socket()
    if path is None:
        raise NoTargetError("the administration socket is unknown: specify its path")
    return path


class Requests:
    """Makes the requests on one connection, and finds their responses."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ident = 0

    def request(self, method: str, params: Mapping[str, JSON]) -> bytes:
        """Return the next request."""
        self._ident += 1
        return json.dumps(
            {"jsonrpc": "2.0", "id": self._ident, "method": method, "params": dict(params)}
        ).encode()

    def result(self, line: bytes) -> tuple[bool, JSON]:
        """Return whether a line is the response to the last request, and if so its result.

        Responses to earlier requests, whose callers did not wait for them, are not.

        Raises:
            RpcError: The target refused the request.
            AnswerError: The line is not a response.
        """
        try:
            answer: JSON = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        match answer:
            case {"id": int(ident)} if ident < self._ident:
                return False, None
            case {"error": {"code": int(code), "message": str(sentence)}}:
                raise RpcError(code, sentence)
            case {"result": result}:
                return True, result
        raise AnswerError(f"the server at {self.path} is not a target, or has stopped")

    # ---- errors of the connection ----

    def unreachable(self, error: OSError) -> NoTargetError:
        """Return the exception for a failure to connect."""
        hint = "start one with target serve, or specify its socket with --rpc-socket"
        if isinstance(error, PermissionError):
            hint = "only root and the user that runs the target have access"
        elif isinstance(error, BlockingIOError):
            hint = "it has not accepted the connections before this one: is it stopped, or busy?"
        return NoTargetError(
            f"cannot connect to a target at {self.path}: {error.strerror or error}; {hint}"
        )

    def lost(self, error: OSError | None = None) -> AnswerLostError:
        """Return the exception for a connection that ended before the response."""
        why = f": {error.strerror or error}" if error is not None else ""
        return AnswerLostError(
            f"the target at {self.path} closed the connection before it answered{why}; it may "
            "have stopped"
        )

    def late(self, seconds: float) -> AnswerTimeoutError:
        """Return the exception for a response that did not arrive in time."""
        return AnswerTimeoutError(
            f"the target at {self.path} has not answered within {seconds:g} s; it may still "
            "complete the request: check with target ls"
        )

    def silent(self, seconds: float) -> AnswerTimeoutError:
        """Return the exception for a target that answers no other connection either."""
        return AnswerTimeoutError(
            f"{silence(self.path, seconds)} It may still complete the request"
        )


def silence(path: Path, seconds: float) -> str:
    """Return the sentence about a target that does not answer anything."""
    return f"the target at {path} has not answered for {seconds:.0f} s: is it stopped, or busy?"


def known(**params: JSON) -> dict[str, JSON]:
    """Return the parameters without those that are None, which are left out."""
    return {name: value for name, value in params.items() if value is not None}


def table(values: Mapping[str, JSON]) -> JSON:
    """Return a table of a configuration as a JSON object."""
    return dict(values)


def array(values: Iterable[JSON] | None) -> JSON:
    """Return values as a JSON array; None if there are none given."""
    return list(values) if values is not None else None


def tables(values: Iterable[Mapping[str, JSON]]) -> JSON:
    """Return tables as a JSON array of objects."""
    return [dict(value) for value in values]
