# SPDX-License-Identifier: BSD-3-Clause
"""nvmeof replay, of a captured host and of a captured target."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from support.capturelab import BLOCKS, PROGRAM, ended, nvmeof, start, url
from support.served import TIMEOUT, Served, config

TARGET_CONFIG = config()


# ---- of a host ----


def test_replay(target: Served, written: tuple[Path, bytes], tmp_path: Path) -> None:
    """The same target answers the same; after a change, the difference is stated."""
    place = url(target.port)
    path = tmp_path / "r.pcapng"
    nvmeof("capture", path, "--", *PROGRAM, "read", place, "-z", BLOCKS, "-d", tmp_path / "before")
    assert "0 differences" in nvmeof("replay", path, place)
    (tmp_path / "new").write_bytes(b"\xff" * 512)
    nvmeof("write", place, "-z", 512, "-d", tmp_path / "new")
    first = (tmp_path / "before").read_bytes()[:512]
    different = sum(byte != 0xFF for byte in first)
    if different:
        said = json.loads(nvmeof("replay", "-o", "json", path, place, status=1))
        (only,) = said["differences"]
        assert only["command"] == "Read"
        assert f"{different} of {BLOCKS} bytes differ" in only["sentence"]
    # writes are played only on demand
    written_path, content = written
    out = nvmeof("replay", written_path, place)
    assert "1 command not played: it changes data: --write plays it" in out
    nvmeof("read", place, "-z", 512, "-d", tmp_path / "still")
    assert (tmp_path / "still").read_bytes() == b"\xff" * 512
    assert "0 differences" in nvmeof("replay", "--write", written_path, place)
    nvmeof("read", place, "-z", BLOCKS, "-d", tmp_path / "now")
    assert (tmp_path / "now").read_bytes() == content


def test_replay_of_the_kernels_host(target: Served, tmp_path: Path) -> None:
    """Linux's host to nvmet, played to our target: statuses, data and results are compared."""
    from support import pcaps
    from wire import capture

    recording = Path(__file__).parent.parent / "data" / "capture" / "siw-nvme.xz"
    path = tmp_path / "kernel.pcap"
    path.write_bytes(pcaps.pcap(pcaps.recording(capture.load(recording))))
    said = json.loads(nvmeof("replay", "-o", "json", path, url(target.port), status=1))
    assert said["played"] > 50
    sentences = [one["sentence"] for one in said["differences"]]
    assert "the status was Internal Error, and is LBA Out of Range" in sentences
    assert said["skipped"]["it changes data: --write plays it"] == 5


# ---- of a target ----


@contextlib.contextmanager
def played(path: Path, *words: object) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """nvmeof replay --as target, until its hosts have disconnected; and its port."""
    with start(
        "replay", "--as", "target", "--once", "-s", 0, "--device", "iwarp", *words, path
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            assert "listening on 127.0.0.1 port " in line, process.communicate(timeout=TIMEOUT)
            yield process, int(line.split()[4].rstrip(","))
        finally:
            process.kill()


def test_replay_as_the_target(written: tuple[Path, bytes], tmp_path: Path) -> None:
    """A live host has the recorded responses; what differs from the file is stated."""
    path, content = written
    (tmp_path / "same").write_bytes(content)
    with played(path) as (process, port):
        nvmeof("write", url(port), "-z", BLOCKS, "-d", tmp_path / "same")
        status, out, err = ended(process)
        assert status == 0, err
        assert "no write differs" in out
        assert "not in the file" not in out
    (tmp_path / "other").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with played(path) as (process, port):
        nvmeof("write", url(port), "-z", BLOCKS, "-d", tmp_path / "other")
        status, out, _ = ended(process)
        assert status == 1
        assert f"other data than in the capture, from byte {BLOCKS - 1}" in out


def test_replay_of_a_target_reads_its_blocks(target: Served, tmp_path: Path) -> None:
    path, place = tmp_path / "r.pcapng", url(target.port)
    nvmeof("capture", path, "--", *PROGRAM, "read", place, "-z", BLOCKS, "-d", tmp_path / "real")
    with played(path) as (process, port):
        nvmeof("read", url(port), "-z", BLOCKS, "-d", tmp_path / "again")
        assert ended(process)[0] == 0
    assert (tmp_path / "again").read_bytes() == (tmp_path / "real").read_bytes()
    with played(path) as (process, port):  # blocks that the file does not have
        done = subprocess.run(
            [*PROGRAM, "read", url(port), "--start-block", "1000000", "-z", "512"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert "Traceback" not in done.stderr
        assert done.returncode != 0
        status, _, err = ended(process)
        assert status in (0, 1), err


def test_replay_of_the_kernels_target(tmp_path: Path) -> None:
    """Linux's nvmet, as it was recorded over siw, answers our client."""
    from support import pcaps
    from wire import capture

    recording = Path(__file__).parent.parent / "data" / "capture" / "siw-nvme.xz"
    path = tmp_path / "kernel.pcap"
    path.write_bytes(pcaps.pcap(pcaps.recording(capture.load(recording))))
    with played(path) as (process, port):
        place = f"nvme+rdma://127.0.0.1:{port}/nqn.2026-11.lab:t?device=iwarp"
        assert "Linux" in nvmeof("id-ctrl", place)
        status, out, err = ended(process)
        assert status in (0, 1), err
        assert "commands answered" in out


def test_replay_mistakes(target: Served, written: tuple[Path, bytes], tmp_path: Path) -> None:
    place = url(target.port)
    for words, sentence in (
        (("replay", tmp_path / "absent", place), "No such file"),
        (("replay", "--connection", "99", written[0], place), "no connection 99"),
        (("replay", __file__, place), "neither pcap nor pcapng"),
        (("replay", written[0]), "specify the target"),
        (("replay", "--once", written[0], place), "--once is for --as target"),
        (("replay", "--as", "target", written[0], place), "needs only -a, -s and --device"),
        (("replay", "--as", "target", "-a", "192.0.2.1", written[0]), "192.0.2.1"),
        (("replay", "--as", "target", "-s", "65536", written[0]), "0 to 65535, not '65536'"),
        (("replay", "--as", "target", "-s", "x", written[0]), "0 to 65535, not 'x'"),
    ):
        status, _, err = ended(start(*words))
        assert status == 2
        assert sentence in err
        assert "Traceback" not in err
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "absent").unlink()
