# SPDX-License-Identifier: BSD-3-Clause
"""Backing files that are invalid or fail, ports in use, and invalid configurations."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support import faulty
from support.served import MEBIBYTE, SUBNQN, TIMEOUT, Served, config
from wire import nvme
from wire.errors import Rejected
from wire.host import NvmeHost, Queue, lba_words
from wire.nvme import Io, Status

Serve = Callable[..., Served]
SIZE = 8 * MEBIBYTE
HALF = SIZE // 2
GOOD = b"good" * 128
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"


def store(path: Path, extra: str = "") -> str:
    """Return the table of a namespace on a file."""
    return f'store="file"\npath="{path}"\nblock_size=512\n{extra}'


RAM = 'store="ram"\nsize="64MiB"\nblock_size=512'


def refused(serve: Serve, text: str, *words: str) -> str:
    """Check that the target ends with status 1 or 2 and a sentence that has these words."""
    one = serve(text, ready=False)
    status = one.process.wait(TIMEOUT)
    log = one.log + one.output
    assert status in (1, 2), log
    assert "Traceback" not in log, log
    for word in words:
        assert word in log, f"{word!r} is not in: {log}"
    assert len(log.splitlines()) < 15, log
    return log


def test_missing_file(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "not-there.img"
    refused(serve, config([store(path)]), str(path))
    assert not path.exists()


def test_missing_folder(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "no" / "folder.img"
    refused(serve, config([store(path, 'size="8MiB"')]), str(path))


def test_folder(serve: Serve, tmp_path: Path) -> None:
    refused(serve, config([store(tmp_path)]), str(tmp_path))


@pytest.mark.parametrize("size", [0, 1, 511])
def test_too_small(serve: Serve, tmp_path: Path, size: int) -> None:
    """A file that is smaller than a block is refused."""
    path = tmp_path / "small.img"
    path.write_bytes(bytes(size))
    refused(serve, config([store(path)]), str(path))
    assert path.stat().st_size == size


def test_smaller_than_said(serve: Serve, tmp_path: Path) -> None:
    """A configured size that the file does not have: refused, or the file's own size."""
    path = tmp_path / "small.img"
    path.write_bytes(bytes(MEBIBYTE))
    one = serve(config([store(path, 'size="8MiB"')]), ready=False)
    try:
        one.wait_ready()
    except AssertionError:
        assert str(path) in one.log + one.output
        return
    with NvmeHost(one.address, SUBNQN).connect() as host:
        blocks = int.from_bytes(host.identify(0, 1)[:8], "little")
        assert blocks * 512 == path.stat().st_size


def test_unaligned_size(serve: Serve, tmp_path: Path) -> None:
    """A size that is not a multiple of the block: the rest is not used, or it is refused."""
    path = tmp_path / "odd.img"
    path.write_bytes(bytes(MEBIBYTE + 100))
    one = serve(config([store(path)]), ready=False)
    try:
        one.wait_ready()
    except AssertionError:
        assert str(path) in one.log + one.output
        return
    with NvmeHost(one.address, SUBNQN).connect() as host:
        assert int.from_bytes(host.identify(0, 1)[:8], "little") == 2048
        host.write(2047, GOOD)
    assert one.end() == 0
    assert path.read_bytes()[MEBIBYTE - 512 :] == GOOD + bytes(100)


