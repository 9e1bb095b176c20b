# SPDX-License-Identifier: BSD-3-Clause
"""The command line against a target in another process: results, files, JSON, exit statuses."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.calling import Run
from support.clientlab import NQN, RAM, config, url
from support.roce import endpoint, own_address
from support.served import Served

Result = tuple[int, str, str]


def program(*args: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a separate program."""
    return subprocess.run(
        [sys.executable, "-m", "nvmf.cli.main", *(str(arg) for arg in args)],
        capture_output=True,
        timeout=300,
        check=False,
        **options,
    )


# ---- usage ----


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--help"],
        ["target", "serve", "--help"],
        ["config", "check", "--help"],
        ["devices", "--help"],
        ["discover", "--help"],
        ["id-ctrl", "--help"],
        ["id-ns", "--help"],
        ["list-ns", "--help"],
        ["read", "--help"],
        ["write", "--help"],
        ["flush", "--help"],
        ["bench", "--help"],
        ["--version"],
    ],
)
def test_help(run: Run, args: list[str]) -> None:
    status, out, err = run(*args)
    if args:
        assert status == 0
        assert len(out) > 5
        assert all(len(line) <= 100 for line in out.splitlines())
    else:
        assert status == 2
        assert "COMMAND" in err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["frobnicate"], "unknown command 'frobnicate' (see nvmeof --help)"),
        (["benhc"], "unknown command 'benhc': did you mean bench?"),
        (["-o", "normal", "devices"], "unknown command 'normal': -o normal comes after the com"),
        (["target", "-o", "normal"], "-o normal comes after the command"),
        (["read", "--speed", "3"], "unrecognized arguments"),
        (["list-ns"], "specify the target: a URL, or -a ADDRESS"),
        (["list-ns", "-a", "127.0.0.1"], "specify the NQN"),
        (["list-ns", url(1), "-a", "127.0.0.1"], "as a URL or with --traddr, not both"),
        (["list-ns", "http://x"], "is not of the form"),
        (["list-ns", url(1), "-i", "0"], "queues is 1 to 65535"),
        (["list-ns", url(1), "-q", "m\n"], "the host NQN given"),
        (["list-ns", "-a", "127.0.0.1", "-s", "ftp", "-n", NQN], "a port is 1 to 65535"),
        (["list-ns", "-a", "127.0.0.1", "-s", "\u0664\u0664", "-n", NQN], "a port is 1 to 65535"),
        (["list-ns", f"nvme+rdma://127.0.0.1:70000/{NQN}"], "a port is 1 to 65535"),
        (["list-ns", "-a", "127.0.0.1", "-n", ""], "the NQN is empty"),
        (["list-ns", "-a", "\udcff", "-n", NQN], r"'\udcff' is not a name or address of a host"),
        (["list-ns", "-a", "127.0.0.1\n", "-n", NQN], r"'127.0.0.1\n' is not a name or address"),
        (["list-ns", url(1), "-w", "\udcff"], r"--host-traddr is an address, not '\udcff'"),
        (["list-ns", url(1), "-S", "x"], "--dhchap-secret: a DH-HMAC-CHAP key has the form"),
        (["read", url(1), "-z", "much"], "is not a size"),
        (["read", url(1), "-b", "-1"], "negative"),
        (["bench", url(1), "--rw", "sideways"], "invalid choice"),
        (["bench", url(1), "--runtime", "0"], "more than 0"),
        (["bench", url(1), "-z", "100G"], "less than 4GiB"),
        (["bench", url(1), "--bs", "0"], "--bs must be more than 0"),
        (["bench", url(1), "--rw", "randread", "--rwmixread", "0"], "not for randread"),
        (["bench", url(1), "--rw", "rw", "--rwmixread", "101"], "must be 0 to 100"),
        (["bench", url(1), "--loops", "0"], "--loops must be at least 1"),
        (["bench", url(1), "--interval", "10ms"], "at least 100ms"),
        (["bench", url(1), "--percentile_list", "50:101"], "not a list of up to 20 percentiles"),
    ],
)
def test_usage(run: Run, args: list[str], words: str) -> None:
    status, out, err = run(*args)
    assert status == 2
    assert words in err
    assert out == ""
    assert err.count("\n") == 1


def test_no_target(run: Run) -> None:
    status, out, err = run("id-ctrl", url(1))
    assert status == 1
    assert out == ""
    assert "nvmeof id-ctrl: connecting queue 0 to 127.0.0.1:1: connection refused" in err


def test_unknown_subsystem(run: Run, where: str) -> None:
    status, _, err = run("list-ns", where + "x")
    assert status == 1
    assert "Connect Invalid Parameters" in err
    assert "try discover" in err


# ---- queries ----


