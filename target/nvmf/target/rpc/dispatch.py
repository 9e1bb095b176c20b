# SPDX-License-Identifier: BSD-3-Clause
"""Maps requests to responses (JSON-RPC 2.0, 4 to 6), and exceptions to error codes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from asyncio import Future
from typing import TYPE_CHECKING, Any

from nvmf.config.loader import ConfigError
from nvmf.target.change.edit import EditError
from nvmf.target.io.stores import ServerError
from nvmf.target.rpc.errors import Code, RpcError
from nvmf.target.rpc.methods import METHODS

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


async def answer(administration: Future[Administration], message: Any, peer: str) -> Any:
    """Return the response to a message, None if there is none.  peer: the client, for the log."""
    if not isinstance(message, list):
        return await _one(administration, message, peer)
    if not message:
        return error(Code.INVALID_REQUEST, "a batch must not be empty")
    if len(message) > BATCH_MOST:
        return error(Code.INVALID_REQUEST, f"a batch has at most {BATCH_MOST} requests")
    answers = [await _one(administration, request, peer) for request in message]
    return [one for one in answers if one is not None] or None


def error(code: int, message: str, ident: Any = None) -> dict[str, Any]:
    """Return an error response."""
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": int(code), "message": message}}


async def _one(
    administration: Future[Administration], request: Any, peer: str
) -> dict[str, Any] | None:
    await asyncio.sleep(0)  # serve hosts between two requests
    why = _malformed(request)
    if why is not None:
        return error(Code.INVALID_REQUEST, why)
    ident, silent = request.get("id"), "id" not in request
    try:
        result = await _call(administration, request["method"], request.get("params"), peer)
    except RpcError as failure:
        return None if silent else error(failure.code, str(failure), ident)
    return None if silent else {"jsonrpc": "2.0", "id": ident, "result": result}


def _malformed(request: Any) -> str | None:
    """Return why a request is malformed; None if it is valid."""
    if not isinstance(request, dict):
        return "a request must be an object"
    if request.get("jsonrpc") != "2.0":
        return 'a request must have "jsonrpc": "2.0"'
    if not isinstance(request.get("method"), str):
        return "a request must have a method"
    ident = request.get("id")
    if isinstance(ident, bool) or not isinstance(ident, str | int | float | None):
        return "the id of a request must be a string or a number"
    if unknown := request.keys() - _KEYS:
        return f"unknown members of the request: {', '.join(sorted(unknown))}"
    return None


async def _call(administration: Future[Administration], name: str, params: Any, peer: str) -> Any:
    method = METHODS.get(name)
    if method is None:
        raise RpcError(
            Code.METHOD_NOT_FOUND, f"there is no method {name[:64]}: see rpc_get_methods"
        )
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


def _said(params: Any) -> str:
    """Return shortened parameters for the log, without secrets."""
    if not params:
        return ""
    text = json.dumps(_redacted(params))
    return f" {text}" if len(text) <= _SAID_MOST else f" {text[:_SAID_MOST]}..."


def _redacted(value: Any, name: str = "") -> Any:
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
