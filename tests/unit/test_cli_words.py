# SPDX-License-Identifier: BSD-3-Clause
"""Output of the command line: help, figures as in nvme-cli, errors, warnings, interrupts."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nvmf.cli.connectflags import URL_OPTIONS
from nvmf.cli.main import main
from nvmf.cli.output import print_fields
from nvmf.engine import list_devices, verbs_available
from nvmf.initiator import ConnectOptions
from nvmf.initiator.base.options import SECRETS
from nvmf.initiator.sync import connect
from nvmf.spec.nqn import DISCOVERY_NQN
from support.clientlab import NQN, OPTIONS, RAM, config, url
from support.served import Served

PROGRAM = [sys.executable, "-m", "nvmf.cli.main"]
TARGET_CONFIG = config(RAM)


def call(capfd: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    """Run a command in this process; return exit status, stdout and stderr."""
    try:
        status = main([str(arg) for arg in args])
    except SystemExit as ending:
        status = int(ending.code or 0)
    return status, *capfd.readouterr()


# ---- usage ----


def test_url_options_are_all_in_the_help(capfd: pytest.CaptureFixture[str]) -> None:
    names = [field.name for field in dataclasses.fields(ConnectOptions)]
    assert list(URL_OPTIONS) == [name for name in names if name not in SECRETS]
    for command in ("discover", "id-ctrl", "id-ns", "list-ns", "read", "write", "flush"):
        _, out, _ = call(capfd, command, "--help")
        assert all(f"\n  {name} " in out for name in URL_OPTIONS)
    _, out, _ = call(capfd, "bench", "--help")
    assert "\n  queue_depth " in out
    assert "\n  kato " not in out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("discover", ["0 for none (default: 0)"]),
        ("list-ns", ["number of I/O queues (default: 1)", "-1 for never (default: 0)"]),
        ("read", [f"(default: {ConnectOptions().queues})", "-1 for never (default: 600)"]),
        ("bench", ["(default: 32)", "I/O queues (default: 1)"]),
    ],
)
def test_defaults(capfd: pytest.CaptureFixture[str], command: str, words: list[str]) -> None:
    _, out, _ = call(capfd, command, "--help")
    text = " ".join(out.split())
    assert all(word in text for word in words)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["list-ns", url(1), "-k", "abc"], "'abc' is not a time such as 5 (seconds), 0.5, 10s"),
        (["list-ns", url(1), "-k", "nan"], "'nan' is not a time"),
        (["list-ns", url(1), "-i", "0"], "list-ns: --nr-io-queues is 1 to 65535, not 0"),
        (["list-ns", url(1), "-i", "some"], "'some' is not a whole number"),
        (["list-ns", url(1) + "?queues=0"], "list-ns: queues is 1 to 65535, not 0"),
        (["list-ns", url(1) + "?kato=inf"], "option kato: expected a number, not 'inf'"),
        (["list-ns", url(1) + "?a=1"], "there are queues, queue_depth, kato, hostnqn, hostid"),
        (["list-ns", "nvme+rdma://[::1"], "'nvme+rdma://[::1': Invalid IPv6 URL"),
        (
            ["list-ns", "-a", "::1", "-n", DISCOVERY_NQN],
            "the discovery subsystem has no namespaces",
        ),
        (["discover", url(1)], f"remove {NQN} from the URL"),
        (["get-log", url(1), "-i", "2", "-l", "8", "--lsp", "128"], "--lsp must be 0 to 127, not"),
        (["get-log", url(1), "-i", "2", "-l", "8", "--lpo", hex(1 << 64)], "--lpo must be at most"),
        (["bench", url(1), "--cpu", "70000"], "requires CPU 70000, but this process can only use"),
        (["bench", url(1), "--runtime", "inf"], "'inf' is not a time"),
        (["bench", url(1), "--read-percent", "5"], "unrecognized arguments: --read-percent 5"),
        (["bench", url(1) + "?kato=5"], "bench does not support the URL option kato"),
        (["bench", url(1), "-k", "5"], "unrecognized arguments: -k 5"),
    ],
)
def test_usage(capfd: pytest.CaptureFixture[str], args: list[str], words: str) -> None:
    status, out, err = call(capfd, *args)
    assert (status, out) == (2, "")
    assert words in err


# ---- figures ----


def test_figures_as_nvme_cli_has_them(capfd: pytest.CaptureFixture[str], where: str) -> None:
    _, out, _ = call(capfd, "id-ctrl", where)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert {"ver : 0x20000", "sqes : 0x66", "cqes : 0x44", "acl : 3"} <= set(lines)
    assert lines[-1].startswith("ps 0 : mp:0.00W operational enlat:0 exlat:0")
    fields = json.loads(call(capfd, "id-ctrl", where, "-o", "json")[1])
    assert (fields["ver"], fields["psds"][0]["mp"]) == (0x20000, 0)
    assert "psd0" not in fields
    _, out, _ = call(capfd, "id-ns", where)
    assert "nsze          : 0x4000\n" in out


# ---- errors ----


def test_source_address(capfd: pytest.CaptureFixture[str], where: str) -> None:
    status, _, err = call(capfd, "list-ns", where, "-w", "192.0.2.77")
    assert status == 1
    assert "from 192.0.2.77: Cannot assign requested address: give a source address" in err


@pytest.mark.skipif(
    verbs_available("system") is not None or bool(list_devices("system")),
    reason="is about libraries without a device",
)
def test_no_system_device(capfd: pytest.CaptureFixture[str], where: str) -> None:
    status, _, err = call(capfd, "list-ns", where, "--device", "system")
    assert status == 1
    assert "the embedded device, iwarp" in err


def test_link_local_without_its_link(capfd: pytest.CaptureFixture[str]) -> None:
    status, _, err = call(capfd, "discover", "-a", "fe80::1")
    assert status == 1
    assert "as in fe80::1%eth0" in err


def test_bench_errors(capfd: pytest.CaptureFixture[str], where: str) -> None:
    _, _, err = call(capfd, "bench", where + "x")
    assert "Connect Invalid Parameters (SCT 1h, SC 82h, do not retry)" in err
    _, _, err = call(capfd, "bench", where, "-i", 2, "--threads", 3)
    assert "--threads must be 1 to 2 (the queues, --numjobs), not 3" in err


@pytest.mark.parametrize("args", [["list-ns"], ["list-ns", "-o", "json"], ["read"]])
def test_a_full_disk(where: str, args: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PROGRAM, args[0], where, *args[1:]],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=300,
            check=False,
        )
    assert done.returncode == 1
    assert b"stdout: No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_full_disk_is_named(capfd: pytest.CaptureFixture[str], where: str) -> None:
    status, _, err = call(capfd, "read", where, "-d", "/dev/full")
    assert status == 1
    assert "cannot write to /dev/full: No space left on device" in err


def closed(streams: str, *args: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command with some of its standard streams closed, as a shell does it."""
    words = [*PROGRAM, *map(str, args)]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", *words],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("args", [["list-ns"], ["list-ns", "-o", "json"], ["read"]])
