# SPDX-License-Identifier: BSD-3-Clause
"""Check the arguments of public methods: types, and buffers that are closed."""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


def whole(name: str, value: object) -> int:
    """Return an integer argument; raise TypeError with its name for anything else ('1', 1.0)."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} is a whole number, not {value!r}") from None


def memory_length(length: object) -> int:
    """Return the length of memory to allocate; raise ValueError if no memory has it."""
    found = whole("length", length)
    if not 1 <= found <= sys.maxsize:
        raise ValueError(f"memory to allocate has 1 to {sys.maxsize} bytes, not {found}")
    return found


def bytes_of(buffer: Buffer) -> memoryview:
    """Return a buffer as a view of its bytes; release() it.

    Raises ValueError if the buffer is closed or released, TypeError if it is not a contiguous
    buffer.
    """
    exported = getattr(buffer, "exported", None)  # a class has no __buffer__ before Python 3.12
    try:
        view = memoryview(buffer if exported is None else exported)
    except BufferError as error:
        raise ValueError(f"the buffer cannot be used: {error}") from None
    if view.format == "B" and view.ndim == 1 and view.contiguous:
        return view
    with view:
        if not view.c_contiguous:
            raise TypeError("a buffer to transfer must be C-contiguous")
        return view.cast("B") if view.nbytes else memoryview(bytearray())


def writable(buffer: Buffer) -> memoryview:
    """Return a buffer to read into as a view of its bytes; raise ValueError if it is read-only."""
    view = bytes_of(buffer)
    if view.readonly:
        view.release()
        raise ValueError("a buffer to read into must be writable")
    return view
