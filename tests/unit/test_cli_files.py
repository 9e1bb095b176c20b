# SPDX-License-Identifier: BSD-3-Clause
"""Commands with a configuration file: devices and pipes in its place, and the warnings."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvmf.config import advice, loads
from support.capturelab import PROGRAM
from support.served import SUBNQN, TIMEOUT, Served, config


def nvmeof(*words: object, stdin: str = "") -> tuple[int, str, str]:
    """Run a command with limited memory, which an endless file would exceed."""
    done = subprocess.run(
        ["sh", "-c", 'ulimit -v 4000000; exec "$@"', "sh", *PROGRAM, *map(str, words)],
        capture_output=True, text=True, timeout=TIMEOUT, check=False, input=stdin,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), config()) as served:
        yield served.wait_ready()


@pytest.mark.parametrize(
    ("words", "failed"),
    [
        (("explain", "/dev/zero"), 2),
        (("config", "check", "/dev/zero"), 1),
        (("config", "import", "/dev/zero"), 1),
        (("config", "export", "/dev/zero"), 1),
        (("target", "serve", "/dev/zero"), 1),
    ],
)
def test_a_device_is_not_a_file(words: tuple[str, ...], failed: int) -> None:
    status, _, err = nvmeof(*words)
    assert status == failed
    assert "/dev/zero" in err
    assert "it is a device, not a file" in err


def test_a_configuration_in_a_pipe() -> None:
    """A shell's <(...) is a pipe with a path."""
    status, out, err = nvmeof("config", "check", "/dev/stdin", stdin=config())
    assert (status, err) == (0, "")
    assert "is valid" in out


def test_saving_needs_a_regular_file(target: Served, tmp_path: Path) -> None:
    """Others are refused: they cannot be replaced, nor read to keep their comments."""
    place = ("--rpc-socket", target.rpc_socket)
    for fifo in (tmp_path / "fifo", tmp_path / "fifo.json"):
        os.mkfifo(fifo)
        status, _, err = nvmeof("target", "save", *place, fifo)
        assert status == 1
        assert f"cannot write {fifo}: it is not a regular file" in err
        assert fifo.is_fifo()
    for name in ("/dev/zero", "/dev/stdout", tmp_path):
        status, out, err = nvmeof("target", "save", *place, name)
        assert (status, out) == (1, "")
        assert "not a regular file" in err


def test_saving_to_stdout(target: Served) -> None:
    """Nothing but the configuration is printed."""
    place = ("--rpc-socket", target.rpc_socket)
    status, out, err = nvmeof("target", "save", *place, "-")
    assert (status, err) == (0, "")
    assert SUBNQN in [one.nqn for one in loads(out).subsystems]
    assert not Path("-").exists()
    status, out, err = nvmeof("target", "save", *place, "--output", "-", "-o", "json")
    assert status == 2
    assert "-o json needs a FILE" in err


def test_restoring_has_the_warnings_of_a_check(tmp_path: Path) -> None:
    """An empty file, which removes everything, has one."""
    lonely = tmp_path / "lonely.toml"
    lonely.write_text(f'port = []\n[[subsystem]]\nnqn = "{SUBNQN}"\n')
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    with Served(tmp_path, config()) as served:
        served.wait_ready()
        for file in (lonely, empty):
            _, _, wanted = nvmeof("config", "check", file)
            assert "warning: " in wanted
            place = ("--rpc-socket", served.rpc_socket)
            status, _, err = nvmeof("target", "restore", *place, file)
            assert (status, err) == (0, wanted)
            status, out, _ = nvmeof("target", "restore", *place, "-o", "json", file)
            assert status == 0
            said = json.loads(out)["warnings"]
            assert [f"{file}: warning: {one}" for one in said] == wanted.splitlines()


def test_a_check_shows_the_legs_of_a_mirror(tmp_path: Path) -> None:
    file = tmp_path / "mirror.toml"
    file.write_text(
        f'[[subsystem]]\nnqn = "{SUBNQN}"\nallow_any_host = true\n[[subsystem.namespace]]\n'
        'store = "mirror"\n[[subsystem.namespace.leg]]\npath = "/a"\n'
        '[[subsystem.namespace.leg]]\nurl = "nvme+rdma://127.0.0.1:4421/nqn.2026-01.example:b"\n'
    )
    _, out, _ = nvmeof("config", "check", file)
    assert (
        "  namespace 1: mirror of /a, nvme+rdma://127.0.0.1:4421/nqn.2026-01.example:b#1 "
        "(quorum: 2 of 2)\n"
    ) in out


def test_warnings_do_not_contradict_each_other() -> None:
    text = f'[[subsystem]]\nnqn = "{SUBNQN}"\n'
    nobody, nothing = advice(loads(text))
    assert f"no host may connect to {SUBNQN}" in nobody
    assert nothing == f"{SUBNQN} has no [[subsystem.namespace]]"
    (nothing,) = advice(loads(f"{text}allow_any_host = true\n"))
    assert nothing.endswith(": hosts connect, but find no disk")