def test_discover(run: Run, target: Served) -> None:
    status, out, _ = run("discover", "-t", "rdma", "-a", "127.0.0.1", "-s", target.port)
    assert status == 0
    assert f"subnqn      : {NQN}" in out
    status, out, _ = run("discover", "-a", "127.0.0.1", "-s", target.port, "-o", "json")
    current, record = json.loads(out)["records"]
    assert current["subtype"] == "current discovery subsystem"
    assert current["eflags"] == "explicit discovery connections, duplicate discovery information"
    assert (record["trtype"], record["subnqn"]) == ("rdma", NQN)
    assert record["trsvcid"] == str(target.port)


def test_identify(run: Run, where: str, target: Served) -> None:
    status, out, _ = run("id-ctrl", where, "-o", "json")
    fields = json.loads(out)
    assert (status, fields["subnqn"], fields["cntrltype"]) == (0, NQN, 1)
    assert run("id-ctrl", "-a", "127.0.0.1", "-s", target.port, "-n", NQN)[1].count(" : ") > 50
    status, out, _ = run("id-ns", where, "-N", 2, "-o", "json")
    fields = json.loads(out)
    assert (fields["nsze"], fields["block_size"]) == (2048, 4096)
    assert "8.00 MiB" in run("id-ns", where)[1]
    status, _, err = run("id-ns", where, "--namespace-id", 7)
    assert status == 1
    assert "Invalid Namespace" in err


def test_list_ns(run: Run, where: str) -> None:
    entries = json.loads(run("list-ns", where, "-o", "json")[1])["nsid_list"]
    assert [(e["nsid"], e["size"]) for e in entries] == [(1, 8 << 20), (2, 8 << 20)]
    assert "8.00 MiB" in run("list-ns", where)[1]


# ---- bytes ----


