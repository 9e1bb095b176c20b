# SPDX-License-Identifier: BSD-3-Clause
"""Methods by name, and their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nvmf.target.change.edit import faults
from nvmf.target.rpc.errors import Code, RpcError


class Params(BaseModel):
    """Parameters of a method, by name; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tgt_name: str | None = None
    """SPDK's name of a target; ignored, because there is only one."""


P = TypeVar("P", bound=Params)


@dataclass(frozen=True, slots=True)
class Method:
    """A method that clients can call."""

    name: str
    params: type[Params]
    function: Callable[[Any, Any], Any]
    changes: bool
    """Whether it may change the target; if so, calls are logged with the client."""

    @property
    def summary(self) -> str:
        """The first line of its description."""
        return inspect.getdoc(self.function) or ""

    async def call(self, administration: Any, values: object) -> Any:
        """Return its result; raise RpcError for invalid parameters, or the function's exception."""
        result = self.function(administration, self._validated(values))
        return await result if inspect.isawaitable(result) else result

    def _validated(self, values: object) -> Params:
        if values is not None and not isinstance(values, dict):
            raise RpcError(Code.INVALID_PARAMS, "params must be an object, not an array")
        try:
            return self.params.model_validate(values or {})
        except ValidationError as error:
            said = "; ".join(_said(detail) for detail in faults(error))
            raise RpcError(Code.INVALID_PARAMS, f"{self.name}: {said}") from None


METHODS: dict[str, Method] = {}


def method(
    name: str, params: type[P] | None = None, *, changes: bool = False
) -> Callable[[Callable[[Any, P], Any]], Callable[[Any, P], Any]]:
    """Register a function of (Administration, parameters) as the method with this name."""

    def register(function: Callable[[Any, P], Any]) -> Callable[[Any, P], Any]:
        assert name not in METHODS, name
        METHODS[name] = Method(name, params or Params, function, changes)
        return function

    return register


def _said(detail: Any) -> str:
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
