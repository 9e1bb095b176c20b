# SPDX-License-Identifier: BSD-3-Clause
"""Runs rdma-core's own tests of pyverbs, and prints a line of JSON for each.

A program for the distribution's Python, under `nvmeof verbs`: FOLDER DEVICE LEFT_OUT MODULE...,
where FOLDER contains the package `tests`, and LEFT_OUT is a regular expression for the names of the
tests that are not run. Those of the connection manager get an address of the loopback network,
which the suite looks up in the kernel's list of RDMA devices, and need no GID.
"""

from __future__ import annotations

import json
import re
import sys
import unittest
from collections.abc import Iterator
from importlib import import_module
from typing import Any

ADDRESS = "127.0.0.1"


class Lines(unittest.TestResult):
    """Prints the result of each test when it is known."""

    def _say(self, test: object, result: str, why: str = "") -> None:
        name = test.id() if isinstance(test, unittest.TestCase) else str(test)
        print(json.dumps({"test": name, "result": result, "why": why}), flush=True)

    def addSuccess(self, test: Any) -> None:
        self._say(test, "passed")

    def addSkip(self, test: Any, reason: str) -> None:
        self._say(test, "skipped", reason)

    def addFailure(self, test: Any, err: Any) -> None:
        self._say(test, "failed", self._exc_info_to_string(err, test))  # type: ignore[attr-defined]

    def addError(self, test: Any, err: Any) -> None:
        self._say(test, "failed", self._exc_info_to_string(err, test))  # type: ignore[attr-defined]


def tests_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Return the tests of a suite, and of the suites in it."""
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests_of(one)
        else:
            yield one


def main(folder: str, device: str, left_out: str, *modules: str) -> None:
    """Run the tests of these modules."""
    sys.path[:0] = [folder, f"{folder}/tests"]
    sys.argv[1:] = ["--dev", device]
    import_module("args_parser").parser.parse_args()
    base = import_module("tests.base")

    def place(self: Any, dev: str, port: int, gid: int | None) -> None:
        self.args.append([dev, port, gid, ADDRESS, "00:00:00:00:00:00"])

    base.RDMATestCase._get_ip_mac = place
    base.RDMACMBaseTest._add_gids_per_port = lambda self, context, dev, port: place(
        self, dev, port, 0
    )
    result = Lines()
    for module in modules:
        suite = unittest.defaultTestLoader.loadTestsFromModule(import_module(f"tests.{module}"))
        for test in tests_of(suite):
            if not re.search(left_out, test.id()):
                test.run(result)


if __name__ == "__main__":
    main(*sys.argv[1:])
