# SPDX-License-Identifier: BSD-3-Clause
"""The output of nvmeof explain for a kernel's exchange, and for wrong ones."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from nvmf.capture.container import File
from nvmf.capture.explain import Explainer, explain
from nvmf.cli.main import main
from support import pcaps
from support.pcaps import Exchange
from wire import capture
from wire.nvme import Admin

RECORDING = Path(__file__).parent.parent / "data" / "capture" / "siw-nvme.xz"


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    """Linux's host and target over siw."""
    return pcaps.recording(capture.load(RECORDING))


# ---- the kernel ----


def test_the_kernels_exchange(packets: list[bytes]) -> None:
    """Connections, handshakes, names and commands; none of it is reported as invalid."""
    found = explain(pcaps.pcapng(packets))
    assert found.violations == 0
    assert [(one.qid, one.cntlid) for one in found.dialogues] == [(0, 1), (0, 1), (1, 1)]
    admin, io = found.dialogues[1:]
    assert admin.subnqn == "nqn.2026-11.lab:t"
    assert admin.hostnqn.startswith("nqn.2014-08.org.nvmexpress:uuid:")
    assert admin.handshake == [
        "request: MPA revision 2, CRC off, IRD 128, ORD 0; NVMe-oF: QID 0, HRQSIZE 32, HSQSIZE 31",
        "reply: MPA revision 2, CRC off, IRD 0, ORD 128; NVMe-oF: CRQSIZE 32",
    ]
    said = [(one.name, one.detail, one.size, one.status) for one in admin.commands[:8]]
    done = "Successful Completion"
    assert said == [
        ("Connect", "QID 0, SQSIZE 31, KATO 5000 ms", 1024, done),
        ("Property Get", "CAP", 0, done),
        ("Property Set", "CC = 0x460060", 0, done),
        ("Property Get", "CAP", 0, done),
        ("Property Set", "CC = 0x460061", 0, done),
        ("Property Get", "CSTS", 0, done),
        ("Property Get", "VS", 0, done),
        ("Identify", "CNS 01h Controller", 4096, done),
    ]
    writes = [one for one in io.commands if one.name == "Write"]
    assert [(one.size, len(one.in_capsule), one.read) for one in writes] == [
        (512, 512, 0), (4096, 4096, 0), (4096, 4096, 0), (131072, 0, 131072),
    ]  # fmt: skip
    failed = [one for one in io.faults if "fails" in one.sentence]
    assert [one.sentence.split(") ")[1] for one in failed] == ["fails: Internal Error"]


def test_data_is_kept_on_request(packets: list[bytes]) -> None:
    """Data of commands, in capsules and by READ and WRITE, is whole."""
    kept = explain(pcaps.pcap(packets), keep=True).dialogues[2]
    for command in kept.commands:
        if command.size and command.status == "Successful Completion" and command.done_packet:
            content = command.content()
            assert content is not None
            assert len(content) == command.size
    dropped = explain(pcaps.pcap(packets)).dialogues[2]
    assert all(not one.pieces for one in dropped.commands if not one.connect)


def test_every_order_of_bytes(packets: list[bytes]) -> None:
    """pcap and pcapng, little- and big-endian, microseconds and nanoseconds: the same."""
    files = [pcaps.pcapng(packets, order=order) for order in "<>"]
    files += [
        pcaps.pcap(packets, order=order, nanoseconds=ns) for order in "<>" for ns in (False, True)
    ]
    every = [explain(data) for data in files]
    for found in every:
        assert found.violations == 0
        assert [
            [(c.name, c.status, c.latency) for c in one.commands] for one in found.dialogues
        ] == [[(c.name, c.status, c.latency) for c in one.commands] for one in every[0].dialogues]


def test_segments_late_twice_and_apart(packets: list[bytes]) -> None:
    """Retransmitted and reordered segments change nothing."""
    shuffled = list(packets)
    for at in range(0, len(shuffled) - 1, 7):
        if shuffled[at][12:24] == shuffled[at + 1][12:24]:  # of one direction
            shuffled[at], shuffled[at + 1] = shuffled[at + 1], shuffled[at]
    twice = [packet for packet in shuffled for _ in range(2)]
    found, plain = explain(pcaps.pcap(twice)), explain(pcaps.pcap(packets))
    assert found.violations == 0
    for one, other in zip(found.dialogues, plain.dialogues, strict=True):
        assert [c.name for c in one.commands] == [c.name for c in other.commands]


