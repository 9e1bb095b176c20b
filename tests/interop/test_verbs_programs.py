# SPDX-License-Identifier: BSD-3-Clause
"""Verbs programs that others wrote run on the embedded devices."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

NVMEOF = [sys.executable, "-m", "nvmf.cli.main"]
LIMIT = 60.0
WR_USER = Path(__file__).parents[1] / "support" / "wr_user.c"

PERFTEST = [f"ib_{what}_{kind}" for what in ("send", "write", "read") for kind in ("bw", "lat")]
CONNECTED = [
    ["rping", "-C", "10", "-v"],
    ["rdma_server"],
    ["ucmatose", "-C", "10"],
    *([program, "-R", "-n", "100"] for program in PERFTEST),
]
"""Programs that connect by librdmacm.

The server of perftest closes its listener and listens again on the same port.
"""

ATOMIC = ["ib_atomic_bw", "ib_atomic_lat"]
ROCE = [
    ["ibv_rc_pingpong", "-g", "0", "-n", "100"],
    ["ibv_rc_pingpong", "-g", "0", "-n", "100", "-e", "-N"],
    ["ibv_srq_pingpong", "-g", "0", "-n", "100"],
    *([program, "-x", "0", "-n", "100"] for program in PERFTEST),
    *([program, *how, "-n", "100"] for program in ATOMIC for how in (["-x", "0"], ["-R"])),
]
"""Programs that connect their queue pairs by hand, or need what iWARP does not have."""

CASES = [(device, words) for device in ("iwarp", "roce") for words in CONNECTED]
CASES += [("roce", words) for words in ROCE]


def on(device: str, *words: str) -> list[str]:
    return [*NVMEOF, "verbs", "--device", device, "--", *words]


def installed(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def ends(words: list[str], port: int) -> tuple[list[str], list[str]]:
    """Return the command lines of the server and of the client."""
    program, *rest = words
    number = ["-p", str(port)]
    if program == "rping":
        there = ["-a", "127.0.0.1", *number, *rest]
        return [program, "-s", *there], [program, "-c", *there]
    if program == "ucmatose":
        return [program, *rest, *number], [program, *rest, *number, "-s", "127.0.0.1"]
    if program == "rdma_server":
        return [program, *number], ["rdma_client", "-s", "127.0.0.1", *number]
    return [program, *rest, *number], [program, *rest, *number, "127.0.0.1"]


def crashed(words: list[str], client: subprocess.CompletedProcess[str]) -> bool:
    """Return whether rping's client crashed, as it may after it has disconnected.

    It frees its event channel while its other thread may still call rdma_get_cm_event with it,
    with the system's library too. Only the server's output then tells whether the client has done
    its work.
    """
    return words[0] == "rping" and client.returncode in (-signal.SIGBUS, -signal.SIGSEGV)


def attempt(device: str, words: list[str]) -> str:
    """Run a server and its client; return the error, or an empty string."""
    server_words, client_words = ends(words, free_port())
    server = subprocess.Popen(
        on(device, *server_words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        deadline = time.monotonic() + LIMIT
        while True:  # until the server listens
            try:
                client = subprocess.run(
                    on(device, *client_words), capture_output=True, text=True, timeout=LIMIT
                )
            except subprocess.TimeoutExpired:
                return "the client has not ended"
            if not client.returncode or crashed(words, client):
                break
            if server.poll() is not None or time.monotonic() > deadline:
                return f"the client's status is {client.returncode}: {client.stdout}{client.stderr}"
        output = server.communicate(timeout=LIMIT)[0]
        whole = words[0] != "rping" or "server ping data: rdma-ping-9: " in output
        if server.returncode or not whole:
            return f"the server's status is {server.returncode}: {output}"
        return ""
    except subprocess.TimeoutExpired:
        return "the server has not ended"
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize(("device", "words"), CASES, ids=lambda value: "".join(value))
def test_program_reaches_itself(device: str, words: list[str]) -> None:
    installed(words[0])
    assert not attempt(device, words)


@pytest.mark.parametrize("device", ["iwarp", "roce"])
def test_devices_are_listed(device: str) -> None:
    installed("ibv_devinfo")
    short = subprocess.run(on(device, "ibv_devices"), capture_output=True, text=True, check=True)
    assert f"{device}0" in short.stdout
    words = on(device, "ibv_devinfo", "-v")
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert f"hca_id:\t{device}0" in done.stdout
    assert "PORT_ACTIVE" in done.stdout


def test_iwarp_connects_nothing_by_hand() -> None:
    """Fails with a message, and does not crash: an iWARP connection begins with MPA's handshake."""
    installed("ibv_rc_pingpong")
    server_words, client_words = ends(["ibv_rc_pingpong", "-g", "0"], free_port())
    server = subprocess.Popen(on("iwarp", *server_words), stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + LIMIT
        while server.poll() is None and time.monotonic() < deadline:
            subprocess.run(on("iwarp", *client_words), capture_output=True, timeout=LIMIT)
        assert "Failed to modify QP to RTR" in server.communicate(timeout=LIMIT)[1]
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("device", ["iwarp", "roce"])
def test_work_in_batches(device: str, tmp_path: Path) -> None:
    """A program that uses ibv_wr_start and so on with librdmacm, as SPDK does."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path / "wr_user"
    built = subprocess.run(
        [compiler, "-O1", "-o", program, WR_USER, "-libverbs", "-lrdmacm"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert not built.returncode, built.stderr
    words = on(device, str(program), "127.0.0.1")
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr


def test_program_must_exist() -> None:
    done = subprocess.run(on("iwarp", "no-such-program"), capture_output=True, text=True)
    assert done.returncode == 1
    assert "cannot run no-such-program: No such file or directory" in done.stderr


def test_program_must_be_named() -> None:
    done = subprocess.run(on("iwarp"), capture_output=True, text=True)
    assert done.returncode == 2
    assert "specify the program to run" in done.stderr
