# SPDX-License-Identifier: BSD-3-Clause
"""Every command that changes a running target, on a terminal: its output, and the message after a
mistake.
"""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from support.walk import NQN, PROGRAM, Serving, on_terminal

LAB = "nqn.2026-01.example:lab"
HOST = "nqn.2014-08.org.example:laptop"
CONFIG = f"""
[target]
state_dir = "{{folder}}/state"
[[port]]
trsvcid = 0
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
[[subsystem.namespace]]
store = "ram"
size = "1MiB"
"""
STEPS: tuple[tuple[str, int, str], ...] = (
    ("subsystem add {lab}", 0, "subsystem {lab} was added"),
    ("subsystem add {lab}", 1, "subsystem {lab} already exists"),
    ("subsystem add ''", 1, "NQN"),
    ("host allow {lab} {host}", 0, "{host} may connect to {lab}"),
    ("host allow {lab} {host}", 1, "{host} is already allowed"),
    ("host remove {lab} {host}", 0, "{host} may no longer connect to {lab}"),
    ("host remove {lab} {host}", 1, "{host} is not an allowed host of {lab}"),
    ("host set-keys {lab} {host}", 2, "--dhchap-key FILE"),
    ("host allow {lab} --any", 0, "every host may connect to {lab}"),
    ("namespace add {lab} --store file --path {folder}/a", 0, "namespace 1 of {lab} was added"),
    ("namespace resize {lab} 1", 0, "now has 1048576 bytes (1.00 MiB)"),
    ("namespace resize {lab} 9", 1, "there is no namespace 9 in {lab}"),
    ("namespace replace {lab} 1 --store file --path {folder}/b", 0, "now uses {folder}/b"),
    ("namespace mask {lab} 1 --host {host}", 0, "is visible to {host}"),
    ("namespace mask {lab} 1 --all", 0, "is visible to every host"),
    ("namespace limit {lab} 1 --iops 1000", 0, "1000/s"),
    ("namespace limit {lab} 1 --clear", 0, "no limits"),
    ("namespace limit {lab} 1 --clear --iops 1", 2, "--clear removes all limits"),
    ("namespace protect {lab} 1 protected", 0, "is write protected"),
    ("namespace protect {lab} 1 permanent <<< no", 1, "not confirmed: nothing was changed"),
    ("namespace protect {lab} 1 none", 0, "is not write protected"),
    ("namespace protect {lab} 1 permanent <<< yes", 0, "is permanently write protected"),
    ("namespace protect {lab} 1 none", 1, "write protected permanently"),
    ("namespace remove {lab} 1", 0, "namespace 1 of {lab} was removed"),
    ("namespace remove {lab} 1", 1, "there is no namespace 1 in {lab}"),
    ("port add -a 127.0.0.1 -s 0", 0, "listening on 127.0.0.1 port "),
    ("port remove -a 127.0.0.1 -s 1", 1, "there is no port 127.0.0.1:1"),
    ("ana set -a 127.0.0.1 -s 1 optimized", 1, "there is no port 127.0.0.1:1"),
    ("ana set -a 127.0.0.1 good", 2, "invalid choice: 'good'"),
    ("save {folder}/saved.toml", 0, "{folder}/saved.toml was written"),
    ("save", 2, "specify a FILE"),
    ("reload", 1, "was started without a configuration file"),
    ("clear", 0, "2 ports removed, 2 subsystems removed"),
    ("restore {folder}/saved.toml", 0, "2 ports added, 2 subsystems added"),
    ("restore {folder}/absent.json", 1, "cannot read {folder}/absent.json"),
    ("shell /subsystems ls", 0, "{lab}: any host"),
    ("shell ls /nothing", 1, "there is no nothing in /"),
    ("fault list", 0, "no faults"),
    ("fault remove", 2, "--all"),
    ("fault add delay --delay 1ms --seconds nan", 2, "'nan' is not a number"),
    ("stats", 0, "reactor"),
    ("subsystem remove {lab}", 0, "subsystem {lab} was removed"),
    ("subsystem remove {lab}", 1, "there is no subsystem {lab}"),
)
"""Commands of `nvmeof target` with what is typed at a question, status, part of the output."""


@pytest.mark.parametrize("columns", [80, 200])
def test_in_order(tmp_path: Path, columns: int) -> None:
    """A failure is one line, without a traceback."""
    (tmp_path / "state").mkdir()
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    (tmp_path / "b").write_bytes(bytes(2 << 20))
    names = {"lab": LAB, "host": HOST, "folder": tmp_path}
    serving = Serving(tmp_path, "-", stdin=CONFIG.format(folder=tmp_path))
    try:
        for step, wanted, answer in STEPS:
            command, _, typed = step.format(**names).partition(" <<< ")
            words = [*PROGRAM, "target", *shlex.split(command)]
            status, said = on_terminal(
                words, columns, serving.environment, typed=f"{typed}\n" if typed else ""
            )
            assert status == wanted, (command, said)
            assert answer.format(**names) in said, command
            if status and not typed:
                assert said.count("\n") == 1, (command, said)
    finally:
        serving.end()


def test_an_interrupt_at_a_question() -> None:
    """The message is on a separate line."""
    master, slave = pty.openpty()
    words = [*PROGRAM, "target", "namespace", "protect", NQN, "1", "permanent"]
    with subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave) as running:
        os.close(slave)
        said = b""
        while not said.endswith(b"continue: "):
            said += os.read(master, 4096)
        running.send_signal(signal.SIGINT)
        answer = b""
        while not answer.endswith(b"interrupted\r\n"):
            answer += os.read(master, 4096)
        assert running.wait(300) == 130
    assert answer == b"\r\nnvmeof target namespace protect: interrupted\r\n"
    os.close(master)
