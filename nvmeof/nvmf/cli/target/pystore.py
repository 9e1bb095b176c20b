# SPDX-License-Identifier: BSD-3-Clause
"""Arguments for stores written in Python: --python, and --option with its keyword arguments."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence

Option = tuple[str, bool | int | float | str]
_META = "KEY=VALUE"
_HELP = (
    "keyword argument of the store's constructor; a number, true or false is passed as such, "
    "'\"1\"' as a string; may be repeated"
)


def option_argument(text: str) -> Option:
    """Parse KEY=VALUE; a VALUE in JSON's form of a number, boolean or string is one of these."""
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as size=1048576")
    try:
        found: object = json.loads(value)
    except ValueError:
        return key, value
    if isinstance(found, float):
        return key, found if math.isfinite(found) else value
    return key, found if isinstance(found, bool | int | str) else value


def add_option(group: argparse._ArgumentGroup) -> None:
    """Add --option, for one store."""
    group.add_argument("--option", metavar=_META, type=option_argument, action="append", help=_HELP)


def add_stores(group: argparse._ArgumentGroup) -> None:
    """Add --python, one namespace each, and --option for the --python before it."""
    group.add_argument(
        "--python", metavar="MODULE:CLASS", action=_Store, help="store written in Python"
    )
    group.add_argument(
        "--option",
        metavar=_META,
        type=option_argument,
        action=_Option,
        help=f"for the --python before it: {_HELP}",
    )


class _Store(argparse.Action):
    """Appends a store without options: (name, {})."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        namespace.python = [*(namespace.python or ()), (values, {})]


class _Option(argparse.Action):
    """Adds an option to the last store."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        if not namespace.python:
            parser.error("--option is for a store written in Python: give it after --python")
        assert values is not None
        key, value = values
        namespace.python[-1][1][key] = value
