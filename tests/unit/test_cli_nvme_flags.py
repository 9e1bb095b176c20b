# SPDX-License-Identifier: BSD-3-Clause
"""nvme-cli's short flags on commands for blocks, with a URL and with -a."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from nvmf.initiator import connect
from support.clientlab import NQN, OPTIONS, RAM, serving

Run = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest_asyncio.fixture
async def where() -> AsyncIterator[str]:
    """The URL of a target with one namespace, whose block n has the byte n."""
    async with serving(RAM) as (_, url):
        async with connect(url, **OPTIONS) as controller:
            disk = controller.namespaces[0]
            for lba in range(16):
                await disk.write(lba, bytes([lba]) * disk.block_size)
        yield url


@pytest.fixture
def run() -> Run:
    async def call(*words: object) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "nvmf.cli.main", *map(str, words)]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, done.stdout, done.stderr

    return call


async def test_read_and_write(where: str, run: Run, tmp_path: Path) -> None:
    """-s is the first block with a URL, -c the 0's based count, -z the size, -n the NSID."""
    file = tmp_path / "data"
    assert (await run("read", where, "-n", 1, "-s", 3, "-c", 1, "-d", file))[0] == 0
    data = file.read_bytes()
    size = len(data) // 2
    assert data == b"\3" * size + b"\4" * size
    assert (await run("read", where, "-s", "0x5", "-z", size, "-d", file))[0] == 0
    assert file.read_bytes() == b"\5" * size
    file.write_bytes(b"x" * size)
    assert (await run("write", where, "-s", 7, "-c", 0, "-d", file))[0] == 0
    assert (await run("compare", where, "-s", 7, "-c", 0, "-d", file))[0] == 0
    assert (await run("compare", where, "-s", 8, "-z", size, "-d", file))[0] == 1
    assert (await run("compare", where, "-s", 7, "-c", 1, "-d", file))[0] == 2


async def test_count_and_size(where: str, run: Run, tmp_path: Path) -> None:
    """nvme-cli requires -z in addition to -c: they are accepted if they agree."""
    file = tmp_path / "data"
    with_both = ("-s", 2, "--block-count=1", "--data-size", 1024, "-d", file)
    for command in ("read", "compare", "write"):
        assert (await run(command, where, *with_both))[0] == 0
    assert file.read_bytes() == b"\2" * 512 + b"\3" * 512
    for command in ("read", "compare", "write"):
        status, _, err = await run(command, where, "-c", 1, "-z", 512, "-d", file)
        assert (status, err.count("\n")) == (2, 1)
        assert "--data-size 512 is not the size of 2 blocks of 512 bytes" in err
    assert (await run("read", where, "-s", 2, "--blocks", 1, "-d", file))[0] == 0
    assert len(file.read_bytes()) == 512


async def test_verbose(where: str, run: Run, tmp_path: Path) -> None:
    """-v, before or after the command, shows connections and failed commands; -vv shows all."""
    host = "nqn.2014-08.org.example:verbose"
    said = rf"INFO: connected to .* as host {host}: controller \d+, 1 I/O queues, iwarp device\n"
    for words in (("-v", "list-ns", where), ("list-ns", where, "--verbose")):
        status, out, err = await run(*words, "-q", host)
        assert (status, "NSID" in out) == (0, True)
        assert re.search(said, err), err
        assert "DEBUG" not in err
    status, _, err = await run("get-feature", where, "-f", 0x77, "-v")
    assert status == 1
    assert re.search(r"INFO: Get Features \(77h\) failed: Invalid Field", err), err
    assert "DEBUG: Property Get (CAP) succeeded" in (await run("list-ns", where, "-vv"))[2]
    assert "INFO" not in (await run("list-ns", where))[2]


@pytest.mark.parametrize(
    "words",
    [("verify",), ("write-zeroes",), ("write-uncor",)],
    ids=lambda words: str(words[0]),
)
async def test_ranges(where: str, run: Run, words: tuple[str, ...]) -> None:
    status, out, err = await run(*words, where, "-s", 4, "-c", 2)
    assert status == 0, err
    assert "3 blocks" in out
    assert "4" in out
    assert (await run(*words, where, "-s", 4, "-b", 5))[0] == 2
    status, _, err = await run(*words, where, "-s", "here")
    assert (status, "-s with a URL is the first logical block" in err) == (2, True)
    assert (await run(*words, where, "-n", 9))[0] == 1


