# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof capture`: records the packets of the RDMA devices of processes."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn

from nvmf.capture.errors import CaptureError, UnwrittenError
from nvmf.capture.record import VARIABLE, Recorded, Recorder
from nvmf.capture.wireshark import lua_script
from nvmf.cli.base import (
    EXIT_FAILED,
    EXIT_OK,
    CliError,
    Subparsers,
    Terminated,
    UsageError,
    size_argument,
)
from nvmf.cli.output import counted, print_json, size_text
from nvmf.cli.target.client import add_rpc_command, socket_path, target
from nvmf.rpc import alive
from nvmf.rpc.wire import silence

_GRACE = 2.0
"""Seconds after the end of the command for its processes to send what they have."""
_PATIENCE = 10.0
"""Seconds for a command to end after SIGTERM, before SIGKILL."""


def add_commands(subparsers: Subparsers) -> None:
    """Add capture."""
    parser = add_rpc_command(
        subparsers,
        "capture",
        run,
        "record the packets of a command or of a running target",
        "Writes the packets of RDMA devices as pcapng, for nvmeof explain, Wireshark and tshark. "
        "No privileges are needed. With a COMMAND, the packets of all of its processes are "
        "recorded until it ends; without one, those of the running target, until Ctrl-C. The "
        "payloads of the embedded devices' packets (iwarp, roce) are those on the wire. The "
        "system's devices do not show theirs: for these, iWARP packets are synthesised from "
        "capsules, RDMA READs and WRITEs, whatever the device is, and have a comment that says "
        "so.\n\n"
        "IP and TCP headers are made for the file, because a process does not see those on the "
        "wire; sequence numbers count from 1. If the file is slower than the devices, packets lose "
        "their data first and are then dropped; the file has their number. The file contains the "
        "data of all reads and writes, and only its owner can read it.\n\n"
        "With a COMMAND the exit status is that of the command.",
        examples=(
            "nvmeof capture io.pcapng -- nvmeof read "
            "nvme+rdma://127.0.0.1/nqn.2026-01.example:disk -z 4k -d block0.bin",
            "nvmeof capture --last 10 --until-error error.pcapng",
            "nvmeof capture - | wireshark -k -i -",
        ),
    )
    parser.add_argument(
        "--duration", metavar="SECONDS", type=_seconds, default=0.0, help="stop after this time"
    )
    parser.add_argument(
        "--size",
        metavar="BYTES",
        type=size_argument,
        default=0,
        help="stop at this size of the file; with --last, limit of the packets kept in memory "
        "(default: none; 256 MiB)",
    )
    parser.add_argument(
        "--last",
        metavar="SECONDS",
        type=_seconds,
        default=0.0,
        help="keep the packets of the last SECONDS in memory, and write them at the end",
    )
    parser.add_argument(
        "--until-error",
        action="store_true",
        help="stop at a failed command, a Terminate, or a violation of a specification",
    )
    parser.add_argument(
        "--lua",
        action="store_true",
        help="print the path of a script with which Wireshark and tshark show NVMe-oF over iWARP "
        "(tshark -X lua_script:PATH)",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="the file; - is stdout")
    parser.add_argument(
        "command",
        metavar="COMMAND",
        nargs=argparse.REMAINDER,
        help="a command with its arguments; options of nvmeof capture come before FILE",
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return value


def run(args: argparse.Namespace) -> int:
    """Record."""
    if args.lua:
        if args.file is not None:
            raise UsageError("--lua prints a path: it cannot be combined with a file")
        if args.output_format == "json":
            print_json({"script": str(lua_script())})
        else:
            print(lua_script())
        return EXIT_OK
    if args.file is None:
        raise UsageError("specify the file to write, or - for stdout")
    if args.command[:1] == ["--"]:
        args.command = args.command[1:]
    if args.command and args.command[0].startswith("-"):
        raise UsageError(f"put {args.command[0]} before {args.file}: a command follows the file")
    if args.file == "-" and (args.output_format == "json" or args.command):
        raise UsageError("the capture goes to stdout: -o json and a COMMAND need a file")
    try:
        with _opened(args.file) as out:
            return _command(args, out) if args.command else _target(args, out)
    except UnwrittenError as error:
        if args.file == "-" and isinstance(error.error, BrokenPipeError):
            raise error.error from None
        raise CliError(
            f"cannot write {'to stdout' if args.file == '-' else args.file}: "
            f"{error.error.strerror or error.error}; it has {counted(error.packets, 'packet')}"
        ) from None
    except CaptureError as error:
        raise CliError(str(error)) from None


@contextlib.contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open a file for its owner, or stdout; unbuffered, for the recorder."""
    if name == "-":
        with open(sys.stdout.fileno(), "wb", buffering=0, closefd=False) as out:
            yield out
        return
    with open(
        name, "wb", buffering=0, opener=lambda path, flags: os.open(path, flags, 0o600)
    ) as out:
        yield out


@contextlib.contextmanager
def _raising(*numbers: signal.Signals) -> Iterator[None]:
    """Let SIGTERM raise Terminated, and SIGINT KeyboardInterrupt, even if it was ignored."""

    def terminated(*_: object) -> NoReturn:
        raise Terminated

    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(
            number, terminated if number == signal.SIGTERM else signal.default_int_handler
        )
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _delayed(*numbers: signal.Signals) -> Iterator[None]:
    """Have signals that are not ignored take effect at the end of the block."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in numbers
        if signal.getsignal(number) != signal.SIG_IGN  # what a command inherits
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


def _recorder(args: argparse.Namespace, out: BinaryIO, uid: int | None) -> Recorder:
    return Recorder(out, most=args.size, last=args.last, until_error=args.until_error, uid=uid)


def _target(args: argparse.Namespace, out: BinaryIO) -> int:
    """Record the running target."""
    path = socket_path(args)
    try:
        uid = path.stat().st_uid
    except OSError:
        uid = None  # the connection below fails with a sentence
    # A script's shell starts background jobs with SIGINT ignored.
    with _raising(signal.SIGTERM, signal.SIGINT):
        recorder = _recorder(args, out, uid)
        try:
            with target(args) as rpc:
                rpc.capture(recorder.name)
            with contextlib.suppress(KeyboardInterrupt):
                _loop(args, recorder, path)
        finally:
            recorded = recorder.close()
    return _report(args, recorded, EXIT_OK)


def _command(args: argparse.Namespace, out: BinaryIO) -> int:
    """Record a command, which does not outlive the recording of its end."""
    process: subprocess.Popen[bytes] | None = None
    with _raising(signal.SIGTERM):
        recorder = _recorder(args, out, None)
        try:
            try:
                # A signal within Popen() would leave a command of which nobody knows.
                with _delayed(signal.SIGTERM, signal.SIGINT):
                    process = _started(args, recorder)
                status = _until_its_end(args, recorder, process)
            except Terminated:
                if process is None:
                    raise
                process.terminate()
                status = _until_its_end(args, recorder, process)
            except KeyboardInterrupt:  # the command has got it, too
                if process is None:
                    raise
                status = _until_its_end(args, recorder, process)
        finally:
            try:
                recorded = recorder.close()
            finally:
                if process is not None:
                    _end(process)
    return _report(args, recorded, status if status >= 0 else 128 - status)


def _started(args: argparse.Namespace, recorder: Recorder) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(args.command, env={**os.environ, VARIABLE: recorder.name})
    except OSError as error:
        raise CliError(f"cannot run {args.command[0]}: {error.strerror}") from None


def _until_its_end(
    args: argparse.Namespace, recorder: Recorder, process: subprocess.Popen[bytes]
) -> int:
    """Record until a limit is reached, and return the status of the command."""
    _loop(args, recorder, process=process)
    return process.wait()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command whose recording has failed, if it runs."""
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _loop(
    args: argparse.Namespace,
    recorder: Recorder,
    socket: Path | None = None,
    process: subprocess.Popen[bytes] | None = None,
) -> None:
    """Record until a limit is reached, the command has ended, or the target at a path has.

    Raises:
        CliError: The target answers nothing.
    """
    end = time.monotonic() + args.duration if args.duration else None
    grace: float | None = None
    heard = time.monotonic()
    while not recorder.recorded.stopped:
        now = time.monotonic()
        if end is not None and now >= end:
            return
        if recorder.step(0.1 if end is None else min(0.1, max(0.0, end - now))):
            heard = now
        elif socket is not None and now - heard >= alive.ASK_AFTER:
            if not alive.answers(socket) and not recorder.step(0):
                raise CliError(silence(socket, time.monotonic() - heard))
            heard = now
        if process is None:
            if recorder.recorded.processes and not recorder.connected:
                recorder.recorded.stopped = "the target has ended"
                return
        elif process.poll() is not None:
            grace = now + _GRACE if grace is None else grace
            if not recorder.connected or now >= grace:
                recorder.step(0)
                if not recorder.connected or now >= grace:
                    return


def _report(args: argparse.Namespace, recorded: Recorded, status: int) -> int:
    if not recorded.processes and status == EXIT_OK:
        raise CliError(
            f"{args.command[0] if args.command else 'the target'} did not use an RDMA device "
            "itself: there are no packets (for the kernel's host and target, use tcpdump)",
            EXIT_FAILED,
        )
    if args.output_format == "json":
        print_json(
            {
                "file": args.file,
                "packets": recorded.packets,
                "bytes": recorded.bytes,
                "processes": recorded.processes,
                "packets_without_data": recorded.without_data,
                "dropped": recorded.dropped,
                "stopped": recorded.stopped or None,
            }
        )
        return status
    processes = counted(recorded.processes, "process", "processes")
    words = f"{counted(recorded.packets, 'packet')} of {processes}"
    words += f" in {args.file}, {size_text(recorded.bytes)}"
    if recorded.without_data:
        words += f"; {recorded.without_data} without their data"
    if recorded.dropped:
        words += f"; {recorded.dropped} dropped"
    if recorded.stopped:
        words += f"; stopped: {recorded.stopped}"
    print(f"capture: {words}", file=sys.stderr)
    return status
