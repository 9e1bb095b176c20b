# SPDX-License-Identifier: BSD-3-Clause
"""Captures of system devices: synthesised packets have the commands of those on the wire.

Our end on the system device is recorded, and so is its peer, on an embedded device: that file has
the packets of the wire.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvmf.capture.container import opened
from nvmf.capture.dialogue import Dialogue
from nvmf.capture.explain import explain
from nvmf.capture.wireshark import lua_script
from nvmf.initiator.sync import connect
from support.capturelab import PROGRAM, ended, nvmeof, read_file, start, until_recorded
from support.served import SUBNQN, TIMEOUT, Served, config
from support.standin import system_device

CLIENT = """\
import os, sys
from nvmf import engine
engine.start_capture(os.environ.pop("NVMEOF_CAPTURE"))  # the device itself records nothing
from nvmf.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
BLOCKS = 2 << 20
"""Bytes of a write: with several commands, and several RDMA READs each."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Words before a command that is to have a system device."""
    return system_device(tmp_path_factory.mktemp("libraries"))


@pytest.fixture(scope="module")
def target(before: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A target on the system device."""
    text = config().replace('"iwarp"', '"system"')
    with Served(tmp_path_factory.mktemp("target"), text, wrapper=before) as served:
        yield served.wait_ready()
        assert served.end() == 0
        served.check_log()


def url(port: int, device: str) -> str:
    return f"nvme+rdma://127.0.0.1:{port}/{SUBNQN}?device={device}"


def said(dialogues: list[Dialogue]) -> list[object]:
    """Return what the two ends of connections must agree about."""
    return [
        (
            one.qid, one.hostnqn, one.cntlid,
            [(c.name, c.detail, c.size, c.read, c.written, c.status) for c in one.commands],
        )
        for one in sorted(dialogues, key=lambda one: one.qid or 0)
    ]  # fmt: skip


def content(dialogues: list[Dialogue], name: str) -> bytes:
    """Return the data of all commands of a kind."""
    commands = [c for one in dialogues for c in one.commands if c.name == name]
    assert commands
    return b"".join(one.content() or b"" for one in sorted(commands, key=lambda c: c.sqe.cdw10))


def stopped(recording: subprocess.Popen[bytes], path: Path, connections: int) -> list[Dialogue]:
    """End a recording when so many connections have ended; return what it has."""
    deadline = time.monotonic() + TIMEOUT
    while sum(bool(one.ended) for one in read_file(path).dialogues) < connections:
        assert time.monotonic() < deadline, read_file(path).dialogues
        time.sleep(0.05)
    recording.send_signal(signal.SIGINT)
    status, _, err = ended(recording)
    assert status == 0, err
    found = read_file(path)
    assert not found.notes
    faults = [str(fault) for one in found.dialogues for fault in one.faults if fault.section]
    assert found.violations == 0, faults
    return found.dialogues


@pytest.fixture(scope="module")
def recorded(target: Served, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, bytes]:
    """The files of the target and of its client, and the data that was written and read."""
    folder = tmp_path_factory.mktemp("recorded")
    theirs, ours = folder / "target.pcapng", folder / "client.pcapng"
    data = os.urandom(BLOCKS)
    (folder / "in").write_bytes(data)
    recording = start("capture", "--rpc-socket", target.rpc_socket, theirs)
    until_recorded(theirs)
    words = " ".join([*PROGRAM, "$1", f"'{url(target.port, 'iwarp')}'", "-z", str(BLOCKS)])
    script = f'set -- write; {words} -d "{folder}/in"; set -- read; {words} -d "{folder}/out"'
    nvmeof("capture", ours, "--", "sh", "-e", "-c", script)
    assert (folder / "out").read_bytes() == data
    stopped(recording, theirs, len(read_file(ours).dialogues))
    return theirs, ours, data


def test_a_target(recorded: tuple[Path, Path, bytes]) -> None:
    """Commands, transfers, data, names and ends are those of the client's file."""
    theirs, ours, data = recorded
    synthesised, real = read_file(theirs).dialogues, read_file(ours).dialogues
    assert said(synthesised) == said(real)
    assert content(synthesised, "Write") == content(synthesised, "Read") == data
    assert all(one.synthesised and one.transport == "iWARP" for one in synthesised)
    assert not any(one.synthesised for one in real)


def test_every_packet_says_so(recorded: tuple[Path, Path, bytes]) -> None:
    theirs, ours, _ = recorded
    assert all(packet.synthesised for packet in opened(theirs.read_bytes()).packets())
    assert not any(packet.synthesised for packet in opened(ours.read_bytes()).packets())
    assert ", synthesised" in nvmeof("explain", theirs)


def test_wireshark(recorded: tuple[Path, Path, bytes]) -> None:
    """tshark shows the commands of synthesised packets, and nothing malformed."""
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("there is no tshark: apt-get install tshark")

    def shown(*words: str) -> list[str]:
        script = ["-X", f"lua_script:{lua_script()}", "--disable-protocol", "nvme-tcp"]
        done = subprocess.run(
            [tshark, *script, "-r", str(recorded[0]), *words],
            capture_output=True, text=True, timeout=600, check=True,
        )  # fmt: skip
        return done.stdout.splitlines()

    names = shown("-Y", "nvmeof.cmd.opc", "-T", "fields", "-e", "nvmeof.cmd.name")
    commands = [c.name for one in read_file(recorded[0]).dialogues for c in one.commands]
    assert sorted(names) == sorted(n.replace("Async ", "Asynchronous ") for n in commands)
    assert not shown("-Y", "tcp.analysis.flags || _ws.malformed")
    checked = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
    assert not shown(*checked, "-Y", "tcp.checksum.status == 0 || ip.checksum.status == 0")
    assert not shown("-Y", 'not frame.comment contains "synthesised"')


def test_replay(target: Served, recorded: tuple[Path, Path, bytes]) -> None:
    """A synthesised file is played against a target, and as one."""
    nvmeof("replay", "--write", recorded[0], url(target.port, "iwarp"))


def test_a_client(before: tuple[str, ...], tmp_path: Path) -> None:
    """The data of its commands is inferred; failed commands have none."""
    with Served(tmp_path, config()) as served:
        served.wait_ready()
        theirs, ours = tmp_path / "target.pcapng", tmp_path / "client.pcapng"
        recording = start("capture", "--rpc-socket", served.rpc_socket, theirs)
        until_recorded(theirs)
        data = os.urandom(65536)
        (tmp_path / "in").write_bytes(data)
        client = [*before, sys.executable, "-c", CLIENT]
        place = url(served.port, "system")
        nvmeof("capture", ours, *client, "write", place, "-z", "64k", "-d", tmp_path / "in")
        found = read_file(ours)
        assert found.violations == 0
        assert all(one.synthesised for one in found.dialogues)
        assert said(found.dialogues) == said(stopped(recording, theirs, len(found.dialogues)))
        assert content(found.dialogues, "Write") == data
        assert b"inferred" in ours.read_bytes()

        nvmeof(
            "capture", ours, *client, "get-log", place, "-i", "0x33", "-l", "512", status=1
        )  # fmt: skip
        (failed,) = [
            c for one in read_file(ours).dialogues for c in one.commands
            if c.name == "Get Log Page" and c.failed
        ]  # fmt: skip
        assert failed.written == 0
        assert read_file(ours).violations == 0
        assert served.end() == 0


def test_from_the_middle(target: Served, tmp_path: Path) -> None:
    """A recording that begins while a host is connected has its next commands, and their data."""
    path = tmp_path / "middle"
    data = os.urandom(512 * 64)
    with connect(url(target.port, "iwarp")) as controller:
        namespace = controller.namespace(1)
        namespace.read(0, 1)
        recording = start("capture", "--rpc-socket", target.rpc_socket, path)
        until_recorded(path)
        namespace.write(8, data)
        assert namespace.read(8, 64) == data

    def explained() -> list[Dialogue]:
        found = explain(path.read_bytes(), target.port, keep=True)
        assert found.violations == 0
        return found.dialogues

    deadline = time.monotonic() + TIMEOUT
    while not any(one.ended for one in explained()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    recording.send_signal(signal.SIGINT)
    assert ended(recording)[0] == 0
    assert content(explained(), "Write") == content(explained(), "Read") == data


def test_until_an_error(target: Served, tmp_path: Path) -> None:
    """The trigger works on synthesised packets."""
    path = tmp_path / "error"
    before = target.log.count("target_capture")
    recording = start(
        "capture", "--rpc-socket", target.rpc_socket, "--last", "60", "--until-error", path
    )
    deadline = time.monotonic() + TIMEOUT
    while target.log.count("target_capture") == before:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    nvmeof("get-log", url(target.port, "iwarp"), "-i", "0x33", "-l", "512", status=1)
    status, _, err = ended(recording)
    assert status == 0
    assert "Get Log Page" in err
    assert read_file(path).dialogues
