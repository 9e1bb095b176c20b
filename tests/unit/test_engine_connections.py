# SPDX-License-Identifier: BSD-3-Clause
"""The binding's connections: their management, and queue pairs of the target."""

from __future__ import annotations

import errno
import select
from collections.abc import Iterator

import pytest

from nvmf import engine
from nvmf.spec import commands
from nvmf.spec.cm import CmReject, CmRequest
from nvmf.spec.fabrics import ConnectData
from nvmf.spec.opcodes import AdminOpcode, FabricsType
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import Status
from support.enginerig import Host, Pair, drop, wait


@pytest.fixture(params=["command", "buffer"])
def device(request: pytest.FixtureRequest) -> engine.HostDevice:
    return engine.HostDevice("iwarp", remote_keys=request.param)


@pytest.fixture
def channel() -> Iterator[engine.EventChannel]:
    found = engine.EventChannel("iwarp")
    yield found
    found.close()


@pytest.fixture
def target() -> Iterator[engine.Target]:
    found = engine.Target()
    yield found
    found.close()


@pytest.fixture
def pair(
    target: engine.Target, channel: engine.EventChannel, device: engine.HostDevice
) -> Iterator[Pair]:
    found = Pair(target, channel, device)
    found.host.arm()
    found.qpair.connected(32, None)
    yield found
    found.host.close()


# ---- connection management ----


def test_listen(channel: engine.EventChannel) -> None:
    listener = channel.listen("127.0.0.1", 0)
    host, port = listener.address
    assert host == "127.0.0.1"
    with pytest.raises(engine.EngineError, match=rf"cannot listen on 127.0.0.1:{port}") as raised:
        channel.listen("127.0.0.1", port)
    assert raised.value.errno == errno.EADDRINUSE
    with pytest.raises(engine.EngineError, match="no interface of this machine") as raised:
        channel.listen("192.0.2.77", 4420)
    assert raised.value.errno == errno.EADDRNOTAVAIL
    listener.close()
    channel.listen("127.0.0.1", port).close()
    assert channel.get_event() is None


def test_listen_ipv6(channel: engine.EventChannel, device: engine.HostDevice) -> None:
    try:
        listener = channel.listen("::1", 0)
    except engine.EngineError as error:
        pytest.skip(f"no IPv6 here: {error}")
    host = Host(device, listener.address[1], traddr="::1")
    request = wait(channel, channel.get_event)
    assert request.local == ("::1", listener.address[1])
    assert request.peer[0] == "::1"
    request.reject(CmReject(sts=6).encode())
    with pytest.raises(engine.ConnectError):
        host.done()


def test_reject(channel: engine.EventChannel, device: engine.HostDevice) -> None:
    listener = channel.listen("127.0.0.1", 0)
    host = Host(device, listener.address[1], qid=3, size=64, cntlid=9)
    request = wait(channel, channel.get_event)
    assert request.listener is listener
    assert CmRequest.decode(request.private_data) == CmRequest(0, 3, 64, 63, 9)
    assert request.initiator_depth > 0
    request.reject(CmReject(sts=4).encode())
    with pytest.raises(engine.EngineError, match="already accepted or rejected"):
        request.reject(b"")
    with pytest.raises(engine.ConnectError, match="sts 4") as raised:
        host.done()
    assert raised.value.reject_sts == 4
    assert raised.value.errno == errno.ECONNREFUSED


def test_undecided_is_rejected(channel: engine.EventChannel, device: engine.HostDevice) -> None:
    listener = channel.listen("127.0.0.1", 0)
    host = Host(device, listener.address[1])
    requests = [wait(channel, channel.get_event)]
    with pytest.warns(ResourceWarning, match="never accepted nor rejected"):
        drop(requests)
    with pytest.raises(engine.ConnectError) as raised:
        host.done()
    assert raised.value.reject_sts == 6


def test_channel_rejects_what_waits(device: engine.HostDevice) -> None:
    channel = engine.EventChannel("iwarp")
    port = channel.listen("127.0.0.1", 0).address[1]
    host = Host(device, port)
    select.select([channel], [], [], 5)
    channel.close()
    with pytest.raises(engine.ConnectError):
        host.done()
    with pytest.raises(engine.EngineError, match="closed"):
        channel.listen("127.0.0.1", 0)


def test_refused(device: engine.HostDevice) -> None:
    with pytest.raises(engine.ConnectError, match="refused") as raised:
        engine.HostQueue(device, traddr="127.0.0.1", trsvcid="1")
    assert raised.value.reject_sts == 0
    assert raised.value.errno == errno.ECONNREFUSED


# ---- queue pairs of the target ----


