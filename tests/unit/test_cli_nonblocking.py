# SPDX-License-Identifier: BSD-3-Clause
"""Standard streams that do not block, as a program on the same terminal or pipe may set them: a
command waits for its data and for room, and loses nothing.
"""

from __future__ import annotations

import array
import fcntl
import os
import subprocess
import sys
import termios
import time
from pathlib import Path

from nvmf.initiator.sync import connect
from support.clientlab import OPTIONS, RAM, config

TARGET_CONFIG = config(RAM)
PROGRAM = [sys.executable, "-m", "nvmf.cli.main"]
NVMETCLI = b'{"hosts": [], "ports": [], "subsystems": []}'
ANSWER_S = 120


def unread(pipe: int) -> int:
    """Return the number of bytes in a pipe."""
    found = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, found)
    return found[0]


def fed(*args: object, pieces: list[bytes]) -> subprocess.CompletedProcess[bytes]:
    """Run a command whose stdin does not block; each piece follows when it has read the last."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with subprocess.Popen(
        [*PROGRAM, *map(str, args)], stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        for piece in pieces:
            if running.poll() is not None:
                break
            os.write(writer, piece)
            while unread(reader) and running.poll() is None:
                time.sleep(0.001)
        os.close(writer)
        os.close(reader)
        out, err = running.communicate(timeout=ANSWER_S)
    assert b"Traceback" not in err, err.decode()
    return subprocess.CompletedProcess(running.args, running.returncode, out, err)


def test_a_write_takes_all_of_its_input(where: str) -> None:
    pieces = [bytes([n]) * 4096 for n in range(1, 33)]
    done = fed("write", where, pieces=pieces)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(b"write: 131072 bytes")
    with connect(where, **OPTIONS) as controller:
        assert controller.namespace(1).pread(131072, 0) == b"".join(pieces)


def test_a_read_waits_for_room(where: str) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with subprocess.Popen(
        [*PROGRAM, "read", where, "-z", "1MiB"], stdout=writer, stderr=subprocess.PIPE
    ) as running:
        os.close(writer)
        while unread(reader) < 65536 and running.poll() is None:
            time.sleep(0.001)
        with open(reader, "rb") as file:
            data = file.read()
        _, err = running.communicate(timeout=ANSWER_S)
    assert running.returncode == 0, err.decode()
    assert len(data) == 1 << 20


def test_a_data_structure_in_pieces(where: str) -> None:
    done = fed("set-feature", where, "-f", "0x0e", "-V", "0", "-d", "-", pieces=[b"\1", bytes(7)])
    assert done.returncode == 0, done.stderr


def test_a_capture_in_pieces(where: str, tmp_path: Path) -> None:
    path = tmp_path / "list.pcapng"
    words = [*PROGRAM, "capture", str(path), "--", *PROGRAM, "list-ns", "--device", "iwarp", where]
    subprocess.run(words, capture_output=True, check=True, timeout=ANSWER_S)
    data = path.read_bytes()
    step = len(data) // 8 + 1
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    whole = subprocess.run(
        [*PROGRAM, "explain", path], capture_output=True, check=False, timeout=ANSWER_S
    )
    assert b"Identify" in whole.stdout
    assert fed("explain", "-", pieces=pieces).stdout == whole.stdout


def test_a_text_in_pieces() -> None:
    """A part of a configuration may be a valid one."""
    done = fed("config", "import", "-", pieces=[NVMETCLI[:10], NVMETCLI[10:]])
    assert done.returncode == 0, done.stderr
    assert b"there is no RDMA port" in done.stderr


def test_commands_of_the_shell_in_pieces(tmp_path: Path) -> None:
    """Each runs when its line is there; those after a pause are not left out."""
    sock = str(tmp_path / "s")
    words = [*PROGRAM, "target", "serve", "--ram", "1MiB", "-s", "0", "--rpc-socket", sock]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as target:
        assert target.stdout is not None
        target.stdout.readline()
        done = fed(
            "target", "shell", "--rpc-socket", sock, pieces=[b"cd subsy", b"stems\npwd", b"\n"]
        )
        target.terminate()
    assert (done.returncode, done.stdout) == (0, b"/subsystems\n"), done.stderr
