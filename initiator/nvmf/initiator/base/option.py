# SPDX-License-Identifier: BSD-3-Clause
"""The fields of ConnectOptions: the only definition of each option's meaning and names.

The default and the type are those of the field.  The rest is an Option in the field's metadata: the
documentation, the flag of the command line, the kernel's word and the key of the host files.
"""

from __future__ import annotations

import textwrap
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeAlias, TypeVar, cast

T = TypeVar("T")
Values: TypeAlias = dict[str, Any]
"""Values of options by name, each of the type of its field, which is checked at run time."""
_METADATA = "nvmf"


@dataclass(frozen=True, slots=True)
class Option:
    """Documentation and other names of an option."""

    doc: str
    """Sentences for Python's help()."""
    brief: str
    """A phrase for the --help of commands."""
    flags: tuple[str, ...]
    """Flags of the command line: the short one, if any, and the long one."""
    kernel_flags: tuple[str, ...]
    """Additional flags of the commands that connect the kernel."""
    metavar: str
    """The name of the flag's value in --help; empty: that of the option's type."""
    shown_default: str
    """The default in --help, if it is not a value of the option: a file's path."""
    kernel_default: str
    """The kernel's default in --help; empty: that of the option."""
    word: str
    """The kernel's name, written to /dev/nvme-fabrics; empty if the kernel has no such option."""
    key: str
    """The key in host files, as nvme-cli's long option; empty if there is no such key."""
    kernel_only: bool
    """The client has no such option."""
    secret: bool
    """It is neither printed nor taken from a URL."""

    @property
    def argument(self) -> str:
        """The name of the flag's value in an argparse namespace; empty without a flag."""
        return self.flags[-1].lstrip("-").replace("-", "_") if self.flags else ""


def option(
    default: T,
    doc: str,
    brief: str,
    *,
    flags: tuple[str, ...] = (),
    kernel_flags: tuple[str, ...] = (),
    metavar: str = "",
    shown_default: str = "",
    kernel_default: str = "",
    word: str = "",
    key: str = "",
    kernel_only: bool = False,
    secret: bool = False,
) -> T:
    """Return a dataclass field with this default and an Option as metadata."""
    found = Option(
        doc=doc,
        brief=brief,
        flags=flags,
        kernel_flags=kernel_flags,
        metavar=metavar,
        shown_default=shown_default,
        kernel_default=kernel_default,
        word=word,
        key=key,
        kernel_only=kernel_only,
        secret=secret,
    )
    return field(default=default, repr=not secret, metadata={_METADATA: found})


def about(item: Field[T]) -> Option:
    """Return the Option of a field that option() made."""
    return cast(Option, item.metadata[_METADATA])


def described(cls: type[T]) -> type[T]:
    """Append the documentation of every field to the docstring of a dataclass."""
    lines = [(cls.__doc__ or "").rstrip(), ""]
    for item in fields(cls):  # type: ignore[arg-type]
        text = f"{item.name} ({item.default!r}): {about(item).doc}"
        lines += textwrap.wrap(text, 96, initial_indent="    ", subsequent_indent=" " * 8)
    cls.__doc__ = "\n".join(lines) + "\n"
    return cls
