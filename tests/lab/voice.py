# SPDX-License-Identifier: BSD-3-Clause
"""The lab's lines on the terminal: progress, and what went wrong."""

from __future__ import annotations

import contextlib
import os
import time

import pytest

from lab.cells import Cell


class Voice:
    """The terminal, without pytest's capturing."""

    def __init__(self) -> None:
        self._config: pytest.Config | None = None
        self._chapter = ""

    def configure(self, config: pytest.Config) -> None:
        # Its reporter does not exist yet if this conftest is one of the first to be loaded.
        self._config = config

    def say(self, sentence: str) -> None:
        """Print a separate line."""
        assert self._config is not None
        plugins = self._config.pluginmanager
        reporter, capture = map(plugins.get_plugin, ("terminalreporter", "capturemanager"))
        if "PYTEST_XDIST_WORKER" in os.environ:  # the output of its reporter is dropped
            with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
                os.write(2, f"\n{sentence}\n".encode())
        elif reporter:
            reporter.ensure_newline()
            reporter.write_line(sentence)

    def shout(self, sentence: str) -> None:
        """Print a highlighted line."""
        self.say(f"{'!' * 79}\nLAB: {sentence}\n{'!' * 79}")

    def chapter(self, item: pytest.Item) -> None:
        """Print the present cell with the time, which shows progress."""
        parameters: dict[str, object] = item.callspec.params if hasattr(item, "callspec") else {}
        cell = next((f": {one}" for one in parameters.values() if isinstance(one, Cell)), "")
        chapter = f"{item.path.stem}, kernel {parameters.get('kernel_series', '?')}{cell}"
        if chapter != self._chapter and os.environ.get("NVMF_LAB"):
            self._chapter = chapter
            self.say(f"[{time.strftime('%H:%M:%S')}] {chapter}")


voice = Voice()
