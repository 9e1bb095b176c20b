# SPDX-License-Identifier: BSD-3-Clause
"""Maps requests to responses (JSON-RPC 2.0, 4 to 6), and exceptions to error codes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from asyncio import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NotRequired, TypeAlias, TypedDict

from nvmf.config.loader import ConfigError
from nvmf.json import JSON
from nvmf.rpc.errors import Code, RpcError
from nvmf.target.change.edit import EditError
from nvmf.target.io.stores import ServerError
from nvmf.target.rpc.methods import METHODS
from nvmf.target.rpc.unsupported import reason

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration

log = logging.getLogger("nvmf.target.rpc")

BATCH_MOST = 64
"""Maximum requests in a batch; their responses are sent together."""
_SAID_MOST = 300
_SECRET = re.compile("key|secret")
"""Matches the name of a secret parameter."""
_KEY = re.compile("DHHC-1:.*", re.DOTALL)
"""Matches a key in a parameter that should not contain one."""
_KEYS = {"jsonrpc", "method", "params", "id"}

Ident: TypeAlias = "str | int | float | None"
"""The id of a request."""


class Failure(TypedDict):
    """An error in a response."""

    code: int
    message: str


class Response(TypedDict):
    """A response: with a result, or with an error."""

    jsonrpc: Literal["2.0"]
    id: Ident
    result: NotRequired[object]
    """A JSON value."""
    error: NotRequired[Failure]


@dataclass(frozen=True, slots=True)
class Request:
    """A valid request."""

    method: str
    params: JSON
    ident: Ident
    silent: bool
    """Whether it is a notification, which has no response."""


async def answer(
    administration: Future[Administration], message: JSON, peer: str
) -> Response | list[Response] | None:
    """Return the response to a message; None for a notification.  peer: the client, for the log."""
    if not isinstance(message, list):
        return await _one(administration, message, peer)
    if not message:
        return error(Code.INVALID_REQUEST, "a batch must not be empty")
    if len(message) > BATCH_MOST:
        return error(Code.INVALID_REQUEST, f"a batch has at most {BATCH_MOST} requests")
    answers = [await _one(administration, request, peer) for request in message]
    return [one for one in answers if one is not None] or None


def error(code: int, message: str, ident: Ident = None) -> Response:
    """Return an error response."""
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": int(code), "message": message}}


async def _one(administration: Future[Administration], message: JSON, peer: str) -> Response | None:
    await asyncio.sleep(0)  # serve hosts between two requests
    try:
        request = _parsed(message)
    except RpcError as failure:
        return error(failure.code, str(failure))
    try:
        result = await _call(administration, request.method, request.params, peer)
    except RpcError as failure:
        return None if request.silent else error(failure.code, str(failure), request.ident)
    return None if request.silent else {"jsonrpc": "2.0", "id": request.ident, "result": result}


def _parsed(message: JSON) -> Request:
    """Return a request; raise RpcError if it is malformed."""

    def malformed(why: str) -> RpcError:
        return RpcError(Code.INVALID_REQUEST, why)

    if not isinstance(message, dict):
        raise malformed("a request must be an object")
    if message.get("jsonrpc") != "2.0":
        raise malformed('a request must have "jsonrpc": "2.0"')
    method = message.get("method")
    if not isinstance(method, str):
        raise malformed("a request must have a method")
    ident = message.get("id")
    if isinstance(ident, bool) or not isinstance(ident, str | int | float | None):
        raise malformed("the id of a request must be a string or a number")
    if unknown := message.keys() - _KEYS:
        raise malformed(f"unknown members of the request: {', '.join(sorted(unknown))}")
    return Request(method, message.get("params"), ident, "id" not in message)


async def _call(
    administration: Future[Administration], name: str, params: JSON, peer: str
) -> object:
    method = METHODS.get(name)
    if method is None:
        why = reason(name) or "see rpc_get_methods"
        raise RpcError(Code.METHOD_NOT_FOUND, f"there is no method {name[:64]}: {why}")
    started = await asyncio.shield(administration)
    try:
        result = await method.call(started, params)
    except Exception as failure:
        refused = _translated(name, failure)
        if method.changes:
            log.warning("%s: %s%s refused: %s", peer, name, _said(params), refused)
        raise refused from None
    if method.changes:
        log.info("%s: %s%s done", peer, name, _said(params))
    return result


def _said(params: JSON) -> str:
    """Return shortened parameters for the log, without secrets."""
    if not params:
        return ""
    text = json.dumps(_redacted(params))
    return f" {text}" if len(text) <= _SAID_MOST else f" {text[:_SAID_MOST]}..."


def _redacted(value: JSON, name: str = "") -> JSON:
    if isinstance(value, dict):
        return {_KEY.sub("[secret]", key): _redacted(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_redacted(one, name) for one in value]
    if not isinstance(value, str):
        return value
    return "[secret]" if _SECRET.search(name) else _KEY.sub("[secret]", value)


def _translated(name: str, failure: Exception) -> RpcError:
    match failure:
        case RpcError():
            return failure
        case EditError():
            return RpcError(Code.INVALID_PARAMS, str(failure))
        case ServerError() | ConfigError():
            return RpcError(Code.INTERNAL_ERROR, str(failure))
    log.error("%s failed inside the target", name, exc_info=failure)
    return RpcError(Code.INTERNAL_ERROR, f"{name} failed inside the target; see its log")
