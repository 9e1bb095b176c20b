# SPDX-License-Identifier: BSD-3-Clause
"""In-band authentication over real sockets, correct and with various errors.

The host is hand-made, with the second implementation of DH-HMAC-CHAP.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from support.keyed import (
    CTRL_KEY,
    KEY,
    OTHER,
    Host,
    authenticate,
    challenge,
    command,
    config,
    message,
    receive,
    reply,
    send,
)
from support.served import SUBNQN, Served
from wire import dhchap, nvme
from wire.errors import ConnectionEnded
from wire.host import NvmeHost, Queue, Terminated, expect
from wire.nvme import Fctype, Io

FAILED, CONCAT, HASH, GROUP, PAYLOAD, MESSAGE = 1, 3, 4, 5, 6, 7


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory, need_product: None) -> Iterator[Served]:
    """A target that requires keys."""
    folder = tmp_path_factory.mktemp("keyed")
    with Served(folder, config(folder)) as one:
        yield one.wait_ready()
        assert one.alive, one.log
        assert one.end() == 0
        one.check_log()
        for key in (KEY, CTRL_KEY, OTHER):
            assert key[10:30] not in one.log


@pytest.fixture(scope="module")
def friend(keyed: Served) -> Iterator[Host]:
    """A second connection of the host, which must not be affected."""
    with Host(keyed).opened() as one:
        yield one


@pytest.fixture(autouse=True)
def unharmed(keyed: Served, friend: Host) -> Iterator[None]:
    """After a test the target runs and serves the second connection."""
    yield
    assert keyed.alive, keyed.log
    friend.write(0, b"\x5a" * 512)
    assert friend.read(0, 1) == b"\x5a" * 512


@pytest.fixture
def host(keyed: Served) -> Iterator[Host]:
    with Host(keyed) as one:
        yield one


@pytest.fixture
def admin(host: Host) -> Queue:
    return host.admin_queue()


def ends(queue: Queue) -> None:
    """Check that the connection ends without a further message."""
    with pytest.raises((ConnectionEnded, Terminated, ConnectionError)):
        while True:
            queue.peer.event(30)


def fails(queue: Queue, reason: int) -> None:
    """Check for AUTH_Failure1, and the end of the connection."""
    assert dhchap.failure1(message(queue)) == reason
    ends(queue)


# ---- correct ----


@pytest.mark.feature("dhchap", "dhchap-mutual")
@pytest.mark.parametrize("group", [0, 1], ids=["null", "ffdhe2048"])
@pytest.mark.parametrize("mutual", [False, True], ids=["one way", "both ways"])
def test_right(host: Host, group: int, mutual: bool) -> None:
    authenticate(host.admin_queue(), group=group, mutual=mutual)
    host.enable()
    authenticate(host.io_queue(), group=group, mutual=mutual)
    host.write(8, b"\x77" * 512)
    assert host.read(8, 1) == b"\x77" * 512
    for queue in host.queues:  # repeatedly
        authenticate(queue, group=group, mutual=mutual)
    assert host.read(8, 1) == b"\x77" * 512
    host.shutdown()


# ---- before ----

BEFORE = {
    "property get": nvme.property_get(0, 8),
    "identify": nvme.sqe(nvme.Admin.IDENTIFY, cdw=(1,)),
    "keep alive": nvme.sqe(nvme.Admin.KEEP_ALIVE),
    "async event": nvme.sqe(nvme.Admin.ASYNC_EVENT),
}


@pytest.mark.parametrize("name", BEFORE)
def test_before(admin: Queue, name: str) -> None:
    cqe = admin.call(BEFORE[name])
    assert nvme.status_name(cqe.status) == "AUTHENTICATION_REQUIRED"
    assert cqe.dnr
    expect(send(admin, dhchap.negotiate(9)))
    cqe = admin.call(BEFORE[name])
    assert nvme.status_name(cqe.status) == "AUTHENTICATION_REQUIRED"


@pytest.mark.parametrize("opcode", [Io.READ, Io.WRITE, Io.FLUSH])
def test_io_before(host: Host, opcode: int) -> None:
    """No I/O runs on an I/O queue that has not authenticated, even if the admin queue has."""
    authenticate(host.admin_queue())
    host.enable()
    queue = host.io_queue()
    size = 512 if opcode != Io.FLUSH else 0
    region = queue.memory.register(size)
    sgl = nvme.keyed(region.base, size, region.stag)
    cqe = queue.call(nvme.sqe(opcode, nsid=1, sgl=sgl))
    assert nvme.status_name(cqe.status) == "AUTHENTICATION_REQUIRED"
    assert region.written == 0
    asked = challenge(queue)
    cqe = queue.call(nvme.sqe(Io.FLUSH, nsid=1))
    assert nvme.status_name(cqe.status) == "AUTHENTICATION_REQUIRED"
    expect(send(queue, reply(asked)))
    message(queue)
    expect(queue.call(nvme.sqe(Io.FLUSH, nsid=1)))


# ---- wrong ----


@pytest.mark.feature("dhchap")
def test_wrong_key(keyed: Served, admin: Queue) -> None:
    before = keyed.log.count("the host has a different key")
    expect(send(admin, reply(challenge(admin), OTHER)))
    fails(admin, FAILED)
    assert keyed.log.count("the host has a different key") == before + 1


BAD_FIRST: dict[str, tuple[bytes, int]] = {
    "no hash": (dhchap.negotiate(9, b"\x09"), HASH),
    "no group": (dhchap.negotiate(9, groups=b"\5"), GROUP),
    "secure channel": (dhchap.negotiate(9, sc_c=1), CONCAT),
    "truncated": (dhchap.negotiate(9)[:40], PAYLOAD),
    "longer": (dhchap.negotiate(9) + bytes(8), PAYLOAD),
    "lists too long": (dhchap.negotiate(9)[:10] + b"\xff" + dhchap.negotiate(9)[11:], PAYLOAD),
    "one byte": (b"\0", PAYLOAD),
    "reply": (dhchap.reply(9, bytes(32)), MESSAGE),
    "success2": (dhchap.success2(9), MESSAGE),
    "unknown": (b"\7" * 72, MESSAGE),
    "4 KiB of nothing": (bytes(4096), PAYLOAD),
}


@pytest.mark.parametrize("name", BAD_FIRST)
def test_bad_first_message(admin: Queue, name: str) -> None:
    data, reason = BAD_FIRST[name]
    expect(send(admin, data))
    fails(admin, reason)


BAD_REPLY: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "truncated": (lambda data: data[:30], PAYLOAD),
    "longer": (lambda data: data + b"\0", PAYLOAD),
    "other transaction": (lambda data: data[:4] + b"\x0a\0" + data[6:], PAYLOAD),
    "other hash length": (lambda data: data[:6] + b"\x40" + data[7:], PAYLOAD),
    "DH value that was not asked for": (lambda data: data[:10] + b"\4" + data[11:], PAYLOAD),
    "one bit": (lambda data: data[:16] + bytes([data[16] ^ 1]) + data[17:], FAILED),
    "negotiate again": (lambda _: dhchap.negotiate(9), MESSAGE),
    "success2": (lambda _: dhchap.success2(9), MESSAGE),
}


@pytest.mark.parametrize("name", BAD_REPLY)
def test_bad_reply(admin: Queue, name: str) -> None:
    spoil, reason = BAD_REPLY[name]
    expect(send(admin, spoil(reply(challenge(admin)))))
    fails(admin, reason)


def test_dh_value_of_one(admin: Queue) -> None:
    asked = challenge(admin, groups=b"\1")
    expect(send(admin, dhchap.reply(9, bytes(32), dh=b"\0" * 255 + b"\1")))
    assert asked.group == 1
    fails(admin, PAYLOAD)


def test_replay_on_another_connection(keyed: Served, host: Host) -> None:
    """A response that was valid on one connection is invalid on a different one."""
    first = host.admin_queue()
    right = reply(challenge(first))
    expect(send(first, right))
    message(first)
    with Host(keyed) as thief:
        queue = thief.admin_queue()
        challenge(queue)
        expect(send(queue, right))
        fails(queue, FAILED)


def test_replay_on_the_same_queue(admin: Queue) -> None:
    right = reply(challenge(admin))
    expect(send(admin, right))
    message(admin)
    challenge(admin)
    expect(send(admin, right))
    fails(admin, FAILED)


def test_receive_out_of_turn(admin: Queue) -> None:
    fails(admin, MESSAGE)


def test_challenge_twice(admin: Queue) -> None:
    challenge(admin)
    fails(admin, MESSAGE)


def test_host_refuses(admin: Queue) -> None:
    asked = challenge(admin)
    expect(send(admin, reply(asked, c2=b"c" * 32, s2=1)))
    message(admin)
    expect(send(admin, dhchap.failure2(9)))
    ends(admin)


def test_admin_queue_takes_its_controller_along(host: Host) -> None:
    """A failed second authentication ends the association, including its I/O queue."""
    host.opened()
    expect(send(host.admin, reply(challenge(host.admin), OTHER)))
    assert dhchap.failure1(message(host.admin)) == FAILED
    ends(host.admin)
    ends(host.queues[1])


def test_io_queue_goes_alone(host: Host) -> None:
    host.opened()
    expect(send(host.queues[1], reply(challenge(host.queues[1]), OTHER)))
    fails(host.queues[1], FAILED)
    expect(host.admin.call(nvme.property_get(0, 8)))


# ---- invalid commands: neither a message nor the end ----


@pytest.mark.parametrize("cdw10", [0, 0xE9000000, 0xE9020100, 0xE9010200, 0xEA010100])
def test_another_protocol(admin: Queue, cdw10: int) -> None:
    cqe = send(admin, dhchap.negotiate(9), cdw10=cdw10)
    assert nvme.status_name(cqe.status) == "INVALID_FIELD"
    authenticate(admin)


@pytest.mark.parametrize(("size", "tl"), [(72, 0), (72, 71), (72, 73), (72, 1 << 31)])
def test_transfer_length_that_is_another(admin: Queue, size: int, tl: int) -> None:
    cqe = send(admin, bytes(size), tl=tl)
    assert nvme.status_name(cqe.status) in ("INVALID_FIELD", "SGL_DATA_LENGTH_INVALID")
    assert cqe.dnr
    authenticate(admin)


@pytest.mark.parametrize("size", [4097, 65536, 1 << 20])
def test_oversized_message(admin: Queue, size: int) -> None:
    cqe = send(admin, bytes(size))
    assert nvme.status_name(cqe.status) == "INVALID_FIELD"
    authenticate(admin)


@pytest.mark.parametrize(("room", "al"), [(4096, 0), (4096, 4095), (4096, 1 << 30), (8, 8)])
def test_allocation_length_that_is_wrong(admin: Queue, room: int, al: int) -> None:
    expect(send(admin, dhchap.negotiate(9)))
    cqe, data = receive(admin, room, al)
    assert nvme.status_name(cqe.status) in ("INVALID_FIELD", "SGL_DATA_LENGTH_INVALID")
    assert data == bytes(room)
    asked = dhchap.Challenge(message(admin))
    expect(send(admin, reply(asked)))
    message(admin)
    expect(admin.call(nvme.property_get(0, 8)))


@pytest.mark.parametrize("index", [0, 1], ids=["admin", "io"])
def test_too_small_an_allocation_without_a_message(keyed: Served, host: Host, index: int) -> None:
    """It is an invalid command like the others: the authentication neither fails nor is lost."""
    queue = host.opened().queues[index]
    before = keyed.log.count("authentication failed")
    assert nvme.status_name(receive(queue, 4)[0].status) == "INVALID_FIELD"
    host.write(8, b"\x33" * 512)
    assert host.read(8, 1) == b"\x33" * 512
    expect(host.admin.call(nvme.property_get(0, 8)))
    authenticate(queue)
    assert keyed.log.count("authentication failed") == before
    fails(queue, MESSAGE)
    assert keyed.log.count("authentication failed") == before + 1


def test_large_allocation(admin: Queue) -> None:
    """An allocation larger than any message is not an error."""
    expect(send(admin, dhchap.negotiate(9)))
    cqe, data = receive(admin, 1 << 20)
    expect(cqe)
    assert dhchap.Challenge(data).hash_id == 1
    assert not any(data[48:])


def test_connection_that_ends_in_the_middle(keyed: Served) -> None:
    for step in range(3):
        with Host(keyed) as one:
            queue = one.admin_queue()
            if step:
                asked = challenge(queue, groups=b"\1")
                if step == 2:
                    with contextlib.suppress(OSError):
                        queue.submit(command(Fctype.AUTH_SEND, 16, nvme.keyed(0, 16, 1)))
                    assert asked.group == 1


def test_nqn_without_a_key(keyed: Served) -> None:
    """A host that is not allowed is refused by Connect, with or without a key."""
    one = NvmeHost(keyed.address, SUBNQN)
    queue = Queue.open(one.address)
    cqe = one.connect_command(queue)
    assert nvme.status_name(cqe.status) == "CONNECT_INVALID_HOST"
    queue.close()