def test_missing_packets_are_said(packets: list[bytes]) -> None:
    """Commands after a hole are found again, and the hole is not reported as a violation."""
    for hole in range(20, len(packets) - 40, 61):
        found = explain(pcaps.pcap(packets[:hole] + packets[hole + 3 :]))
        assert found.violations == 0, (hole, found.dialogues)
    middle = explain(pcaps.pcap(packets[len(packets) // 2 :]))
    assert middle.violations == 0
    assert middle.dialogues[0].qid is None
    assert any(one.status for one in middle.dialogues[0].commands)


def test_segments_without_data(packets: list[bytes]) -> None:
    """A full ring keeps headers only: that is no violation, and later data is decoded."""
    packed = pcaps.pcap(packets)
    for every in (5, 17, 90):
        cut = pcaps.pcap(packets, without_data=range(3, len(packets), every))
        assert len(cut) < len(packed)
        found = explain(cut)
        assert found.violations == 0
        assert any(one.status for each in found.dialogues for one in each.commands)
        assert any(fault.loss for one in found.dialogues for fault in one.faults)


# ---- the command ----


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    try:
        status = main(["explain", *map(str, words)])
    except SystemExit as ending:
        status = int(ending.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


def test_the_command(
    tmp_path: Path, packets: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.pcap"
    path.write_bytes(pcaps.pcap(packets))
    status, out, err = run(capsys, path)
    assert (status, err) == (0, "")
    assert "connection 3: iWARP" in out
    assert "NSID 1, LBA 0, 256 blocks" in out
    assert out.endswith("0 violations of specifications\n")
    status, out, _ = run(capsys, path, "--summary")
    assert "p99 us" in out
    status, out, _ = run(capsys, path, "-o", "json")
    found = json.loads(out)
    assert status == 0
    assert [len(one["commands"]) for one in found["connections"]] == [15, 30, 62]
    commands = found["connections"][1]["commands"]
    assert commands[0]["latency_us"] > 0
    assert {one["nsid"] for one in commands if one["opcode"] == 0x7F} == {None}
    assert 1 in {one["nsid"] for one in found["connections"][2]["commands"]}


def test_the_status_of_a_violation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Exchange()
    wrong.begin()
    wrong.command(Admin.IDENTIFY, 1, cdw10=1, length=4096)
    path = tmp_path / "w.pcap"
    path.write_bytes(pcaps.pcap(wrong.packets))
    status, out, _ = run(capsys, path)
    assert status == 1
    assert "[Base 2.0, 3.3.2]" in out


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "neither pcap nor pcapng: its first bytes are missing"),
        (b"hello, world", "neither pcap nor pcapng: its first bytes are 68656c6c"),
        (b"\x1f\x8b\x09\x00" + bytes(40), "compressed by gzip, and damaged"),
    ],
)
def test_files_that_are_no_captures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, sentence: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    status, _, err = run(capsys, path)
    assert status == 2
    assert sentence in err
    assert run(capsys, tmp_path / "absent")[0] == 2


def test_a_machine_with_little_memory(packets: list[bytes], tmp_path: Path) -> None:
    """The largest file that is allowed is larger than the memory; this one is small."""
    path = tmp_path / "small.pcapng"
    path.write_bytes(pcaps.pcapng(packets))
    words = shlex.join([sys.executable, "-m", "nvmf.cli.main", "explain", "--summary", str(path)])
    done = subprocess.run(
        ["sh", "-c", f"ulimit -v 1500000; exec {words}"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Connect" in done.stdout


def test_ended_connections_are_forgotten(packets: list[bytes]) -> None:
    """A long recording keeps no state of connections that have ended."""
    explainer = Explainer()
    for packet in File(pcaps.pcap(packets)).packets():
        explainer.feed(packet)
    for one in explainer.found.dialogues[:2]:
        one.ended = "closed"
    explainer.forget_ended()
    assert [one.number for one in explainer.found.dialogues] == [3]
    begun = Exchange()
    begun.begin()
    for packet in File(pcaps.pcap(begun.packets)).packets():
        explainer.feed(packet)
    assert [one.number for one in explainer.finish().dialogues] == [3, 4]