def test_files(run: Run, where: str, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(secrets.token_bytes((5 << 20) + 512))
    status, out, err = run("write", where, "-d", source, "-b", 3)
    assert (status, out) == (0, "")
    assert "write: 5243392 bytes (5.00 MiB) in " in err
    assert "MB/s" in err or "GB/s" in err
    status, out, _ = run(
        "read", where, "-d", back, "-b", 3, "-z", source.stat().st_size, "-o", "json"
    )
    assert status == 0
    assert json.loads(out)["bytes"] == source.stat().st_size
    assert back.read_bytes() == source.read_bytes()
    assert run("read", where, "-d", back, "-N", 1)[0] == 0
    assert back.stat().st_size == 8 << 20
    assert run("read", where, "-d", back, "--blocks", 2)[0] == 0
    assert back.stat().st_size == 1024
    assert run("read", where, "-d", back, "-z", 700)[0] == 0
    assert back.stat().st_size == 700
    assert run("flush", where, "-N", 2)[1] == "namespace 2 flushed\n"


def test_pipes(where: str) -> None:
    data = secrets.token_bytes((4 << 20) + 4096 * 3)
    done = program("write", where, "-N", 2, "-v", input=data)
    assert done.returncode == 0, done.stderr
    done = program("read", where, "-N", 2, "-z", len(data))
    assert done.returncode == 0
    assert done.stdout == data


def test_short_block(run: Run, where: str, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(b"x" * 700)
    status, _, err = run("write", where, "-d", source, "-N", 1)
    assert status == 1
    assert "188 bytes of 512, and nothing was written; use --pad" in err
    run("write", where, "-d", source, "--pad", "-f", "--no-flush")
    run("read", where, "-d", back, "--block-count", 1)
    assert back.read_bytes() == b"x" * 700 + bytes(324)


def test_limits(run: Run, where: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(1024))
    for args, words in (
        (["read", "-d", os.devnull, "-z", "9MiB"], "(8388608 bytes) from block 0"),
        (["read", "-d", os.devnull, "-b", "16385"], "only 0 blocks"),
        (["read", "-d", os.devnull, "-b", "16384"], "only 0 blocks (0 bytes) from block 16384"),
        (["write-zeroes", "--blocks", "70000", "-b", "16383"], "only 1 block (512 bytes)"),
        (["read", "-d", "/nonexistent/x"], "cannot open /nonexistent/x: No such file"),
        (["write", "-d", "/nonexistent/x"], "cannot open /nonexistent/x: No such file"),
        (["write", "-d", str(source), "-b", "16383"], "has 1024 bytes, but only 512 remain"),
        (["write", "-d", str(source), "-z", "4096"], "has 1024 bytes, fewer than --data-size"),
        (
            ["write", "-d", str(source), "-z", "4096", "--pad"],
            "--pad completes its last block only",
        ),
    ):
        status, _, err = run(args[0], where, *args[1:])
        assert status == 1
        assert words in err


def test_a_read_that_fails_in_the_middle(run: Run, where: str, tmp_path: Path) -> None:
    """The blocks before the error are in the file, and the message has their number."""
    back, bad = tmp_path / "back", 9001  # in the second of two chunks
    assert run("write-uncor", where, "-b", bad)[0] == 0
    try:
        for start, count in ((0, bad), (bad - 1, 1), (bad, 0)):
            status, _, err = run("read", where, "-d", back, "-b", start)
            assert status == 1
            assert "Unrecovered Read Error" in err
            assert back.stat().st_size == 512 * count
            said = f"the first {512 * count} bytes of {back} are valid\n"
            assert (said if count else f"nothing was copied to {back}\n") in err
    finally:
        assert run("write-zeroes", where, "-b", bad)[0] == 0


@pytest.mark.parametrize("nsid", [1 << 32, (1 << 32) + 1])
def test_an_nsid_of_more_than_32_bits(run: Run, where: str, nsid: int) -> None:
    """It would be a different namespace, or none."""
    said = f"{nsid} is not 0 to 0xffffffff"
    for command in ("read", "list-ns", "id-ns", "smart-log", "bench"):
        status, _, err = run(command, where, "-N", nsid)
        assert (status, said in err) == (2, True), err
    for command in ("get-feature", "get-log"):
        status, _, err = run(command, where, "-N", nsid, "-f" if "f" in command else "-i", 1)
        assert status == 2
    status, _, err = run("id-ns", where, "-n", nsid)
    assert (status, said in err) == (2, True), err


def test_import_of_nothing(run: Run) -> None:
    status, _, err = run("config", "import", "/nonexistent/x")
    assert status == 1
    assert "cannot read /nonexistent/x: No such file" in err


def test_endless_input(where: str) -> None:
    with open("/dev/zero", "rb") as zero:
        done = program("write", where, stdin=zero)
    assert done.returncode == 1
    assert b"is full" in done.stderr


def test_reader_goes_away(where: str) -> None:
    command = f"{sys.executable} -m nvmf.cli.main read {where} | head -c 512 | wc -c"
    done = subprocess.run(command, shell=True, capture_output=True, timeout=300, check=False)
    assert done.stdout.strip() == b"512"
    assert b"Traceback" not in done.stderr


# ---- configuration, devices, serving ----


def test_config_check(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(config(RAM))
    status, out, _ = run("config", "check", path)
    assert status == 0
    assert "is valid" in out
    assert json.loads(run("config", "check", path, "-o", "json")[1])["valid"] is True
    path.write_text(config(RAM) + "sped = 3\n")
    status, out, err = run("config", "check", path)
    assert (status, out) == (1, "")
    assert f"{path}:" in err
    assert "sped: unknown key" in err
    assert json.loads(run("config", "check", path, "-o", "json")[1])["valid"] is False
    assert run("config", "check", tmp_path / "none")[0] == 1
    assert "properties" in json.loads(run("config", "schema")[1])


def test_devices(run: Run) -> None:
    status, out, err = run("devices")
    assert status == 0
    assert "iwarp0  (iWARP, embedded)" in out
    found = json.loads(run("devices", "-o", "json")[1])
    assert found["devices"][0]["kind"] == "iwarp"
    if len(found["devices"]) == 1:
        assert "no system device: " in err
        assert "no system device: " in found["notes"][0]


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)


def test_devices_and_who_has_the_udp_port(run: Run) -> None:
    """RoCEv2 needs UDP port 4791 of its address, which one program or the kernel may have."""
    address = own_address()
    with endpoint(address):
        out = run("devices")[1]
        held = json.loads(run("devices", "-o", "json")[1])["udp_4791"]
    line = next(one for one in out.splitlines() if one.startswith(f"UDP port 4791 of {address}:"))
    assert f": process {os.getpid()} (" in line
    found = next(one for one in held if one["address"] == address)
    assert [one["pid"] for one in found["processes"]] == [os.getpid()]
    assert found["uid"] is None


def test_devices_watch() -> None:
    watching = subprocess.Popen(
        [sys.executable, "-m", "nvmf.cli.main", "devices", "--watch", "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert watching.stdout is not None
    assert watching.stderr is not None
    with watching, watching.stdout as out, watching.stderr as err:
        assert json.loads(out.readline())["event"] == "list"
        while watching.poll() is None and not catches(watching.pid, signal.SIGTERM):
            time.sleep(0.01)
        watching.terminate()
        status, said = watching.wait(), err.read().decode()
        if "cannot watch" in said:
            pytest.skip(f"no udev here: {said}")
        assert status == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends(tmp_path: Path, number: signal.Signals) -> None:
    served = Served(tmp_path, config(RAM)).wait_ready()
    served.process.send_signal(number)
    assert served.process.wait() == 0
    served.kill()


def test_serve_errors(tmp_path: Path, target: Served) -> None:
    path = tmp_path / "a.toml"
    # The socket is opened first, and would otherwise be that of the machine's own target.
    alone = "[rpc]\nenabled = false\n"
    path.write_text(config(RAM, port=target.port) + alone)
    done = program("target", "serve", path)
    assert done.returncode == 1
    assert b"Address already in use" in done.stderr
    path.write_text(config(f'store = "file"\npath = "{tmp_path}/none"') + alone)
    done = program("target", "serve", path)
    assert done.returncode == 1
    assert b"does not exist" in done.stderr
    assert b"Traceback" not in done.stderr
    path.write_text("nonsense")
    done = program("target", "serve", path)
    assert done.returncode == 1
    assert b"is not TOML" in done.stderr
