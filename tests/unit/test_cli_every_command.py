# SPDX-License-Identifier: BSD-3-Clause
"""Every command about a namespace, a controller or a running target: on terminals of 80 and of 200
columns, piped, and as JSON; and the message if there is no target.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.clientlab import url
from support.walk import NQN, PROGRAM, Serving, on_terminal

CONTROLLER = (
    "id-ctrl", "id-ctrl -H", "id-ns -n 1", "id-ns -n 1 -H", "list-ns", "smart-log", "error-log",
    "ana-log", "changed-ns-list-log", "get-log -i 2 -l 512", "get-feature -f 7 -H",
    "get-feature -f 0x0e", "set-feature -f 0x0b -V 0x100", "show-regs", "resv-report",
)  # fmt: skip
"""Commands that show something of a controller or namespace."""
BLOCKS = (
    "flush", "write-zeroes -s 8 -c 1 -f", "verify -s 8 -c 1", "dsm -d -s 8,16 -b 2,2",
    "copy -d 200 -s 8,16 -b 1,1",
    "write-uncor -s 100", "write-zeroes -s 100", "read -s 0 -c 7 -d {out}", "write -s 0 -d {block}",
    "compare -s 0 -d {block}", "compare-and-write --expected {one} -d {one} -f",
    "resv-register --nrkey 1", "bench --runtime 100ms --force",
)  # fmt: skip
"""Commands on blocks."""
TARGET = (
    "target ls", "target stats", "rpc target_get_memory",
    "target log-level",
)  # fmt: skip
"""Commands to the running target."""
ALONE = (
    "devices", "show-hostnqn", "gen-hostnqn", "gen-dhchap-key --hmac 1", "doctor",
    "target ls --help", "list",
)  # fmt: skip
"""Commands without a target."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("every")
    (made / "block").write_bytes(bytes(4096))
    (made / "one").write_bytes(bytes(512))
    return made


@pytest.fixture(scope="module")
def target(folder: Path) -> Iterator[Serving]:
    serving = Serving(folder, "--ram", "8MiB", "--trsvcid", "0")
    yield serving
    serving.end()


def words_of(command: str, folder: Path, where: str = "") -> list[str]:
    filled = command.format(
        block=folder / "block", one=folder / "one", out=folder / f"out-{os.getpid()}"
    )
    first, *rest = shlex.split(filled)
    return [*PROGRAM, first, *([where] if where else []), *rest]


def many(calls: list[list[str]], columns: int, target: Serving) -> list[tuple[int, str]]:
    """Run commands two at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda one: on_terminal(one, columns, target.environment), calls))


@pytest.mark.parametrize("columns", [80, 200])
def test_on_a_terminal(target: Serving, folder: Path, columns: int) -> None:
    """No table is wider than the terminal, which wraps sentences itself."""
    where = url(target.port, NQN)
    calls = [words_of(one, folder, where) for one in CONTROLLER]
    calls += [words_of(one, folder) for one in (*TARGET, *ALONE)]
    for words, (status, said) in zip(calls, many(calls, columns, target), strict=True):
        shown = shlex.join(words[len(PROGRAM) :])
        assert status in ((0, 1) if "doctor" in words else (0,)), (shown, said)
        assert "Traceback" not in said
        if re.search(r"^-+( +-+)+$", said, re.MULTILINE):
            assert max(map(len, said.splitlines())) <= columns, shown


def test_the_list_of_methods(target: Serving) -> None:
    """A terminal has summaries in several lines, a pipe one line for each method."""
    words = [*PROGRAM, "rpc", "--list"]
    said = on_terminal(words, 80, target.environment)[1].splitlines()
    assert max(map(len, said)) <= 80
    listed = subprocess.check_output(words, text=True, timeout=300).splitlines()
    assert [line.split()[0] for line in listed] == [
        line.split()[0] for line in said if line[:1] != " "
    ]


def test_blocks(target: Serving, folder: Path) -> None:
    """The commands run in this order, because they change blocks; piped, as text and as JSON."""
    where = url(target.port, NQN)
    for command in BLOCKS:
        for more in ([], ["-o", "json"]):
            done = subprocess.run(
                [*words_of(command, folder, where), *more], env=target.environment,
                capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stderr)
            assert "1 blocks" not in done.stdout + done.stderr
            if more and done.stdout:
                json.loads(done.stdout)


def test_json(target: Serving, folder: Path) -> None:
    where = url(target.port, NQN)
    calls = [[*words_of(one, folder, where), "-o", "json"] for one in CONTROLLER]
    calls += [[*words_of(one, folder), "-o", "json"] for one in TARGET if one.startswith("target")]
    for words in calls:
        done = subprocess.run(
            words, env=target.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), words
        json.loads(done.stdout)


def test_there_is_no_target(target: Serving, folder: Path) -> None:
    """The error is one line with the attempt and the cause; in JSON if that was requested."""
    nobody = url(1, NQN)
    for command in (*CONTROLLER, *BLOCKS):
        words = words_of(command, folder, nobody)
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == (2 if words[len(PROGRAM)].startswith("compare") else 1), command
        assert "refused" in done.stderr, (command, done.stderr)
        assert not done.stdout
        assert done.stderr.count("\n") == 1, (command, done.stderr)
    done = subprocess.run(
        [*words_of("id-ctrl", folder, nobody), "-o", "json"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "refused" in json.loads(done.stdout)["error"]