def test_read_only(serve: Serve, tmp_path: Path) -> None:
    """Writes are refused with Namespace is Write Protected, reads work."""
    path = tmp_path / "ro.img"
    path.write_bytes(GOOD * 4096)
    path.chmod(0o444)
    one = serve(config([store(path, "read_only=true"), RAM]))
    with NvmeHost(one.address, SUBNQN).connect() as host:
        assert host.read(5, 1) == GOOD
        for opcode, data in ((Io.WRITE, b"x" * 512), (Io.WRITE_ZEROES, b"")):
            cqe = host.queues[1].call_write(opcode, data, nsid=1, cdw=lba_words(5, 1))
            assert nvme.status_name(cqe.status) == "NAMESPACE_WRITE_PROTECTED"
        assert host.read(5, 1) == GOOD
        assert host.identify(0, 1)[99] & 1, "NSATTR bit 0: write protected (NVM 1.0 4.1.5.1)"
    assert path.read_bytes() == GOOD * 4096


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write any file")
def test_file_without_permission(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "ro.img"
    path.write_bytes(bytes(SIZE))
    path.chmod(0o000)
    refused(serve, config([store(path)]), str(path), "ermission")


def faulty_target(serve: Serve, path: Path, error: int, offset: int) -> Served:
    """Start a target whose file fails beyond offset, with a second namespace of RAM."""
    if not faulty.SUPPORTED:
        pytest.skip("the fault injector knows x86-64 only")
    path.write_bytes(GOOD * (SIZE // 512))
    wrapper = (sys.executable, faulty.__file__, str(error), str(offset))
    return serve(config([store(path, "direct=false"), RAM]), wrapper=wrapper)


FAULTS = [
    (Io.READ, errno.EIO, Status.UNRECOVERED_READ_ERROR),
    (Io.WRITE, errno.EIO, Status.WRITE_FAULT),
    (Io.WRITE, errno.ENOSPC, Status.CAPACITY_EXCEEDED),
    (Io.WRITE, errno.EDQUOT, Status.CAPACITY_EXCEEDED),
    (Io.WRITE, errno.EROFS, Status.NAMESPACE_WRITE_PROTECTED),
    (Io.COMPARE, errno.EIO, Status.UNRECOVERED_READ_ERROR),
]


@pytest.mark.parametrize(
    ("opcode", "error", "status"),
    FAULTS,
    ids=[f"{f[0].name}-{errno.errorcode[f[1]]}" for f in FAULTS],
)
@pytest.mark.parametrize("blocks", [1, 1024], ids=["one block", "split"])
def test_fault(
    serve: Serve, tmp_path: Path, opcode: Io, error: int, status: Status, blocks: int
) -> None:
    """The command gets the correct status; the rest of the file and the other namespace still
    work.
    """
    one = faulty_target(serve, tmp_path / "faulty.img", error, HALF)
    bad = HALF // 512 + 8 if blocks == 1 else HALF // 512 - 100
    with (
        NvmeHost(one.address, SUBNQN).connect() as host,
        NvmeHost(one.address, SUBNQN).connect() as other,
    ):
        queue = host.queues[1]
        for _ in range(3):
            words = lba_words(bad, blocks)
            if opcode == Io.READ:
                cqe = queue.call_read(opcode, blocks * 512, nsid=1, cdw=words)[0]
            else:
                cqe = queue.call_write(opcode, GOOD * blocks, nsid=1, cdw=words)
            assert nvme.status_name(cqe.status) == status.name
            host.write(3, b"z" * 512)
            assert host.read(3, 1) == b"z" * 512
            other.write(9, b"y" * 512, nsid=2)
            assert other.read(9, 1, nsid=2) == b"y" * 512
    assert one.end() == 0
    name = opcode.name.title()
    said = f"{name} of {blocks * 512} bytes at byte {bad * 512} failed with "
    assert said in one.log, "the administrator is informed, too"
    assert f"{tmp_path / 'faulty.img'}: {os.strerror(error)}; " in one.log


def test_failing_flush(serve: Serve, tmp_path: Path) -> None:
    """A Flush that fails reports it: the data is not guaranteed to be stored."""
    one = faulty_target(serve, tmp_path / "faulty.img", errno.EIO, 0)
    with NvmeHost(one.address, SUBNQN).connect() as host:
        host.write(3, b"z" * 512)
        cqe = host.queues[1].call(nvme.sqe(Io.FLUSH, nsid=1))
        assert nvme.status_name(cqe.status) in ("WRITE_FAULT", "INTERNAL_ERROR")
        assert host.read(3, 1) == b"z" * 512


def test_truncated_under_the_target(serve: Serve, tmp_path: Path) -> None:
    """The file shrinks: an error in the removed part, and the target continues."""
    path = tmp_path / "shrinks.img"
    path.write_bytes(GOOD * (SIZE // 512))
    one = serve(config([store(path, "direct=false"), RAM]))
    with NvmeHost(one.address, SUBNQN).connect() as host:
        os.truncate(path, HALF)
        cqe, _ = host.queues[1].call_read(Io.READ, 512, nsid=1, cdw=lba_words(HALF // 512 + 5, 1))
        assert cqe.status or _ == bytes(512), "a hole reads as zeroes, or as an error"
        assert host.read(5, 1) == GOOD
        host.write(9, b"y" * 512, nsid=2)
    assert one.alive


@pytest.fixture
def tmpfs() -> Iterator[Path]:
    """A folder in memory, whose files are mapped."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.feature("pmem")
def test_truncated_pmem(serve: Serve, tmpfs: Path) -> None:
    """The mapped file shrinks: SIGBUS becomes the status of a command and does not end the
    target.
    """
    path = tmpfs / "pmem.img"
    path.write_bytes(GOOD * (SIZE // 512))
    one = serve(config([f'store="pmem"\npath="{path}"', RAM]))
    with NvmeHost(one.address, SUBNQN).connect() as host:
        assert host.read(5, 1) == GOOD
        os.truncate(path, HALF)
        cqe, _ = host.queues[1].call_read(Io.READ, 512, nsid=1, cdw=lba_words(HALF // 512 + 64, 1))
        assert cqe.status
        words = lba_words(HALF // 512 + 64, 1)
        assert host.queues[1].call_write(Io.WRITE, GOOD, nsid=1, cdw=words).status
        host.write(9, b"y" * 512, nsid=2)
    assert one.alive


def test_port_in_use(serve: Serve) -> None:
    """The sentence names the address and the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(serve, config(port=port), "127.0.0.1", str(port), "in use")


def test_address_of_another(serve: Serve) -> None:
    refused(serve, config(traddr="192.0.2.1"), "192.0.2.1")


WRONG = [
    ("an unknown key", config() + "colour=1\n", ("colour",)),
    ("an unknown table", "[targit]\nreactors=1\n" + config(), ("targit",)),
    ("an unknown port key", config().replace("trsvcid", "trsvcids"), ("trsvcids",)),
    ("a word for a number", config().replace("reactors=1", 'reactors="many"'), ("reactors",)),
    ("no reactors", config().replace("reactors=1", "reactors=0"), ("reactors",)),
    ("a port of 65536", config(port=65536), ("trsvcid",)),
    ("a host name", config(traddr="localhost.invalid"), ("traddr",)),
    ("an NQN with a tab", config(subnqn="not\\tan nqn"), ("nqn",)),
    ("an NQN of 300", config(subnqn="nqn.2014-08.org.example:" + "x" * 300), ("nqn",)),
    ("block size 500", config([RAM.replace("512", "500")]), ("block_size",)),
    ("a store of cheese", config(['store="cheese"\nsize="1MiB"']), ("store", "cheese")),
    ("a file without a path", config(['store="file"']), ("path",)),
    ("RAM without a size", config(['store="ram"']), ("size",)),
    ("a size in parsecs", config(['store="ram"\nsize="9 parsecs"']), ("size",)),
    ("the same NQN twice", config() + config().split("\n\n")[2], ("nqn",)),
    ("no TOML", "[target\nreactors=", ("target.toml",)),
    ("not UTF-8 in spirit", "\x00\x01", ("target.toml",)),
]


@pytest.mark.parametrize(("name", "text", "words"), WRONG, ids=[row[0] for row in WRONG])
def test_wrong_configuration(serve: Serve, name: str, text: str, words: tuple[str, ...]) -> None:
    """An invalid configuration is refused; the message has the file, the key and the expected
    value.
    """
    refused(serve, text, "target.toml", *words)


def test_no_configuration(need_product: None, tmp_path: Path) -> None:
    """A configuration that does not exist is reported."""
    path = tmp_path / "nowhere.toml"
    command = [sys.executable, "-m", "nvmf.cli.main", "target", "serve", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode in (1, 2)
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("reads", [False, True])
def test_strangers_keep_no_host_out(serve: Serve, reads: bool) -> None:
    """Connections that send no Connect, or read the discovery log, make room for a host."""
    one = serve(config().replace("reactors=1", "reactors=1\nmax_queues=8"))
    strangers = [NvmeHost(one.address, DISCOVERY) for _ in range(8)]
    for stranger in strangers:
        if reads:
            stranger.connect(io_queues=0)
        else:
            stranger.queues.append(Queue.open(one.address))
    with patient_host(one.address, io_queues=2) as host:
        host.write(1, GOOD)
        for stranger in strangers:
            stranger.close()
        host.write(1, GOOD)


def patient_host(address: tuple[str, int], io_queues: int, patience: float = 15.0) -> NvmeHost:
    """Connect, again and again for some time: half as long as Connect may take."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return NvmeHost(address, SUBNQN).connect(io_queues)
        except Rejected:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_connections_beyond_the_limit(serve: Serve) -> None:
    """More queues than max_queues: reject 6, no resources; later there is room again."""
    one = serve(config().replace("reactors=1", "reactors=1\nmax_queues=3"))
    host = NvmeHost(one.address, SUBNQN).connect(io_queues=2)
    with pytest.raises(Rejected) as refusal:
        NvmeHost(one.address, SUBNQN).connect()
    assert refusal.value.private_data == nvme.cm_reject(nvme.Reject.RESOURCES)
    host.write(1, GOOD)
    host.close()
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            NvmeHost(one.address, SUBNQN).connect(io_queues=2).close()
            break
        except Rejected:
            assert time.monotonic() < deadline
            time.sleep(0.05)
