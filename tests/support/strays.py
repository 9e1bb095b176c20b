# SPDX-License-Identifier: BSD-3-Clause
"""Unhandled exceptions, and callbacks that block event loops.

An exception that reaches an event loop's handler (from a callback, or from a task that nothing
awaits) fails the test in which it happens; pytest does the same for exceptions in threads and
finalizers (``filterwarnings`` of pyproject.toml makes its warnings errors).

A callback of the product that blocks its event loop fails the test too, in this process and in the
targets that Served starts: slow.py measures it.
"""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import traceback
from asyncio import base_events
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support import slow


@dataclass
class _Seen:
    """The events since the last _take()."""

    exceptions: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    """Callbacks, with their times."""
    loops: int = 0
    """Number of created event loops."""


_seen = _Seen()
_lock = threading.Lock()


def _words(context: dict[str, Any]) -> str:
    """Return the description passed to an event loop's handler."""
    said = [str(context.get("message", "Unhandled exception in event loop"))]
    said += [f"{key}: {context[key]!r}" for key in sorted(context) if key not in _SHOWN]
    if isinstance(exception := context.get("exception"), BaseException):
        said += traceback.format_exception(exception)
    return "\n".join(line.rstrip() for line in said)


_SHOWN = ("message", "exception", "source_traceback", "handle_traceback")


def watch() -> None:
    """Observe every event loop of this process from now on."""
    handler, made = (
        base_events.BaseEventLoop.call_exception_handler,
        base_events.BaseEventLoop.__init__,
    )

    def call_exception_handler(loop: Any, context: dict[str, Any]) -> None:
        with _lock:
            _seen.exceptions.append(_words(context))
        handler(loop, context)

    def make(loop: Any) -> None:
        with _lock:
            _seen.loops += 1
        made(loop)

    for name, ours in (("call_exception_handler", call_exception_handler), ("__init__", make)):
        setattr(base_events.BaseEventLoop, name, ours)
    slow.watch(_note)


def _note(line: str) -> None:
    with _lock:
        _seen.slow.append(line)


class _Others:
    """The file to which other processes append their slow callbacks."""

    def __init__(self) -> None:
        opened, name = tempfile.mkstemp(prefix="nvmeof-slow-")
        os.close(opened)
        self._path = Path(name)
        self._read = 0
        os.environ[slow.FILE] = name

    def new(self) -> list[str]:
        """Return the complete lines that were appended since the last call."""
        if self._path.stat().st_size == self._read:
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self._read += len(text)
        return text.decode(errors="replace").splitlines()

    def close(self) -> None:
        self._path.unlink(missing_ok=True)


_others: _Others | None = None


def _take() -> _Seen:
    """Return the events since the last call, and clear them."""
    global _seen
    with _lock:
        seen, _seen = _seen, _Seen()
    return seen


# ---- of a test ----------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Start observing before the first test."""
    global _others
    _others = _Others()
    watch()


def pytest_unconfigure() -> None:
    """Remove the file of other processes."""
    if _others is not None:
        _others.close()


def pytest_collection() -> None:
    """Do not examine objects while tests are collected: a third of that time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Freeze objects that exist before the first test: they need not be examined after each
    test.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Unfreeze them: pytest examines all remaining objects."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test with unhandled exceptions or slow callbacks, if nothing else does."""
    yield
    _fail(_seen)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Check at the end that there is no failed task that nothing has awaited."""
    try:
        yield
    finally:
        if _seen.loops:
            gc.collect()
        seen = _take()
    _fail(seen)


def _fail(seen: _Seen) -> None:
    with _lock:
        exceptions, seen.exceptions = seen.exceptions, []
        blocked, seen.slow = seen.slow, []
    if _others is not None:
        blocked += _others.new()
    said = []
    if exceptions:
        said += ["an event loop had exceptions that nobody was told of:", *exceptions]
    if blocked:
        said += [f"callbacks blocked an event loop ({slow.limits()}):", *blocked]
    if said:
        pytest.fail("\n".join(said), pytrace=False)