async def test_an_address(where: str, run: Run, tmp_path: Path) -> None:
    """With -a, -s is the port, and -n the NQN; -c is still the count."""
    port = where.removeprefix("nvme+rdma://127.0.0.1:").partition("/")[0]
    place = ("-a", "127.0.0.1", "-n", NQN, "--device", "iwarp")
    file = tmp_path / "data"
    assert (await run("read", *place, "-s", port, "-b", 2, "-c", 0, "-d", file))[0] == 0
    assert set(file.read_bytes()) == {2}
    status, _, err = await run("read", *place, "-s", port, "--trsvcid", port, "-d", file)
    assert (status, "give the port once" in err) == (2, True)


async def test_reservations(where: str, run: Run) -> None:
    """With a URL, all short flags are nvme-cli's: -t is the type, -a the action."""
    for words in (
        ("resv-register", "-k", "0x11", "-r", 0),
        ("resv-acquire", "-c", "0x11", "-t", 1, "-a", 0),
        ("resv-release", "-c", "0x11", "-t", 1, "-a", 0),
        ("resv-register", "-r", 1, "-c", "0x11"),
    ):
        status, _, err = await run(words[0], where, "-n", 1, *words[1:])
        assert status == 0, err
    for flags, said in (
        (("-t", 1, "-a", 9), "--racqa must be 0 to 2, not 9"),
        (("-t", 1, "-a", "here"), "-a with a URL is --racqa: 'here' is not a whole number"),
        (("-a", 0), "--rtype must be one of"),
    ):
        status, _, err = await run("resv-acquire", where, "-c", 1, *flags)
        assert (status, said in err) == (2, True), err
    place = ("-a", "127.0.0.1", "-n", NQN)
    status, _, err = await run("resv-acquire", *place, "-c", 1, "-t", 1)
    assert (status, "without a URL, -t is the transport, rdma: use --rtype 1" in err) == (2, True)


async def test_logs_and_features(where: str, run: Run) -> None:
    """-n is the NSID with a URL, in both notations, and -s of get-feature selects the value."""
    for command in ("smart-log", "get-log -i 2 -l 512 --rae"):
        for nsid in (1, "0xffffffff"):
            assert (await run(*command.split(), where, "-n", nsid))[0] == 0
        status, _, err = await run(*command.split(), where, "-n", 77)
        assert (status, "failed: Invalid" in err) == (1, True), err
    assert "current" in (await run("get-feature", where, "-f", 7, "-s", 0))[1]
    status, _, err = await run("get-feature", where, "-f", 7, "-s", 4)
    assert (status, "--sel must be 0 to 3, not 4" in err) == (2, True)


async def test_human_readable(where: str, run: Run) -> None:
    """-H shows the bit fields below their value."""
    _, out, _ = await run("id-ctrl", where, "-H")
    lines = [line.split() for line in out.splitlines()]
    oncs = next(n for n, line in enumerate(lines) if line[0] == "oncs")
    assert lines[oncs + 1] == ["[0:0]", ":", "0x1", "Compare"]
    assert "[0:0]" not in (await run("id-ctrl", where))[1]
    assert "format in use" in (await run("id-ns", where, "-H", "-n", 1))[1]
    assert "submission queues" in (await run("get-feature", where, "-H", "-f", 7))[1]
    assert "mqes" in (await run("show-regs", where, "-H"))[1]


@pytest.mark.parametrize(
    ("command", "size"),
    [
        ("id-ctrl", 4096),
        ("id-ns", 4096),
        ("smart-log", 512),
        ("error-log", 64),
        ("ana-log", 8),
        ("ana-log -g -o binary", 8),
        ("changed-ns-list-log", 4096),
        ("resv-report -d 16", 64),
        ("get-feature -f 0x0e", 8),
        ("get-feature -f 0x81", 16),
        ("get-feature -f 0x07", 4),
    ],
)
async def test_raw(where: str, command: str, size: int) -> None:
    """-b writes the bytes that the controller has sent."""
    words = [sys.executable, "-m", "nvmf.cli.main", *command.split(), where, "-b"]
    done = await asyncio.to_thread(
        subprocess.run, words, capture_output=True, timeout=300, check=True
    )
    assert len(done.stdout) >= size
    assert len(done.stdout) % size == 0


