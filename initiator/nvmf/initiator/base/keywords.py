# SPDX-License-Identifier: BSD-3-Clause
"""The options of ConnectOptions as keywords of a function.

    def discover(where: str, /, *, queues: int = ASKING.queues, ...) -> list[DiscoveryEntry]:
        changes = given(locals())

Every function that connects names all options in its signature, so that help(), inspect and editors
show them; a test compares the signatures with ConnectOptions. A keyword that the caller omits must
not replace the value in the URL. Therefore the defaults are objects that print and compare as the
values, and by which given() recognizes omitted keywords.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

from nvmf.initiator.base.option import Values
from nvmf.initiator.base.options import OPTIONS, ConnectOptions


class Default:
    """The default of a keyword: prints and compares as its value."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == (other.value if isinstance(other, Default) else other))

    def __hash__(self) -> int:
        return hash(self.value)


def defaults(options: ConnectOptions) -> ConnectOptions:
    """Return an object with a Default for every option, for use in signatures."""
    made = {name: Default(getattr(options, name)) for name in OPTIONS}
    return cast(ConnectOptions, SimpleNamespace(**made))


def given(arguments: Mapping[str, object]) -> Values:
    """Return the options that the caller of a function passed, from its arguments."""
    return {
        name: arguments[name]
        for name in OPTIONS
        if name in arguments and not isinstance(arguments[name], Default)
    }


DEFAULT = defaults(ConnectOptions())
"""The defaults of functions that connect to a subsystem."""
ASKING = defaults(ConnectOptions(kato=0))
"""The defaults of functions that read a log and disconnect."""
