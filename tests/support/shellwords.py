# SPDX-License-Identifier: BSD-3-Clause
"""Calls of nvmeof in a shell line, as in the examples of the help."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

_ENDS = {";", "|", "&", "&&", "||", ")", ">", ">>", "<", "<("}


def calls(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of nvmeof in a line."""
    plain = line.replace('"$(', " ( ").replace(')"', " ) ")
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[str] | None = None
    for word in (*lexer, ";"):
        if found is None and word == "nvmeof":
            found = []
        elif found is not None and word in _ENDS:
            yield found
            found = None
        elif found is not None:
            found.append(word)
