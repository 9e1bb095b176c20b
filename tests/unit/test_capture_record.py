# SPDX-License-Identifier: BSD-3-Clause
"""nvmeof capture: real targets and clients, and how Wireshark decodes the files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nvmf.capture.wireshark import lua_script
from nvmf.cli.main import main
from nvmf.rpc import alive
from support.capturelab import (
    PROGRAM,
    ended,
    nvmeof,
    read_file,
    start,
    until_recorded,
    url,
)
from support.served import SUBNQN, TIMEOUT, Served, config

TARGET_CONFIG = config()


# ---- a command ----


def test_a_command(written: tuple[Path, bytes]) -> None:
    """Everything of the client is in the file, which only its owner can read."""
    path, content = written
    found = read_file(path)
    assert not found.notes
    assert found.violations == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert {one.subnqn for one in found.dialogues} == {SUBNQN}
    assert all(one.ended for one in found.dialogues)
    writes = [c for one in found.dialogues for c in one.commands if c.name == "Write"]
    assert b"".join(one.content() or b"" for one in writes) == content
    assert all(one.latency is not None and one.latency > 0 for one in writes)


def test_both_ends_agree(target: Served, tmp_path: Path) -> None:
    """The file of the target has the same commands as that of the client."""
    theirs = tmp_path / "target.pcapng"
    recording = start("capture", "--rpc-socket", target.rpc_socket, theirs)
    until_recorded(theirs)
    ours = tmp_path / "client.pcapng"
    nvmeof(
        "capture", ours, "--", *PROGRAM, "read", url(target.port), "-z", "64k", "-d", "/dev/null"
    )
    deadline = time.monotonic() + TIMEOUT
    while len(ended_ones := [one for one in read_file(theirs).dialogues if one.ended]) < len(
        read_file(ours).dialogues
    ):
        assert time.monotonic() < deadline, ended_ones
        time.sleep(0.05)
    recording.send_signal(signal.SIGTERM)  # as SIGINT elsewhere: it ends in order
    assert ended(recording)[0] == 0
    both = [
        [
            (
                one.qid,
                [(c.name, c.detail, c.size, c.read, c.written, c.status) for c in one.commands],
            )
            for one in sorted(read_file(path).dialogues, key=lambda one: one.qid or 0)
        ]
        for path in (ours, theirs)
    ]
    assert both[0] == both[1]
    assert read_file(theirs).violations == 0


def test_roce(tmp_path: Path) -> None:
    """A connection over RoCEv2, recorded at either end."""
    address = f"127.{os.getpid() % 250 + 1}.{os.getpid() // 250 % 250}.7"
    text = config(traddr=address).replace('"iwarp"', '"roce"')
    (tmp_path / "t.toml").write_text(text.split("[iwarp]")[0].replace("trsvcid=0", "trsvcid=4420"))
    with subprocess.Popen(
        [*PROGRAM, "target", "serve", tmp_path / "t.toml", "--rpc-socket", tmp_path / "s"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as serving:  # fmt: skip
        assert serving.stdout is not None
        assert b"roce" in serving.stdout.readline()
        try:
            ours, theirs = tmp_path / "ours", tmp_path / "theirs"
            recording = start("capture", "--rpc-socket", tmp_path / "s", theirs)
            until_recorded(theirs)
            place = f"nvme+rdma://{address}:4420/{SUBNQN}"
            nvmeof(
                "capture", ours, "--", *PROGRAM, "read", "--device", "roce", place, "-z", "64k",
                "-d", "/dev/null",
            )  # fmt: skip
            serving.send_signal(signal.SIGTERM)
            assert ended(recording)[0] == 0  # it ends with the target
            for path in (ours, theirs):
                found = read_file(path)
                faults = [fault for one in found.dialogues for fault in one.faults]
                assert found.violations == 0, [str(fault) for fault in faults if fault.section]
                assert {one.transport for one in found.dialogues} == {"RoCEv2"}
                reads = [c for one in found.dialogues for c in one.commands if c.name == "Read"]
                assert sum(one.written for one in reads) == 65536
            names = dissected(ours, "-Y", "nvmeof", "-T", "fields", "-e", "nvmeof.cmd.name")
            assert {"Connect", "Identify", "Read"} <= set(names)
            comments = dissected(ours, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment")
            assert len(comments) == len(read_file(ours).dialogues) >= 2
            assert all(SUBNQN in comment for comment in comments)
            native = dissected(ours, "-Y", "nvme-rdma", lua=False)
            assert native  # Wireshark's own dissector of NVMe-oF
        finally:
            serving.terminate()


# ---- Wireshark ----


def dissected(path: Path, *words: str, lua: bool = True) -> list[str]:
    """Return tshark's lines about a file."""
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("there is no tshark: apt-get install tshark")
    script = ["-X", f"lua_script:{lua_script()}"] if lua else []
    done = subprocess.run(
        [tshark, *script, "--disable-protocol", "nvme-tcp", "-r", str(path), *words],
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    assert "Lua" not in done.stderr
    return done.stdout.splitlines()


def test_wireshark_shows_the_commands(written: tuple[Path, bytes]) -> None:
    """tshark finds the same commands, in complete TCP streams with correct checksums."""
    path, _ = written
    fields = ("nvmeof.cmd.name", "nvmeof.cid", "nvmeof.sgl.length", "nvmeof.cmd.nsid")
    words = [word for field in fields for word in ("-e", field)]
    lines = dissected(path, "-Y", "nvmeof.cmd.opc", "-T", "fields", *words)
    theirs = [line.split("\t") for line in lines]
    ours = sorted(
        (c for one in read_file(path).dialogues for c in one.commands), key=lambda one: one.packet
    )
    assert [(one[0], int(one[1], 16), int(one[2])) for one in theirs] == [
        (c.name.replace("Async ", "Asynchronous "), c.sqe.cid, c.size) for c in ours
    ]
    responses = dissected(path, "-Y", "nvmeof.cqe.sc == 0", "-T", "fields", "-e", "nvmeof.cid")
    assert len(responses) == sum(one.status is not None for one in ours)
    assert not dissected(path, "-Y", "tcp.analysis.flags || _ws.malformed")
    checked = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
    assert not dissected(
        path, *checked, "-Y", "tcp.checksum.status == 0 || ip.checksum.status == 0"
    )
    assert dissected(path, "-Y", "iwarp_mpa.req")


def test_wireshark_shows_the_names_of_a_connection(written: tuple[Path, bytes]) -> None:
    """One packet of each connection has a comment with the NQNs and the queue."""
    path, _ = written
    lines = dissected(path, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment")
    found = read_file(path).dialogues
    assert sorted(lines) == sorted(
        f"connection {one.number}: {one.hostnqn} to {SUBNQN}, queue {one.qid}" for one in found
    )


def test_the_path_of_the_script() -> None:
    assert nvmeof("capture", "--lua").strip() == str(lua_script())
    assert json.loads(nvmeof("capture", "--lua", "-o", "json")) == {"script": str(lua_script())}
    assert lua_script().is_file()


# ---- limits ----


def test_size(target: Served, tmp_path: Path) -> None:
    """The recording stops at a size, and the command continues."""
    path = tmp_path / "small"
    out = nvmeof(
        "capture", "--size", "20k", "-o", "json", path, *PROGRAM, "read", url(target.port), "-z",
        "64k", "-d", tmp_path / "data",
    )  # fmt: skip
    said = json.loads(out[out.index("{\n") :])
    assert said["stopped"] == "the size is reached"
    assert path.stat().st_size == said["bytes"] <= 20480
    assert (tmp_path / "data").stat().st_size == 65536
    assert not read_file(path).notes


def test_until_an_error(target: Served, tmp_path: Path) -> None:
    """The target's packets before a failed command are kept; the target continues."""
    path = tmp_path / "error"
    before = target.log.count("target_capture")  # of recordings of other tests
    recording = start(
        "capture", "--rpc-socket", target.rpc_socket, "--last", "60", "--until-error", "-o", "json",
        path,
    )  # fmt: skip
    deadline = time.monotonic() + TIMEOUT
    while target.log.count("target_capture") == before:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    nvmeof("get-log", url(target.port), "-i", "0x33", "-l", "512", status=1)
    status, out, _ = ended(recording)
    assert status == 0
    assert "Get Log Page" in json.loads(out)["stopped"]
    faults = [fault.sentence for one in read_file(path).dialogues for fault in one.faults]
    assert any("fails: Invalid Log Page" in one for one in faults)
    nvmeof("read", url(target.port), "-z", "4k", "-d", "/dev/null")


SIGNALLED = """\
import os, signal, subprocess, sys
class Popen(subprocess.Popen):
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        os.kill(os.getpid(), signal.SIGTERM)
subprocess.Popen = Popen
from nvmf.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command, which gets SIGTERM before Popen() has returned."""


def test_a_signal_while_the_command_is_started(tmp_path: Path) -> None:
    words = ["capture", str(tmp_path / "none"), "--", "sleep", "3600"]
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, *words], capture_output=True, timeout=60, check=False
    )  # its output ends with the command
    assert done.returncode == 143, done.stderr


