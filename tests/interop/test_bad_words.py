# SPDX-License-Identifier: BSD-3-Clause
"""A target's data in the output of commands: a terminal gets no control characters, a program
gets JSON, and unusable data is reported in one sentence.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from support.responder import Connection, NvmeResponder, identify
from support.served import FRIEND_NQN, SUBNQN
from wire.nvme import Admin, Io

pytestmark = pytest.mark.usefixtures("need_product", "need_client")
Run = Callable[..., tuple[int, str, str]]
ESCAPES = b"\x1b[2J\x1b]0;mine\x07\r\n\x9b1m\xe2\x80\xae"


@pytest.fixture
def responder() -> Iterator[NvmeResponder]:
    with NvmeResponder(SUBNQN, identify, cap=0x0000_0020_0F01_007F) as one:
        yield one


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], responder: NvmeResponder) -> Run:
    """Run one command with that target; return status, stdout and stderr."""
    from nvmf.cli.main import main

    def call(command: str, *words: object) -> tuple[int, str, str]:
        nqn = () if command == "discover" else ("-n", SUBNQN)
        where = ("-a", "127.0.0.1", "-s", str(responder.port), *nqn)
        how = ("--device", "iwarp", "-q", FRIEND_NQN)
        status = main([command, *where, *how, *(str(word) for word in words)])
        out, err = capfd.readouterr()
        for text in (out, err):
            assert "Traceback" not in text
            assert all(char.isprintable() for char in text.replace("\n", "")), ascii(text)
        return status, out, err

    return call


def spoilt(responder: NvmeResponder, spoil: Callable[[int, int, bytearray], None]) -> None:
    """Let spoil modify correct Identify data, by CNS and NSID, before the client gets it."""

    def told(capsule: bytes) -> bytes:
        data = bytearray(identify(capsule))
        spoil(capsule[40], int.from_bytes(capsule[4:8], "little"), data)
        return bytes(data)

    responder.identify = told


def test_escapes_of_a_controller(responder: NvmeResponder, run: Run) -> None:
    """Serial and model number, firmware revision, NQN."""

    def spoil(cns: int, nsid: int, data: bytearray) -> None:
        if cns == 1:
            data[4:24] = ESCAPES.ljust(20)[:20]
            data[24:64] = ESCAPES.ljust(40)
            data[768 : 768 + len(ESCAPES)] = ESCAPES

    spoilt(responder, spoil)
    status, out, _ = run("id-ctrl")
    assert (status, out.count(r"\x1b[2J")) == (0, 3)
    status, out, _ = run("id-ctrl", "-o", "json")
    assert (status, json.loads(out)["mn"][:4]) == (0, "\x1b[2J")


def formats(nsid: int, data: bytearray) -> None:
    """The LBA formats of namespaces 1 to 8: only the first one is usable."""
    flbas, metadata, shift = (
        (0, 0, 9), (0, 0, 0), (0, 0, 8), (0, 0, 255), (0, 0, 31), (0x10, 8, 9), (0x6F, 0, 0),
        (0, 0, 19),
    )[nsid - 1]  # fmt: skip
    struct.pack_into("<QQQ", data, 0, *[(1 << 64) - 1] * 3)
    data[25], data[26] = 255, flbas
    data[128:132] = struct.pack("<HBB", metadata, shift, 255)


def test_formats(responder: NvmeResponder, run: Run) -> None:
    """A namespace that this client cannot use is listed, and reported if it is to be read."""

    def spoil(cns: int, nsid: int, data: bytearray) -> None:
        if cns == 2 and not nsid:
            data[:32] = struct.pack("<8I", *range(1, 9))
        elif cns == 0:
            formats(nsid, data)

    spoilt(responder, spoil)
    status, out, _ = run("list-ns", "-o", "json")
    assert status == 0
    found = json.loads(out)["nsid_list"]
    assert [(one["nsid"], one["block_size"]) for one in found[:4]] == [
        (1, 512), (2, 0), (3, 0), (4, 0)
    ]  # fmt: skip
    assert run("list-ns")[0] == 0
    for nsid in range(2, 9):
        assert run("id-ns", "-N", nsid)[0] == 0
        for words in (("read", "-d", "/dev/null"), ("write", "-z", "512", "-d", "/dev/zero")):
            status, _, err = run(*words, "-N", nsid)
            assert (status, err.count("\n")) == (1, 1)
            assert f"namespace {nsid} has a format that this client does not support" in err
    status, _, err = run("read", "-z", "512", "-b", (1 << 64) - 9, "-d", "/dev/null")
    assert status == 0 or "LBA" in err
    responder.errors.clear()


def test_a_reservation_of_no_type(responder: NvmeResponder, run: Run) -> None:
    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid or capsule[0] != 0x0E:
            return False
        length = connection.keyed(capsule)[1]
        head = struct.pack("<IBHxxB54x", 0xFFFFFFFF, 77, 0xFFFF, 0xFF)
        connection.give(capsule, head.ljust(length, b"\xff"))
        connection.complete(capsule)
        return True

    responder.hook = hook
    status, out, _ = run("resv-report")
    assert (status, out.splitlines()[0]) == (
        0,
        "reservation: type 77, persists across restarts; generation 4294967295",
    )
    assert len(out.splitlines()) == 3 + (262144 - 64) // 64
    status, out, _ = run("resv-report", "-o", "json")
    assert (status, json.loads(out)["rtype"]) == (0, 77)


def log_of(*records: bytes, genctr: int = 1, numrec: int | None = None, recfmt: int = 0) -> bytes:
    count = len(records) if numrec is None else numrec
    return struct.pack("<QQH", genctr, count, recfmt).ljust(1024, b"\0") + b"".join(records)


def serving(responder: NvmeResponder, log: bytes) -> None:
    """A discovery controller with that log."""

    def spoil(cns: int, nsid: int, data: bytearray) -> None:
        if cns == 1:
            data[111] = 2

    spoilt(responder, spoil)

    def hook(connection: Connection, capsule: bytes) -> bool:
        if capsule[0] != Admin.GET_LOG_PAGE or not connection.connected:
            return False
        offset = int.from_bytes(capsule[48:56], "little")
        length = connection.keyed(capsule)[1]
        connection.give(capsule, log[offset : offset + length].ljust(length, b"\xff"))
        connection.complete(capsule)
        return True

    responder.hook = hook


def test_escapes_of_a_discovery_log(responder: NvmeResponder, run: Run) -> None:
    from nvmf.spec.fabrics import DiscoveryEntry

    entry = bytearray(DiscoveryEntry(subtype=1, trsvcid="1").encode())
    entry[32 : 32 + len(ESCAPES)] = ESCAPES
    entry[256 : 256 + len(ESCAPES)] = ESCAPES
    entry[512 : 512 + len(ESCAPES)] = ESCAPES
    entry[0:4] = b"\x01\xff\x01\xff"
    serving(responder, log_of(bytes(entry), bytes(range(256)) * 4, b"\xff" * 1024))
    status, out, _ = run("discover")
    assert (status, out.count("=====")) == (0, 6)
    assert out.count(r"\x1b[2J") == 3
    status, out, _ = run("discover", "-o", "json")
    assert (status, len(json.loads(out)["records"])) == (0, 3)


@pytest.mark.parametrize(
    "addresses",
    [
        ["fe80::1%0", "fe80::1%lo%lo", "fe80::1%" + "x" * 200, "::ffff:127.0.0.1%lo"],
        ["[::1]", "0", "127.1", "255.255.255.255", "::", "ff02::1", "%lo"],
        ["two words", "\x7f", "\x1b[2J", " ", "", "1.2.3.4\t"],
    ],
    ids=["scopes", "odd", "none"],
)
def test_referrals_to_nowhere(responder: NvmeResponder, run: Run, addresses: list[str]) -> None:
    """Unreachable services are reported, one per line; the command finishes."""
    from nvmf.spec.fabrics import DiscoveryEntry

    one = DiscoveryEntry(subtype=1, trsvcid="1")
    serving(responder, log_of(*(replace(one, traddr=text).encode() for text in addresses)))
    status, out, err = run("discover")
    assert status == 0
    assert f"{len(addresses)} records" in out
    assert err.count("\n") <= len(addresses)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (log_of(numrec=(1 << 64) - 1), "announces 18446744073709551615 records"),
        (log_of(numrec=65537), "announces 65537 records"),
        (log_of(recfmt=1), "record format 1"),
    ],
)
def test_absurd_logs(responder: NvmeResponder, run: Run, log: bytes, said: str) -> None:
    serving(responder, log)
    status, _, err = run("discover")
    assert (status, err.count("\n")) == (1, 1)
    assert said in err


def test_more_groups_than_there_can_be(responder: NvmeResponder, run: Run) -> None:
    """An ANA log page that announces more groups than Identify: a sentence says what is wrong."""

    def spoil(cns: int, nsid: int, data: bytearray) -> None:
        if cns == 1:
            data[76] |= 8
            struct.pack_into("<II", data, 344, 1, 1)

    def hook(connection: Connection, capsule: bytes) -> bool:
        if capsule[0] != Admin.GET_LOG_PAGE:
            return False
        page = struct.pack("<QH", 1, 9).ljust(connection.keyed(capsule)[1], b"\0")
        connection.give(capsule, page)
        connection.complete(capsule)
        return True

    spoilt(responder, spoil)
    responder.hook = hook
    status, _, err = run("ana-log")
    assert (status, err.count("\n")) == (1, 1)
    assert "bytes: it announces 9 groups and has room for 1" in err
    assert "Invalid Field in Command" not in err, "no controller has sent this status"
    assert "unpack" not in err


@pytest.mark.parametrize(
    ("command", "silent", "limit", "said"),
    [
        ("discover", Admin.GET_LOG_PAGE, "discovery.log", "was not read within 0.2 s"),
        ("list-ns", None, "client.inventory", "did not describe its namespaces within 0.2 s"),
    ],
)
def test_what_takes_for_ever(
    responder: NvmeResponder,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    silent: Admin | None,
    limit: str,
    said: str,
) -> None:
    """Each answer is in time, but the whole command has a time limit as well."""
    monkeypatch.setattr(f"nvmf.initiator.{limit}._MOST_SECONDS", 0.2)

    def hook(connection: Connection, capsule: bytes) -> bool:
        listing = capsule[0] == Admin.IDENTIFY and capsule[40] == 2
        return not connection.qid and (capsule[0] == silent if silent else listing)

    if silent:
        serving(responder, log_of())
    responder.hook = hook
    status, _, err = run(command)
    assert (status, err.count("\n")) == (1, 1)
    assert said in err


def test_a_load_that_is_not_answered(responder: NvmeResponder, run: Run) -> None:
    """No figures for commands that never completed."""
    responder.hook = lambda connection, capsule: bool(connection.qid and capsule[0] == Io.READ)
    status, out, err = run("bench", "--runtime", "0.1", "-Q", 4)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "the target left 4 commands of the load unanswered, 10 s after its end" in err


def test_a_read_that_ends_in_garbage(responder: NvmeResponder, run: Run) -> None:
    """A status that is not in the specification."""

    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid or capsule[0] != Io.READ:
            return False
        connection.complete(capsule, 0x7FFF & ~0x3800)
        return True

    responder.hook = hook
    status, _, err = run("read", "-z", "512", "-d", "/dev/null")
    assert (status, err.count("\n")) == (1, 2)
    assert "Read of 1 block at LBA 0 in namespace 1 failed: Status 7h/ffh" in err
    assert "nothing was copied to /dev/null" in err


async def test_ports_without_end(responder: NvmeResponder) -> None:
    """connect_multipath() would connect to all of them at once."""
    from nvmf.initiator import ConnectionLost
    from nvmf.initiator.multipath import find_paths
    from nvmf.spec.fabrics import DiscoveryEntry

    one = DiscoveryEntry(traddr="192.0.2.1", subnqn=SUBNQN)
    serving(responder, log_of(*(replace(one, trsvcid=str(n + 1)).encode() for n in range(300))))
    with pytest.raises(ConnectionLost, match="names more than 256 ports"):
        await find_paths(f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}", device="iwarp")
