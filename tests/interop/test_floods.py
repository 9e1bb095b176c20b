# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that request more from the target's control thread than it can do at once.

They are served in turn (nvmf.target.io.turns), each in the order of its commands, and a host that
disconnects while its commands wait leaves nothing behind.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from support.keyed import Host, config, send
from support.keyed import command as authentication
from support.served import SANITIZED, SUBNQN, Served
from support.witness import Witness
from wire import dhchap, nvme
from wire.host import NvmeHost, Queue, expect
from wire.nvme import Admin, Fctype, Io
from wire.peer import Received
from wire.rdmap import Terminate

FFDHE8192 = 5
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
REPLACE, IGNORE_KEY = 2, 1 << 3
"""RREGA and IEKEY of Reservation Register."""


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory, need_product: None) -> Iterator[Served]:
    """A target that requires keys, and uses the largest group."""
    folder = tmp_path_factory.mktemp("keyed")
    text = config(folder).replace('"ffdhe2048"', '"ffdhe8192"')
    with Served(folder, text) as one:
        yield one.wait_ready()
        assert one.end() == 0
        one.check_log()


def ask_for_challenge(queue: Queue) -> None:
    """Request a challenge, for which the target computes a value, without waiting for it."""
    region = queue.memory.register(4096, readable=False)
    sgl = nvme.keyed(region.base, 4096, region.stag)
    queue.submit(authentication(Fctype.AUTH_RECEIVE, 4096, sgl))


def test_diffie_hellman_for_many(keyed: Served) -> None:
    """Sixty unauthenticated connections each make the target compute; a third of them
    disconnects.
    """
    with Host(keyed).opened() as friend:
        strangers = [Host(keyed) for _ in range(60)]
        queues = [stranger.admin_queue() for stranger in strangers]
        # Completion queues are kept.
        descriptors = keyed.descriptors - len(queues)
        for queue in queues:
            expect(send(queue, dhchap.negotiate(9, groups=bytes([FFDHE8192]))))
        for queue in queues:
            ask_for_challenge(queue)
        for queue in queues[::3]:
            queue.peer.reset()
        for _ in range(8):
            expect(friend.admin.call(nvme.sqe(Admin.KEEP_ALIVE)))
        for index, queue in enumerate(queues):
            if index % 3:
                while not isinstance(event := queue.peer.event(), Received):
                    assert not isinstance(event, Terminate)
                assert nvme.decode_cqe(event.payload).status == 0
        for stranger in strangers:
            stranger.close()
        friend.write(0, b"\x5a" * 512)
        keyed.settle(descriptors)


@pytest.mark.usefixtures("unharmed")
def test_many_slow_commands(target: Served, bystander: Witness) -> None:
    """Reservation commands of eight full queues: those of each queue are answered in order."""
    with NvmeHost(target.address, SUBNQN).connect(io_queues=8, depth=128) as host:
        for queue in host.queues[1:]:
            for cid in range(1, 120):
                keys = struct.pack("<QQ", 0, cid)
                command = nvme.sqe(
                    Io.RESERVATION_REGISTER, nsid=1, cid=cid,
                    sgl=nvme.in_capsule(0, len(keys)), cdw=(REPLACE | IGNORE_KEY,),
                )  # fmt: skip
                queue.submit(command, keys)
        for queue in host.queues[2:]:
            for cid in range(1, 120):
                event = queue.peer.event()
                assert isinstance(event, Received)
                cqe = queue.take(event)
                assert (cqe.cid, cqe.status) == (cid, 0)
        for _ in range(3):
            bystander.check()
        # They disconnect before the last answers.
        for queue in host.queues[2:]:
            for cid in range(120, 127):
                queue.submit(nvme.sqe(Io.RESERVATION_REGISTER, nsid=1, cid=cid))


@pytest.mark.usefixtures("unharmed")
def test_answers_that_nobody_takes(target: Served, bystander: Witness) -> None:
    """Six strangers request 720 MiB of the discovery log and do not read them: the target keeps a
    small part of it at a time, and answers all when they read.
    """
    before, size = target.resident, 1 << 20
    strangers = [NvmeHost(target.address, DISCOVERY) for _ in range(6)]
    for stranger in strangers:
        admin = Queue.open(target.address, depth=128)
        stranger.queues.append(admin)
        expect(stranger.connect_command(admin))
        stranger.enable()
        region = admin.memory.register(size, readable=False)
        sgl = nvme.keyed(region.base, size, region.stag)
        for cid in range(0x4000, 0x4000 + 120):
            words = (0x70 | (size // 4 - 1 & 0xFFFF) << 16, size // 4 - 1 >> 16)
            admin.submit(nvme.sqe(Admin.GET_LOG_PAGE, cid=cid, sgl=sgl, cdw=words))
    most = 0
    for _ in range(40):
        bystander.check()
        most = max(most, target.resident - before)
    assert SANITIZED or most < 128 << 20, f"{most >> 20} MiB"
    for cid in range(0x4000, 0x4000 + 120):
        assert strangers[0].admin.response(cid).status == 0
    for stranger in strangers:
        stranger.close()
