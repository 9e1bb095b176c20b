# SPDX-License-Identifier: BSD-3-Clause
"""Unhandled exceptions, and callbacks that block event loops.

An exception that reaches an event loop's handler (from a callback, or from a task that nothing
awaits) fails the test in which it happens; pytest does the same for exceptions in threads and
finalizers (``filterwarnings`` of pyproject.toml makes its warnings errors).

A callback of the product that blocks its event loop for longer than WALL_SECONDS is reported at
the end of the run, with the processor time of its thread. It fails nothing: both times grow if
the machine stalls (in a virtual machine whose processor is taken away, processor time does as
well).
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import traceback
from asyncio import base_events, events
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

WALL_SECONDS = 1.0
"""A callback that took longer is reported."""
SLOW = "slow callbacks"
"""A property of a test's report: those callbacks."""


@dataclass
class _Seen:
    """The events since the last _take()."""

    exceptions: list[str] = field(default_factory=list)
    slow: list[tuple[float, str]] = field(default_factory=list)
    """Callbacks, with the seconds of processor time."""
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
    handler, made, run = (
        base_events.BaseEventLoop.call_exception_handler,
        base_events.BaseEventLoop.__init__,
        events.Handle._run,
    )

    def call_exception_handler(loop: Any, context: dict[str, Any]) -> None:
        with _lock:
            _seen.exceptions.append(_words(context))
        handler(loop, context)

    def make(loop: Any) -> None:
        with _lock:
            _seen.loops += 1
        made(loop)

    def run_timed(handle: Any) -> None:
        wall, cpu = time.monotonic(), time.thread_time()
        run(handle)
        wall, cpu = time.monotonic() - wall, time.thread_time() - cpu
        if wall >= WALL_SECONDS:
            _note(handle, wall, cpu)

    for owner, name, ours in (
        (base_events.BaseEventLoop, "call_exception_handler", call_exception_handler),
        (base_events.BaseEventLoop, "__init__", make),
        (events.Handle, "_run", run_timed),
    ):
        setattr(owner, name, ours)


def _note(handle: Any, wall: float, cpu: float) -> None:
    task = getattr(getattr(handle, "_callback", None), "__self__", None)
    if isinstance(task, asyncio.Task):
        if _of_tests(task.get_coro()):
            return
        what = repr(task)
    else:
        what = repr(handle)
    with _lock:
        _seen.slow.append((cpu, f"{wall:.1f} s, {cpu:.1f} s of them at work: {what}"))


def _of_tests(coroutine: object) -> bool:
    """Whether a test's own coroutine was running: it may block on a process."""
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    return code is not None and _HERE in Path(code.co_filename).parents


_HERE = Path(__file__).resolve().parents[1]


def _take() -> _Seen:
    """Return the events since the last call, and clear them."""
    global _seen
    with _lock:
        seen, _seen = _seen, _Seen()
    return seen


# ---- of a test ----------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Start observing before the first test."""
    watch()


def pytest_collection_finish() -> None:
    """Freeze objects that exist before the first test: they need not be examined after each
    test.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Unfreeze them: pytest examines all remaining objects."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test with unhandled exceptions, if nothing else does."""
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
        if seen.slow:
            item.user_properties.append((SLOW, seen.slow))
    _fail(seen)


def _fail(seen: _Seen) -> None:
    with _lock:
        exceptions, seen.exceptions = seen.exceptions, []
    if exceptions:
        first = "an event loop had exceptions that nobody was told of:"
        pytest.fail("\n".join([first, *exceptions]), pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the callbacks that blocked an event loop; on a machine that stalled, any may."""
    reports = [one for group in terminalreporter.stats.values() for one in group]
    slow = [
        (cpu, f"{report.nodeid}: {line}")
        for report in reports
        if getattr(report, "when", "") == "teardown"
        for name, found in report.user_properties
        if name == SLOW
        for cpu, line in found
    ]
    if slow:
        terminalreporter.section(f"{len(slow)} slow callbacks of event loops", sep="-")
        for _, line in sorted(slow, reverse=True)[:20]:
            terminalreporter.write_line(line)
