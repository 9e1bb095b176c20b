# SPDX-License-Identifier: BSD-3-Clause
"""Scale, idle hosts and ends: 64 hosts, an idle target, SIGTERM, kill -9 with a running client."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import itertools
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.clientlab import free_port
from support.served import FRIEND_NQN, MEBIBYTE, SANITIZED, SUBNQN, TIMEOUT, Served, config
from wire.errors import ConnectionEnded
from wire.host import NvmeHost

if TYPE_CHECKING:
    from nvmf.initiator import Controller

Serve = Callable[..., Served]
HOSTS, QUEUES, ROUNDS, BLOCKS = 64, 4, 6, 16


def pattern(host: int, queue: int, round_: int, blocks: int = BLOCKS) -> bytes:
    """Return blocks that are unique to a host, queue and round."""
    seed = hashlib.sha256(f"{host} {queue} {round_}".encode()).digest()
    return b"".join(
        hashlib.sha256(seed + bytes([n & 255, n >> 8])).digest() * 16 for n in range(blocks)
    )


def work(host: NvmeHost, number: int, errors: list[str]) -> None:
    """Write and verify on every queue, and read on the next queue the data that this one wrote."""
    try:
        for round_ in range(ROUNDS):
            for queue in range(1, QUEUES + 1):
                lba = ((number * QUEUES) + queue - 1) * BLOCKS
                data = pattern(number, queue, round_)
                host.write(lba, data, queue=queue)
                if host.read(lba, BLOCKS, queue=queue % QUEUES + 1) != data:
                    errors.append(f"host {number} queue {queue} round {round_}")
    except BaseException as error:
        errors.append(f"host {number}: {error!r}")


def run_all(hosts: list[NvmeHost]) -> list[str]:
    """Run all hosts at once, a thread each; return the errors."""
    errors: list[str] = []
    threads = [
        threading.Thread(target=work, args=(host, number, errors))
        for number, host in enumerate(hosts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_more_hosts_than_a_limit_for_select(serve: Serve) -> None:
    """The soft limit of descriptors is raised to the hard limit."""
    served = serve(wrapper=("prlimit", "--nofile=256:"))
    limits = Path(f"/proc/{served.process.pid}/limits").read_text()
    soft, hard = next(x for x in limits.splitlines() if x.startswith("Max open files")).split()[3:5]
    assert soft == hard
    assert soft != "256"


def descriptors_kept(target: Served) -> int:
    """Return the number of descriptors (completion queues) that a target keeps after this many
    hosts.
    """
    hosts = [NvmeHost(target.address, SUBNQN).connect(QUEUES, depth=16) for _ in range(HOSTS)]
    most = target.descriptors
    for host in hosts:
        host.close()
    target.settle(most - HOSTS * (QUEUES + 1))
    return target.descriptors


@pytest.mark.feature("connect")
@pytest.mark.parametrize("reactors", [1, 3])
def test_64_hosts_of_4_queues(serve: Serve, reactors: int) -> None:
    """Each host verifies its own data while all others write theirs."""
    target = serve(config(reactors=reactors))
    before = descriptors_kept(target)
    hosts = [NvmeHost(target.address, SUBNQN) for _ in range(HOSTS)]
    try:
        for host in hosts:
            host.connect(io_queues=QUEUES, depth=16)
        assert len({host.cntlid for host in hosts}) == HOSTS
        assert not run_all(hosts)
        for number, host in enumerate(hosts):
            other = (number * 7 + 1) % HOSTS
            lba = other * QUEUES * BLOCKS
            assert host.read(lba, BLOCKS) == pattern(other, 1, ROUNDS - 1)
    finally:
        for host in hosts:
            host.close()
    target.settle(before)
    assert target.end() == 0


async def test_64_clients_of_4_queues(serve: Serve) -> None:
    """64 of the product's own clients write and verify, each with 32 commands in progress."""
    from nvmf.initiator import connect

    target = serve(config(reactors=2))
    url = f"nvme+rdma://127.0.0.1:{target.port}/{SUBNQN}"

    async def one(number: int) -> None:
        async with connect(
            url, device="iwarp", queues=QUEUES, queue_depth=16, connect_timeout=TIMEOUT, kato=0
        ) as controller:  # its process is so busy that a Keep Alive may be delayed
            disk = controller.namespace(1)

            async def part(index: int) -> None:
                lba = (number * 32 + index) * BLOCKS
                for round_ in range(3):
                    data = pattern(number, index, round_)
                    await disk.write(lba, data)
                    assert await disk.read(lba, BLOCKS) == data

            await asyncio.gather(*(part(index) for index in range(32)))

    await asyncio.gather(*(one(number) for number in range(HOSTS)))
    assert target.end() == 0