def test_the_end_of_a_recording_ends_the_command(tmp_path: Path) -> None:
    """SIGTERM ends both, and the file is valid without packets."""
    path = tmp_path / "none"
    recording = start("capture", path, "--", "sh", "-c", "echo begun; exec sleep 3600")
    assert recording.stdout is not None
    assert recording.stdout.readline() == b"begun\n"
    recording.send_signal(signal.SIGTERM)
    assert ended(recording)[0] == 143  # its output ends with the command
    assert read_file(path).packets == 0


def test_a_full_disk(target: Served, tmp_path: Path) -> None:
    """The message has the file and its packets, which are whole; the command is ended."""
    path = tmp_path / "full"
    read = [*PROGRAM, "read", url(target.port), "-z", "1M", "-d", "/dev/null"]
    command = ["sh", "-c", '"$@"; exec sleep 3600', "sh", *read]
    with subprocess.Popen(
        ["sh", "-c", 'ulimit -f 32; exec "$@"', "sh", *PROGRAM, "capture", path, "--", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as recording:  # fmt: skip
        status, _, err = ended(recording)
    assert status == 1
    found = read_file(path)
    assert f"cannot write {path}: File too large; it has {found.packets} packets" in err
    assert found.packets
    assert path.stat().st_size <= 32 * 1024
    assert not [note for note in found.notes if "byte" in note]


def test_a_device_that_is_full() -> None:
    status, _, err = ended(start("capture", "/dev/full", "true"))
    assert status == 1
    assert "cannot write /dev/full: No space left on device; it has 0 packets" in err


def test_a_background_job(target: Served, tmp_path: Path) -> None:
    """A shell starts it with SIGINT ignored, and SIGINT ends it in order; the file of the last
    seconds is valid from the beginning.
    """
    path = tmp_path / "background"
    before = target.log.count("target_capture")
    with subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *PROGRAM, "capture", "--rpc-socket",
         target.rpc_socket, "--last", "60", "--until-error", path],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as recording:  # fmt: skip
        deadline = time.monotonic() + TIMEOUT
        while target.log.count("target_capture") == before:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert read_file(path).packets == 0
        assert path.stat().st_size == 28
        recording.send_signal(signal.SIGINT)
        assert ended(recording)[0] in (0, 1)  # 1: before the target has connected


def test_one_at_a_time(target: Served, tmp_path: Path) -> None:
    """A second recording of a target is refused, and possible after the first."""
    first = tmp_path / "first"
    recording = start("capture", "--rpc-socket", target.rpc_socket, first)
    until_recorded(first)
    refused = start("capture", "--rpc-socket", target.rpc_socket, tmp_path / "second")
    status, _, err = ended(refused)
    assert status == 1
    assert "a capture of this process is running" in err
    recording.kill()
    recording.communicate()
    deadline = time.monotonic() + TIMEOUT
    while True:
        again = start("capture", "--rpc-socket", target.rpc_socket, "--duration", "0.2", first)
        if ended(again)[0] == 0:
            return
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_target_that_is_stopped(
    target: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """While it is recorded: the command ends with a sentence, and the file is whole."""
    monkeypatch.setattr(alive, "ASK_AFTER", 0.5)
    monkeypatch.setattr(alive, "STEP", 0.1)
    path = tmp_path / "stopped"

    def stop() -> None:
        until_recorded(path)
        nvmeof("read", url(target.port), "-z", "4k", "-d", "/dev/null")
        time.sleep(2)  # it is asked, and answers
        target.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        words = ["--rpc-socket", str(target.rpc_socket), "--duration", "60", str(path)]
        assert main(["capture", *words]) == 1
    finally:
        stopping.join()
        target.process.send_signal(signal.SIGCONT)
    said = capsys.readouterr().err
    assert f"the target at {target.rpc_socket} has not answered for 1 s: is it stopped" in said
    found = read_file(path)
    assert not found.notes
    assert found.dialogues


def test_a_target_that_ends(tmp_path: Path) -> None:
    path = tmp_path / "ended"
    with Served(tmp_path, TARGET_CONFIG) as target:
        target.wait_ready()
        recording = start("capture", "--rpc-socket", target.rpc_socket, path)
        until_recorded(path)
        target.process.kill()
        status, _, err = ended(recording)
    assert status == 0
    assert "stopped: the target has ended" in err
    assert not read_file(path).notes


def test_a_reader_that_stands_still(target: Served) -> None:
    """A program that captures but does not read does not delay any host."""
    from nvmf.rpc.sync import connect

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        name = f"nvmeof-test-{os.getpid()}"
        listener.bind("\0" + name)
        listener.listen()
        with connect(target.rpc_socket) as rpc:
            rpc.capture(f"@{name}")
        reader, _ = listener.accept()
        for _ in range(3):
            nvmeof("read", url(target.port), "-z", "32M", "-d", "/dev/null")
        reader.close()
    assert target.alive


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        ((), 2, "specify the file"),
        (("-", "true"), 2, "need a file"),
        (("x", "--duration", "3"), 2, "put --duration before x"),
        (("--duration", "-1", "x"), 2, "not a positive number"),
        (("--lua", "x"), 2, "cannot be combined"),
        (("OUT", "/nonexistent/program"), 1, "cannot run /nonexistent/program: No such file"),
        (("OUT", "true"), 1, "true did not use an RDMA device"),
        (("OUT", "false"), 1, ""),
        (("--rpc-socket", "/nonexistent/s", "OUT"), 1, "cannot connect to a target"),
        (("/nonexistent/x", "true"), 1, "No such file"),
    ],
)
def test_mistakes(tmp_path: Path, words: tuple[str, ...], status: int, sentence: str) -> None:
    found = [str(tmp_path / "out") if word == "OUT" else word for word in words]
    got, _, err = ended(start("capture", *found))
    assert got == status, err
    assert sentence in err
    assert "Traceback" not in err
