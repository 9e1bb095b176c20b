# SPDX-License-Identifier: BSD-3-Clause
"""Requests to responses (JSON-RPC 2.0, 4 to 6): the one place where errors become codes."""

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
"""Requests of a batch, whose answers are sent together."""
_SAID_MOST = 300
_SECRET = re.compile("key|secret")
"""In the name of a parameter that is not for others."""
_KEY = re.compile("DHHC-1:.*", re.DOTALL)
"""A key where none is expected."""
_KEYS = {"jsonrpc", "method", "params", "id"}


async def answer(administration: Future[Administration], message: Any, peer: str) -> Any:
    """What goes back to the client; None where nothing does.  peer: who asks, for the log."""
    if not isinstance(message, list):
        return await _one(administration, message, peer)
    if not message:
        return error(Code.INVALID_REQUEST, "an empty batch asks for nothing")
    if len(message) > BATCH_MOST:
        return error(Code.INVALID_REQUEST, f"a batch has at most {BATCH_MOST} requests")
    answers = [await _one(administration, request, peer) for request in message]
    return [one for one in answers if one is not None] or None


def error(code: int, message: str, ident: Any = None) -> dict[str, Any]:
    """A response that says what went wrong."""
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": int(code), "message": message}}


async def _one(
    administration: Future[Administration], request: Any, peer: str
) -> dict[str, Any] | None:
    await asyncio.sleep(0)  # between two requests the hosts have their turn
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
    """Why it is no request; None where it is one."""
    if not isinstance(request, dict):
        return "a request is an object"
    if request.get("jsonrpc") != "2.0":
        return 'a request has "jsonrpc": "2.0"'
    if not isinstance(request.get("method"), str):
        return "a request names its method"
    ident = request.get("id")
    if isinstance(ident, bool) or not isinstance(ident, str | int | float | None):
        return "the id of a request is text or a number"
    if unknown := request.keys() - _KEYS:
        return f"a request has no {', '.join(sorted(unknown))}"
    return None


async def _call(administration: Future[Administration], name: str, params: Any, peer: str) -> Any:
    method = METHODS.get(name)
    if method is None:
        raise RpcError(
            Code.METHOD_NOT_FOUND, f"there is no method {name[:64]}: rpc_get_methods names them"
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
    """Parameters for the log, in short, and without what is secret."""
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
    return RpcError(Code.INTERNAL_ERROR, f"{name} failed inside the target: its log says more")
