# SPDX-License-Identifier: BSD-3-Clause
"""Programs that end with open files, iterators and connections of the synchronous client."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

import nvmf.target.sync

HEAD = """
import io, sys
from nvmf.initiator.sync import connect, connect_all, watch

url = sys.argv[1]
port = url.rpartition("/")[0]
disk = connect(url, device="iwarp").namespace(1)
"""
OPEN = {
    "a file": """
        file = disk.open("r+b")
        file.write(b"x" * 1000)
    """,
    "a buffered file": """
        file = io.BufferedRandom(disk.open("r+b"))
        file.write(b"x" * 1000)
    """,
    "a stream": """
        chunks = disk.stream(chunk=4096)
        next(chunks)
    """,
    "connect_all": """
        outcomes = connect_all(port, device="iwarp")
        outcome = next(outcomes)
    """,
    "watch": """
        watching = watch(port, device="iwarp")
        changes = watching.__enter__()
        next(changes)
    """,
    "a connection in a generator": """
        def blocks():
            with connect(url, device="iwarp") as controller:
                while True:
                    yield controller.namespace(1).read(0, 1)

        each = blocks()
        next(each)
    """,
}


@pytest.fixture(scope="module")
def where() -> Iterator[str]:
    with nvmf.target.sync.serve(ram="1MiB") as target:
        yield target.url


@pytest.mark.parametrize("program", OPEN.values(), ids=OPEN.keys())
def test_the_program_ends(where: str, program: str) -> None:
    words = [sys.executable, "-c", HEAD + textwrap.dedent(program), where]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