def test_idle_target_sleeps(serve: Serve) -> None:
    """Ten connected idle hosts use less than 1 % of a core.

    This is a share of processor time, not a duration; one of several windows is enough, because a
    busy machine can only increase it.
    """
    target = serve()
    hosts = [NvmeHost(target.address, SUBNQN).connect(io_queues=4) for _ in range(10)]
    try:
        for host in hosts:
            host.write(0, bytes(512))
        for _ in range(10):
            start, used = time.monotonic(), target.cpu_seconds
            time.sleep(4)
            share = (target.cpu_seconds - used) / (time.monotonic() - start)
            if share <= 0.01:
                break
        assert share <= 0.01, f"{share:.1%} of a core"
    finally:
        for host in hosts:
            host.close()


@pytest.mark.skipif(SANITIZED, reason="ASan has memory of its own")
def test_memory_of_a_target(serve: Serve) -> None:
    """Under 64 MiB resident with one host and default queues, before its blocks are written."""
    target = serve()
    with NvmeHost(target.address, SUBNQN).connect(io_queues=4, depth=128) as host:
        host.write(0, bytes(4096))
        assert host.read(0, 8) == bytes(4096)
        assert target.resident_all < 64 * MEBIBYTE, f"{target.resident_all >> 10} KiB"


@pytest.mark.skipif(SANITIZED, reason="ASan has memory of its own")
def test_memory_of_an_idle_host(serve: Serve) -> None:
    """A host with one I/O queue of depth 128: its capsules (128 of 64 + 4096 bytes, and 32 of 64)
    and descriptors, and at most the same amount again.
    """
    target = serve()
    address = target.address
    first = [NvmeHost(address, SUBNQN).connect(depth=128) for _ in range(4)]
    resident = target.resident
    more = [NvmeHost(address, SUBNQN).connect(depth=128) for _ in range(32)]
    each = (target.resident - resident) / 32
    for host in first + more:
        host.close()
    capsules = 128 * (64 + 4096 + 64) + 32 * 128
    assert each < 2 * capsules, f"{each / 1024:.0f} KiB a host"


@pytest.mark.parametrize("signal_while", ["idle", "busy", "stuck"])
def test_sigterm(serve: Serve, signal_while: str) -> None:
    """The target ends with status 0 whatever its hosts do, and their connections are closed."""
    target = serve()
    hosts = [NvmeHost(target.address, SUBNQN).connect(io_queues=2) for _ in range(5)]
    threads: list[threading.Thread] = []
    errors: list[str] = []
    if signal_while == "busy":
        works = threading.Barrier(len(hosts) + 1, timeout=60)
        for number, host in enumerate(hosts):
            arguments = (host, number, errors, works)
            threads.append(threading.Thread(target=work_for_ever, args=arguments))
            threads[-1].start()
        works.wait()
    elif signal_while == "stuck":
        from wire import nvme

        for host in hosts:
            queue = host.queues[1]
            queue.peer.serve_reads = False
            region = queue.memory.register(1 << 20)
            sgl = nvme.keyed(region.base, 1 << 20, region.stag)
            for opcode, cid in ((nvme.Io.WRITE, 1), (nvme.Io.READ, 2)):
                queue.submit(nvme.sqe(opcode, nsid=1, cid=cid, sgl=sgl, cdw=(0, 0, 2047)))
    assert target.end() == 0
    for thread in threads:
        thread.join()
    for host in hosts:
        if signal_while == "idle":
            host.admin.peer.ending()
        host.close()
    assert not errors, errors
    target.check_log()


