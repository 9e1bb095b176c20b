# SPDX-License-Identifier: BSD-3-Clause
"""The log of a target at a stderr that nobody reads, or reads slowly."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest

from nvmf.initiator.sync import connect
from nvmf.target.logs import patient
from nvmf.target.logs.patient import PatientHandler

SMALL = 4096
"""Bytes of a pipe: its minimum."""


@contextmanager
def small_pipe() -> Iterator[tuple[int, TextIO]]:
    """A pipe, and its other end as a stream."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SMALL)
    with os.fdopen(writing, "w") as stream:
        try:
            yield reading, stream
        finally:
            os.close(reading)


def line(number: int) -> logging.LogRecord:
    return logging.LogRecord("nvmf.target", logging.INFO, "x.py", 1, "line %d", (number,), None)


def read_lines(reading: int, most: int) -> list[str]:
    """Return the next lines of a pipe."""
    found = b""
    while found.count(b"\n") < most and (piece := os.read(reading, 65536)):
        found += piece
    return found.decode().splitlines()


def test_a_target_whose_log_nobody_reads(tmp_path: Path) -> None:
    """Hosts connect, and use it; no line is lost."""
    with small_pipe() as (reading, stream):
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "nvmf.cli.main", "target", "serve", "--ram", "1MiB"),
                *("-s", "0", "--rpc-socket", str(tmp_path / "s")),
            ],
            stdout=subprocess.PIPE, stderr=stream, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        stream.close()
        try:
            assert process.stdout is not None
            found = re.match(rb"listening on (\S+) ", process.stdout.readline())
            assert found is not None
            url = f"nvme+rdma://{found[1].decode()}/nqn.2026-01.example:disk"
            for _ in range(30):
                with connect(url, device="iwarp") as controller:
                    controller.namespaces[0].write(0, b"\1" * 512)
            process.send_signal(signal.SIGTERM)
            said = b""
            while piece := os.read(reading, 65536):
                said += piece
            assert len(said) > SMALL
            assert said.count(b": connected") >= 30
            assert b": stopping\n" in said, said[-1000:]
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def test_lines_wait_in_order() -> None:
    with small_pipe() as (reading, stream):
        handler = PatientHandler(stream)
        for number in range(2000):
            handler.handle(line(number))
        assert read_lines(reading, 2000) == [f"line {number}" for number in range(2000)]
        handler.close()
        handler.handle(line(1))
        assert read_lines(reading, 1) == ["line 1"]
        assert "nvmf-log" not in [one.name for one in threading.enumerate()]


def test_lost_lines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "WAITING_MOST", 100)
    with small_pipe() as (reading, stream):
        handler = PatientHandler(stream)
        for number in range(2000):
            handler.handle(line(number))
        text, lost, numbers = "", 0, [-1]
        while lost + len(numbers) - 1 < 2000:
            text += os.read(reading, 65536).decode()
            *lines, text = text.split("\n")
            for one in lines:
                if said := re.fullmatch(r"(\d+) lines of the log were lost: .*", one):
                    lost += int(said[1])
                else:
                    numbers.append(int(one.removeprefix("line ")))
        assert lost
        assert numbers == sorted(set(numbers))
        handler.close()


def test_a_stream_that_does_not_block() -> None:
    with small_pipe() as (reading, stream):
        os.set_blocking(stream.fileno(), False)
        handler = PatientHandler(stream)
        for number in range(2000):
            handler.handle(line(number))
        assert len(read_lines(reading, 2000)) == 2000
        handler.close()


@pytest.mark.parametrize("again", [True, False])
def test_a_terminal_that_nobody_reads(monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    """It has room for a part of a line; perhaps it cannot be opened again."""
    reading, writing = pty.openpty()
    if not again:
        monkeypatch.setattr(os, "open", partial(refuse_to_open, os.open))
    with os.fdopen(writing, "w") as stream:
        handler = PatientHandler(stream)
        # In a thread, which a failure leaves behind: it would wait forever.
        caller = threading.Thread(target=log_lines, args=(handler, 2000), daemon=True)
        caller.start()
        caller.join(10)
        assert not caller.is_alive(), "it waits for the reader"
        assert read_lines(reading, 2000) == [f"line {number}".rjust(300) for number in range(2000)]
        handler.close()
        handler.close()
        handler.handle(line(1))
        assert read_lines(reading, 1) == ["line 1"]
    os.close(reading)


def log_lines(handler: PatientHandler, count: int) -> None:
    for number in range(count):
        record = line(number)
        record.msg, record.args = f"line {number}".rjust(300), ()
        handler.handle(record)


def refuse_to_open(plainly: Callable[[str, int], int], path: str, flags: int) -> int:
    if path.startswith("/proc/self/fd/"):
        raise PermissionError(errno.EACCES, path)
    return plainly(path, flags)


def test_the_end_does_not_wait_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "LAST_SECONDS", 0.01)
    with small_pipe() as (reading, stream):
        handler = PatientHandler(stream)
        for number in range(2000):
            handler.handle(line(number))
        handler.close()
        assert len(read_lines(reading, 2000)) == 2000


def test_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines wait for one, in order; and a record that cannot be formatted disturbs nobody."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with small_pipe() as (reading, stream):
        handler = PatientHandler(stream)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for number in range(9):
                handler.handle(line(number))
        assert os.read(reading, 65536).startswith(b"line 0\n")
        wrong = line(9)
        wrong.args = ("no number",)
        handler.handle(wrong)
        handler.handle(line(9))
        found = read_lines(reading, 1)
        while found[-1] != "line 9":
            found += read_lines(reading, 1)
        assert found == [f"line {number}" for number in range(10 - len(found), 10)]
        handler.close()


def test_a_terminal_without_unicode() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="ascii") as stream:
        record = line(1)
        record.msg, record.args = "nqn.ä", ()
        PatientHandler(stream).handle(record)
        assert read_lines(reading, 1) == [r"nqn.\xe4"]
    os.close(reading)


def test_nobody_can_read() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        handler = PatientHandler(stream)
        handler.handle(line(1))
        handler.close()
    PatientHandler(None).handle(line(1))
    handler.handle(line(2))
