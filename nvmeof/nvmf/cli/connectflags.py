# SPDX-License-Identifier: BSD-3-Clause
"""The flags of connections, and the options of a URL in --help, from the fields of ConnectOptions.

See nvmf.initiator.base.option for what a field says about its option.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable
from typing import Literal, TypeAlias, get_args, get_origin

from nvmf.cli.base import number_argument, seconds_argument
from nvmf.initiator import ConnectOptions
from nvmf.initiator.base.option import Option
from nvmf.initiator.base.options import OPTIONS, kind_of

Parse: TypeAlias = Callable[[str], object]

PLACE = ("device", "remote_keys")
"""Options that are shown with the location of the controller."""
IDENTITY = ("hostnqn", "hostid")
SECRETS = tuple(name for name in OPTIONS if name.startswith("dhchap_"))
CONNECTION = tuple(
    name
    for name, one in OPTIONS.items()
    if one.flags and not one.kernel_only and name not in (*PLACE, *IDENTITY, *SECRETS)
)
"""All others of the client that have a flag."""
KERNEL = tuple(
    name
    for name, one in OPTIONS.items()
    if one.flags and one.word and name not in (*IDENTITY, *SECRETS)
)
"""All others of the kernel."""
URL_OPTIONS = tuple(name for name, one in OPTIONS.items() if not one.secret)
"""Options that a URL can have."""

_METAVARS = {int: "N", float: "SECONDS"}


def add_flags(
    group: argparse._ActionsContainer,
    names: Iterable[str],
    defaults: ConnectOptions | None = None,
    *,
    without: Collection[str] = (),
) -> None:
    """Add the flags of options of the client.

    defaults: the values to show in the help; without: flags that the command uses otherwise.
    """
    shown = defaults or ConnectOptions()
    parsers: dict[object, Parse] = {int: number_argument, float: seconds_argument}
    for name in names:
        one = OPTIONS[name]
        flags = [flag for flag in one.flags if flag not in without]
        _add(group, name, flags, one.shown_default or _text(getattr(shown, name)), parsers)


def add_kernel_flags(group: argparse._ActionsContainer, names: Iterable[str]) -> None:
    """Add the flags of options of the kernel, which counts in whole seconds."""
    parsers: dict[object, Parse] = {int: _whole, float: _whole}
    for name in names:
        one = OPTIONS[name]
        default = one.kernel_default or one.shown_default or _text(getattr(ConnectOptions(), name))
        short = [flag for flag in one.kernel_flags if not flag.startswith("--")]
        others = [flag for flag in one.kernel_flags if flag.startswith("--")]
        _add(group, name, [*short, *one.flags, *others], default, parsers)


def _add(
    group: argparse._ActionsContainer,
    name: str,
    flags: list[str],
    default: str,
    parsers: dict[object, Parse],
) -> None:
    one, kind = OPTIONS[name], kind_of(name)
    help_text = f"{one.brief} (default: {default})" if default else one.brief
    if kind is bool:
        group.add_argument(*flags, action="store_true", default=None, help=one.brief)
    elif get_origin(kind) is Literal:
        group.add_argument(*flags, choices=get_args(kind), help=help_text)
    else:
        metavar = one.metavar or _METAVARS[int if kind is int else float]
        group.add_argument(*flags, metavar=metavar, type=parsers.get(kind, str), help=help_text)


def _whole(text: str) -> int:
    """Parse an integer, -1 included; for argparse."""
    return -1 if text.strip() == "-1" else number_argument(text)


def url_options_help(parser: argparse.ArgumentParser, names: Iterable[str] = URL_OPTIONS) -> str:
    """Return the part of --help about the options of a URL, with the flags of a command."""
    flags = {flag: one.option_strings[0] for one in parser._actions for flag in one.option_strings}
    lines = []
    for name in names:
        one = OPTIONS[name]
        flag = flags.get(one.flags[-1]) if one.flags and not one.kernel_only else None
        lines.append(f"  {name:<25}{_in_url(name, one, flag)}")
    return "\n".join(
        ["options of a URL, ...?NAME=VALUE&NAME=VALUE (flags take precedence):", *lines]
    )


def _in_url(name: str, one: Option, flag: str | None) -> str:
    kind, text = kind_of(name), one.brief
    if kind is bool:
        text += ", yes or no"
    elif get_origin(kind) is Literal and flag:  # the flag's help explains them
        *most, last = get_args(kind)
        text = f"{', '.join(most)} or {last}"
    if flag:
        return f"{text} ({flag})"
    if one.flags and not one.kernel_only:  # the command has a default of its own
        return text
    default = _text(getattr(ConnectOptions(), name))
    return f"{text} (default: {default})" if default and name != "backend" else text


def _text(value: object) -> str:
    """Return a default as a URL writes it; empty if there is none, or if it is "no"."""
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    return f"{value:g}" if isinstance(value, float) else str(value)