async def test_flags_without_a_value(where: str, run: Run, tmp_path: Path) -> None:
    """-a of list-ns, -s of set-feature, -t of read: with a URL, before or after it."""
    for words in (("list-ns", where, "-a"), ("list-ns", "-a", where), ("list-ns", where, "--all")):
        status, out, err = await run(*words)
        assert (status, out.splitlines()[-1].split()[0]) == (0, "1"), err
    assert json.loads((await run("list-ns", where, "-n", 2, "-o", "json"))[1]) == {"nsid_list": []}
    status, _, err = await run("list-ns", "-a")
    assert (status, "-a is --all with a URL only" in err) == (2, True)
    status, _, err = await run("set-feature", where, "-f", 0x0B, "-v", "0x100", "-s")
    assert (status, "Feature Identifier Not Saveable" in err) == (1, True), err
    assert (await run("set-feature", "-v", where, "-f", 0x0B, "-V", 0))[0] == 0
    assert (await run("set-feature", where, "-f", 0x0B))[0] == 2
    for flags in ((where, "-t"), ("-t", where)):
        status, _, err = await run("read", *flags, "-c", 0, "-f", "-d", tmp_path / "data")
        assert (status, re.search(r"^latency: read: \d+ us$", err, re.MULTILINE) is None) == (
            0,
            False,
        )
    status, _, err = await run("read", where, "-t", "tcp", "-d", tmp_path / "data")
    assert (status, "the transport is rdma; with a URL, -t is --latency" in err) == (2, True)


async def test_protection_information(where: str, run: Run, tmp_path: Path) -> None:
    """The flags are accepted if they are 0."""
    file = tmp_path / "data"
    zero = ("-p", 0, "-r", 0, "-a", 0, "-m", 0, "-l", "-f")
    assert (await run("read", where, "-c", 0, "-d", file, "-t", *zero))[0] == 0
    assert (await run("compare", where, "-d", file, "-t", *zero))[0] == 0
    assert (await run("write", where, "-d", file, *zero))[0] == 0
    assert (await run("verify", where, *zero))[0] == 0
    for words in (("read", "-r", 1), ("verify", "-p", 8), ("write", "-a", 3, "-d", file)):
        status, _, err = await run(words[0], where, *words[1:])
        assert (status, "transfers no metadata or protection information" in err) == (2, True), err


async def test_features_with_data(where: str, run: Run, tmp_path: Path) -> None:
    """The timestamp is 8 bytes of data."""
    stamp = tmp_path / "stamp"
    stamp.write_bytes((1 << 40).to_bytes(8, "little") + b"rest")
    words = ("set-feature", where, "-f", 0x0E, "-v", 0, "-d", stamp)
    status, _, err = await run(*words, "-l", 8)
    assert status == 0, err
    status, _, err = await run(*words, "--data-len", 4096)
    assert (status, "has 12 bytes" in err) == (1, True)
    status, _, err = await run("set-feature", where, "-f", 0x0E, "-v", 0, "-l", 8)
    assert (status, "--data-len is for --data" in err) == (2, True)


async def test_logs_by_nvme_clis_flags(where: str, run: Run) -> None:
    """-o of get-log is the offset if it is a number, -a the event that names the log page."""
    status, out, err = await run("get-log", where, "-a", 0x020001, "-l", 64, "-o", 32, "-r")
    assert (status, out.splitlines()[0][:6]) == (0, "000020"), err
    assert (await run("get-log", where, "-i", 2, "-l", 64, "-o", "xml"))[0] == 2
    assert (await run("get-log", where, "-l", 64))[0] == 2
    assert "NSIDs" not in (await run("ana-log", where, "-g"))[1]
    assert (await run("ana-log", where, "-g", "-o", "json"))[1].count('"nsids": []') > 0
    for size in (16, 32):
        status, out, err = await run("resv-report", where, "-d", size, "-e")
        assert (status, out.startswith("reservation: none")) == (0, True), err
    assert (await run("resv-report", where, "-d", 15))[0] == 2
