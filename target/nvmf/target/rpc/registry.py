# SPDX-License-Identifier: BSD-3-Clause
"""Methods by name, with the types of their parameters and results."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from nvmf.json import JSON
from nvmf.rpc.errors import Code, RpcError
from nvmf.target.change.edit import faults

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class Params(BaseModel):
    """Parameters of a method, by name; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tgt_name: str | None = None
    """SPDK's name of a target; ignored, because there is only one."""


P = TypeVar("P", bound=Params)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Method:
    """A method that clients can call."""

    name: str
    params: type[Params]
    python: str | None
    """Its name in Python clients; None: they call it by request()."""
    changes: bool
    """Whether it may change the target; if so, calls are logged with the client."""
    function: Callable[..., object]
    call: Callable[[Administration, JSON], Awaitable[object]]
    """Return its result for (Administration, parameters); raises RpcError for invalid parameters,
    or the function's exception."""

    @property
    def description(self) -> str:
        """Its description; the first line is a summary."""
        return inspect.getdoc(self.function) or ""

    @property
    def result(self) -> object:
        """The type of its result."""
        return get_type_hints(self.function, localns={"Administration": object})["return"]


METHODS: dict[str, Method] = {}


def method(
    name: str, params: type[P], python: str | None, *, changes: bool = False
) -> Callable[[Callable[[Administration, P], R]], Callable[[Administration, P], R]]:
    """Register a function of (Administration, parameters) as the method with this name.

    python: its name in Python clients.
    """

    def register(function: Callable[[Administration, P], R]) -> Callable[[Administration, P], R]:
        async def call(administration: Administration, values: JSON) -> object:
            result = function(administration, _validated(name, params, values))
            return await result if inspect.isawaitable(result) else result

        assert name not in METHODS, name
        METHODS[name] = Method(name, params, python, changes, function, call)
        return function

    return register


def _validated(name: str, params: type[P], values: JSON) -> P:
    if values is not None and not isinstance(values, dict):
        raise RpcError(Code.INVALID_PARAMS, "params must be an object, not an array")
    try:
        return params.model_validate(values or {})
    except ValidationError as error:
        said = "; ".join(_said(detail) for detail in faults(error))
        raise RpcError(Code.INVALID_PARAMS, f"{name}: {said}") from None


def _said(detail: ErrorDetails) -> str:
    key = ".".join(str(part) for part in detail["loc"]) or "params"
    match detail["type"]:
        case "extra_forbidden":
            return f"there is no parameter {key}"
        case "missing":
            return f"{key} is missing"
        case "value_error":
            return f"{key}: {detail['ctx']['error']}"
        case _:
            return f"{key}: {detail['msg'][0].lower()}{detail['msg'][1:]}"