def work_for_ever(host: NvmeHost, number: int, errors: list[str], works: threading.Barrier) -> None:
    """Write and verify until the connection ends; the barrier is passed after the first time."""
    try:
        for turn in itertools.count():
            if turn == 1:
                works.wait()
            data = secrets.token_bytes(8192)
            host.write(number * 64, data)
            if host.read(number * 64, 16) != data:
                errors.append(f"host {number}")
    except (ConnectionEnded, OSError):
        pass
    except BaseException as error:
        if "Terminated" not in type(error).__name__:
            errors.append(f"host {number}: {error!r}")


def test_port_at_once_again(serve: Serve) -> None:
    """A target that ended with connected hosts can listen on its port again at once."""
    text = config(port=free_port())
    first = serve(text)
    host = NvmeHost(first.address, SUBNQN).connect()
    assert first.end() == 0
    again = serve(text)
    host.close()
    NvmeHost(again.address, SUBNQN).connect().close()


@pytest.mark.parametrize("kind", ["file", "pmem"])
async def test_kill_and_return(serve: Serve, tmp_path: Path, kind: str) -> None:
    """kill -9 with a running client, three times: it reconnects, and flushed data is there."""
    from nvmf.initiator import connect

    path = tmp_path / "disk.img"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 8 * MEBIBYTE)
    store = f'store="{kind}"\npath="{path}"\nblock_size=512'
    text = config([store], port=free_port())
    target = serve(text)
    url = f"nvme+rdma://127.0.0.1:{target.port}/{SUBNQN}"
    pending: dict[int, bytes] = {}
    flushed: dict[int, bytes] = {}
    stop = False

    def check_file() -> None:
        """Check that every block has the data acknowledged last, or data that was being written."""
        content = path.read_bytes()
        for lba, data in flushed.items():
            for at in range(0, len(data), 512):
                found = content[lba * 512 + at : lba * 512 + at + 512]
                assert found in (data[at : at + 512], pending[lba][at : at + 512]), lba

    async with connect(
        url, device="iwarp", queues=2, hostnqn=FRIEND_NQN, reconnect_delay=0.2
    ) as controller:
        disk = controller.namespace(1)

        async def writer(slot: int) -> None:
            round_ = 0
            while not stop:
                lba = slot * 64 + round_ % 4 * 16
                data = pending[lba] = pattern(slot, 0, round_)
                if slot % 2:
                    await disk.write(lba, data, fua=True)
                else:
                    await disk.write(lba, data)
                    await disk.flush()
                flushed[lba] = data
                round_ += 1

        writers = [asyncio.create_task(writer(slot)) for slot in range(8)]
        for times in range(3):
            await until(lambda: len(flushed) == 32)
            target.kill()
            check_file()
            target = serve(text)
            await until(functools.partial(returned, controller, times + 1))
        stop = True
        await asyncio.gather(*writers)
        for lba, data in flushed.items():
            assert await disk.read(lba, BLOCKS) == data
    target.kill()
    pending = flushed
    check_file()


def returned(controller: Controller, times: int) -> bool:
    """Whether the client has reconnected this many times."""
    return controller.reconnects >= times


async def until(reached: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(TIMEOUT):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def test_kill_between(serve: Serve, tmp_path: Path) -> None:
    """Each flushed or FUA write is in the file right after kill -9, without help of the client."""
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(8 * MEBIBYTE))
    target = serve(config([f'store="file"\npath="{path}"\nblock_size=512']))
    host = NvmeHost(target.address, SUBNQN).connect()
    from wire import nvme
    from wire.host import expect, lba_words

    queue = host.queues[1]
    for number in range(20):
        data = pattern(1, 2, number)
        words = lba_words(number * 64, BLOCKS, 0x4000 if number % 2 else 0)
        expect(queue.call_write(nvme.Io.WRITE, data, nsid=1, cdw=words))
    expect(queue.call(nvme.sqe(nvme.Io.FLUSH, nsid=1)))
    target.kill()
    host.close()
    content = path.read_bytes()
    for number in range(20):
        data = pattern(1, 2, number)
        assert content[number * 32768 : number * 32768 + len(data)] == data