def test_command(pair: Pair, device: engine.HostDevice) -> None:
    """The control thread gets a capsule with data; the host gets data, status and dwords."""
    with device.alloc(4096) as memory:
        content = ConnectData(hostid=bytes(range(16)), subnqn="nqn.2026-01.example:x").encode()
        memoryview(memory)[:1024] = content
        pair.host.submit(commands.connect(0, 31), "one", memory, 0, 1024, True)
        command = pair.upcall()
        assert command.qpair is pair.qpair
        assert command.qpair.cookie is pair
        sqe = Sqe.decode(command.sqe)
        assert (sqe.opcode, sqe.fctype) == (AdminOpcode.FABRICS, FabricsType.CONNECT)
        assert command.data == content
        with pytest.raises(engine.EngineError, match="commands move data"):
            memory.close()
        command.complete(0, 5, 6)
        with pytest.raises(ValueError, match="already completed"):
            command.complete()
        assert pair.result() == ("one", 0, 5, 6)

        pair.host.submit(commands.identify(), "two", memory, 512, 1024)
        command = pair.upcall()
        assert command.data == b""
        command.complete(data=b"z" * 2000)
        assert pair.result()[:2] == ("two", 0)
        assert bytes(memory) == content[:512] + b"z" * 1024 + bytes(4096 - 512 - 1024)
    assert pair.qpair.stats["commands"] == 2


def test_command_nobody_completes(pair: Pair) -> None:
    pair.host.submit(commands.keep_alive(), "lost")
    upcalls = [pair.upcall()]
    with pytest.warns(ResourceWarning, match="was never completed"):
        drop(upcalls)
    assert pair.result()[1] & 0x7FF == Status.INTERNAL_ERROR


def test_submit_arguments(pair: Pair, device: engine.HostDevice) -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        pair.host.submit(bytes(63), None)
    with pytest.raises(ValueError, match="registered memory"):
        pair.host.submit(bytes(64), None, None, 0, 512)
    with (
        device.alloc(4096) as memory,
        pytest.raises(ValueError, match="512 bytes at 4000 are not"),
    ):
        pair.host.submit(bytes(64), None, memory, 4000, 512)


def test_queue_full(pair: Pair) -> None:
    for number in range(pair.host.size + 1):
        try:
            pair.host.submit(commands.keep_alive(), number)
        except BlockingIOError:
            break
    else:
        pytest.fail("the queue takes more than its size")
    assert pair.host.outstanding == number
    assert number >= pair.host.size - 1


def test_life_of_a_queue_pair(pair: Pair) -> None:
    """The queue is closed, then destroyed; not before all its commands are completed."""
    assert pair.qpair.peer[0] == "127.0.0.1"
    with pytest.raises(engine.EngineError, match="still open"):
        pair.qpair.destroy()
    pair.host.submit(commands.keep_alive(), 1)
    command = pair.upcall()
    pair.host.close()
    pair.peer_left()
    event = pair.upcall()
    assert isinstance(event, engine.Closed)
    assert event.qpair is pair.qpair
    assert event.reason
    with pytest.raises(engine.EngineError, match=r"1 commands .* not completed"):
        pair.qpair.destroy()
    command.complete()
    pair.qpair.destroy()
    pair.qpair.destroy()
    pair.qpair.disconnect()
    assert pair.qpair.stats["malformed"] == 0
    assert "destroyed" in repr(pair.qpair)
    with pytest.raises(engine.EngineError, match="closed"):
        pair.qpair.enable(True)


def test_host_sees_the_end(pair: Pair) -> None:
    pair.host.submit(commands.keep_alive(), "user")
    command = pair.upcall()
    pair.qpair.disconnect()
    with pytest.raises(engine.EngineError, match="lost") as raised:
        wait(pair.host, pair.host.poll)
    assert raised.value.errno == errno.ENOTCONN
    assert pair.host.reason
    assert pair.host.abandon() == ["user"]
    assert pair.host.abandon() == []
    command.complete()


def test_target_closed_under_everything(pair: Pair) -> None:
    """Handles of a closed target do nothing, or raise an error."""
    pair.host.submit(commands.keep_alive(), 1)
    command = pair.upcall()
    pair.target.close()
    command.complete()
    pair.qpair.disconnect()
    pair.qpair.destroy()
    with pytest.raises(engine.EngineError, match="target is closed"):
        pair.target.upcalls()


def test_gates_and_fences(pair: Pair) -> None:
    """References that keep gates alive, and the result of a fence."""
    gates = engine.Gates(pair.target, 4)
    gates.set(4, read=0x0B | 0x4000, write=0x83)
    with pytest.raises(engine.EngineError, match="there are 1 to 4"):
        gates.set(5, read=1)
    pair.qpair.gate(gates)
    pair.qpair.gate(gates)
    with pytest.raises(engine.EngineError, match="other gates"):
        pair.qpair.gate(engine.Gates(pair.target, 4))
    with pytest.raises(OverflowError):
        gates.set(1, read=0x10000)
    pair.target.fence([pair.qpair], 3, "cookie")
    fenced = pair.upcall()
    assert isinstance(fenced, engine.Fenced)
    assert (fenced.nsid, fenced.cookie) == (3, "cookie")
    pair.target.fence(())
    assert pair.upcall().cookie is None
    gates.close()
    with pytest.raises(engine.EngineError, match="gates is closed"):
        gates.set(1)
    pair.qpair.disconnect()
    assert isinstance(pair.upcall(), engine.Closed)
    pair.qpair.destroy()