def test_stdout_is_closed(where: str, args: list[str]) -> None:
    done = closed(">&-", args[0], where, *args[1:])
    assert done.returncode == 1
    assert b"stdout: Bad file descriptor" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("args", [["list-ns"], ["read"], ["--help"]])
def test_the_reader_of_stdout_has_ended(where: str, args: list[str]) -> None:
    """It ends as cat(1) and dd(1) do in a shell, without a message."""
    reading, writing = os.pipe()
    os.close(reading)
    words = [*PROGRAM, args[0], *([] if args == ["--help"] else [where])]
    with open(writing, "wb") as stdout:
        done = subprocess.run(
            words, stdout=stdout, stderr=subprocess.PIPE, timeout=300, check=False
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_other_streams_are_closed(where: str, tmp_path: Path) -> None:
    """Commands that need none of them work; no socket gets the number of a closed stream."""
    assert closed("<&- 2>&-", "list-ns", where).returncode == 0
    assert closed("<&- >&- 2>&-", "read", where, "-d", tmp_path / "read").returncode == 0
    assert (tmp_path / "read").stat().st_size == 8 << 20
    done = closed("<&-", "write", where)
    assert done.returncode == 1
    assert b"cannot read stdin: Bad file descriptor" in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("streams", [">/dev/full", ">&-", "| true"])
def test_help_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, streams: str, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    for args in (["--help"], ["target", "serve", "--help"]):
        done = closed(streams, *args)
        assert b"Exception" not in done.stderr
        assert b"Traceback" not in done.stderr
        assert done.returncode == (0 if "|" in streams else 1)


def test_serve_goes_on_without_a_reader(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The reader of the listening addresses has ended when a port is added."""
    text = config(RAM)
    (tmp_path / "t.toml").write_text(text)
    sock = tmp_path_factory.mktemp("s") / "s"
    words = [*PROGRAM, "target", "serve", str(tmp_path / "t.toml"), "--rpc-socket", str(sock)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert b"listening on" in running.stdout.readline()
        running.stdout.close()
        for _ in range(2):
            assert main(["target", "port", "add", "-a", "127.0.0.1", "-s", "0",
                         "--rpc-socket", str(sock)]) == 0  # fmt: skip
        running.terminate()
        assert running.stderr is not None
        log = running.stderr.read()
        assert running.wait(120) == 0, log
    assert b"Traceback" not in log


# ---- interrupts ----


def interrupted(*args: str, once: Callable[[], bool]) -> tuple[int, str]:
    """Interrupt a command when the condition holds; return exit status and stderr. stdin stays
    open.
    """
    with subprocess.Popen(
        [*PROGRAM, *args], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        if args[0] == "write":
            running.stdin.write(b"w" * (5 << 20))
            running.stdin.flush()
        while not once():
            assert running.poll() is None
            time.sleep(0.05)
        os.kill(running.pid, signal.SIGINT)
        status = running.wait()
        return status, running.stderr.read().decode()


def test_bench_ends_at_once(target: Served, where: str) -> None:
    """The command ends long before its run time: the test's limit is shorter."""
    before = len(target.log)
    status, err = interrupted(
        "bench", where, "--runtime", "1h", once=lambda: " entries" in target.log[before:]
    )
    assert (status, err) == (130, "nvmeof bench: interrupted\n")


def test_a_write_that_waits_for_its_input_ends_at_once(where: str) -> None:
    with connect(where, **OPTIONS) as controller:
        last = controller.namespace(1)
        blocks = (4 << 20) // last.block_size
        status, err = interrupted("write", where, once=lambda: last.read(blocks - 1, 1)[:1] == b"w")
    assert status == 130
    assert "write: 4194304 bytes (4.00 MiB)" in err
    assert "at most; not flushed\nnvmeof write: interrupted\n" in err


def test_a_read_says_how_much_is_valid(where: str, tmp_path: Path) -> None:
    """The reader accepts the first of two chunks, and a part of the second."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    taken = bytearray()
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def enough() -> bool:
        with contextlib.suppress(BlockingIOError):
            taken.extend(os.read(reader, 1 << 20))
        return len(taken) > 5 << 20

    status, err = interrupted("read", where, "-d", str(path), once=enough)
    os.close(reader)
    assert status == 130
    assert f"the first 4194304 bytes of {path} are valid" in err
    assert err.endswith("nvmeof read: interrupted\n")


# ---- warnings ----


def test_warnings(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("")
    status, out, err = call(capfd, "config", "check", path)
    assert status == 0
    assert "is valid" in out
    assert f"{path}: warning: there is no [[subsystem]]" in err
    told = json.loads(call(capfd, "config", "check", path, "-o", "json")[1])
    assert len(told["warnings"]) == 1
    path.write_text(config(RAM))
    assert json.loads(call(capfd, "config", "check", path, "-o", "json")[1])["warnings"] == []


def test_fields_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A target without a CSI descriptor has not reported a command set."""
    print_fields({"nsze": 8, "uuid": None, "csi": None, "nguid": b"\0"})
    assert capsys.readouterr().out == "nsze  : 8\nnguid : 00\n"
