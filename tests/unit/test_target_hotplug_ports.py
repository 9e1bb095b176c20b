# SPDX-License-Identifier: BSD-3-Clause
"""Ports that open and close with their RDMA devices, and the engine's objects of a device."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from nvmf import engine
from nvmf.config import ConfigError, loads
from nvmf.initiator import connect
from nvmf.target.rpc.registry import Params
from nvmf.target.rpc.whole import get_tree
from nvmf.target.service.administration import Administration
from nvmf.target.service.server import Server
from support.clientlab import OPTIONS, RAM, serving
from support.fakeengine import (
    ListenerEvent,
    QpairEvent,
)
from support.hotplugrig import NQN, PATIENCE, Lab, running

PORTS = """
[[port]]
device = "system"
hotplug = true
[[port]]
device = "iwarp"
trsvcid = 4421
"""


@pytest.mark.feature("hotplug-rdma")
async def test_a_port_comes_and_goes() -> None:
    """With its RDMA device: hosts on it are disconnected, and the device is released."""
    async with running(PORTS) as lab:
        assert lab.listening == [4421]
        (absent,) = [
            port
            for port in get_tree(Administration(lab.server), Params())["ports"]
            if "absent" in port
        ]
        assert "there is no RDMA device" in absent["absent"]
        before = lab.server.core.generation.value
        lab.plug("rxe0")
        lab.monitor.tell("add", "infiniband")
        await lab.until(lambda: lab.listening == [4421, 4420])
        assert lab.server.core.generation.value > before
        host, before = await lab.host(), lab.server.core.generation.value
        lab.plug()
        lab.monitor.tell("remove", "infiniband_verbs")
        await lab.until(lambda: lab.listening == [4421] and lab.engine.gone == ["rxe0"])
        assert host.gone
        assert lab.server.core.generation.value > before
        lab.plug("rxe0")
        lab.monitor.tell("add", "infiniband")
        await lab.until(lambda: lab.listening == [4421, 4420])


@pytest.mark.feature("hotplug-rdma")
async def test_a_device_that_is_reset() -> None:
    """The device is there again at once under the same name: the connection manager reports the
    reset.
    """
    async with running(PORTS, "rxe0") as lab:
        channel = lab.engine.channels["system"]
        (old,) = channel.listeners
        channel.put(ListenerEvent(old, "DEVICE_REMOVAL"))
        await lab.until(lambda: old.closed)
        await lab.until(lambda: sorted(lab.listening) == [4420, 4421])
        assert len(channel.listeners) == 2
        assert lab.engine.gone == ["rxe0"]


async def test_a_port_that_does_not_follow(caplog: pytest.LogCaptureFixture) -> None:
    text = PORTS.replace("hotplug = true\n", "")
    async with running(text, "rxe0") as lab:
        channel = lab.engine.channels["system"]
        channel.put(ListenerEvent(channel.listeners[0], "DEVICE_REMOVAL"))
        await lab.until(lambda: "returns with its device" in caplog.text)
        # The removal of the device waits until all of it is released.
        assert channel.listeners[0].closed
        assert lab.engine.gone == ["rxe0"]


async def test_a_port_of_every_device() -> None:
    """A port of every device has no event of its own: removed devices are looked up, and
    connections are notified.
    """
    text = PORTS.replace("hotplug = true", 'traddr = "0.0.0.0"')
    async with running(text, "rxe0") as lab:
        lab.engine.channels["system"].listeners[0].device = None
        first = await lab.host()
        lab.engine.channels["system"].put(QpairEvent(first, "DEVICE_REMOVAL"))
        await lab.until(lambda: first.gone and lab.engine.gone == ["rxe0"])
        lab.monitor.tell("change", "infiniband")
        await lab.until(lambda: lab.looked)
        second = await lab.host()
        lab.plug()
        lab.monitor.tell("remove", "infiniband_verbs")
        await lab.until(lambda: second.gone and lab.engine.gone == ["rxe0", "rxe0"])
        assert lab.listening == [4420, 4421]


@pytest.mark.feature("hotplug-rdma")
async def test_an_address_that_comes() -> None:
    """For a port on the embedded device."""
    text = '[[port]]\ntraddr = "192.0.2.1"\ndevice = "iwarp"\nhotplug = true\n'
    lab = Lab(text)
    lab.engine.listen_errors["iwarp"] = OSError(errno.EADDRNOTAVAIL, "no interface has it")
    async with lab:
        assert lab.server.away == {("192.0.2.1", 4420): "no interface has it"}
        lab.engine.listen_errors.clear()
        await lab.until(lambda: lab.listening == [4420])
    lab.monitor.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[port]]\nhotplug = true\n", "what to wait for"),
        ('[[port]]\ndevice = "iwarp"\ntrsvcid = 0\nhotplug = true\n', "what to wait for"),
        (
            f'[[subsystem]]\nnqn = "{NQN}"\n[[subsystem.namespace]]\nstore = "ram"\nsize = 4096\n'
            "hotplug = true\n",
            "hotplug requires path",
        ),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        loads(text)


@pytest.mark.feature("hotplug-rdma")
async def test_the_engine_lets_a_device_go() -> None:
    """The engine releases a device, with all objects, only after its last queue pair has ended;
    then a new one can be added.
    """
    nothing = Resources.held()
    async with serving(RAM, 'store = "null"\nsize = "1MiB"') as (server, where):
        lab = Resources(server)
        async with connect(where, **OPTIONS) as controller:
            await controller.namespace(1).write(0, b"1" * 512)
        await lab.quiet()
        mr, cq, srq = lab.held()
        # At least the zeroes, the pool, the memory of the namespace, and that of shared receives.
        assert (mr >= nothing[0] + 4, cq, srq > nothing[2]) == (True, nothing[1] + 1, True)
        lab.gone()
        await lab.until(lambda: lab.held() == nothing)
        for _ in range(2):
            async with connect(where, **OPTIONS) as controller:
                await controller.namespace(1).read(0, 1)  # its buffers are made
                used = lab.held()
                lab.gone()
                assert await controller.namespace(1).read(0, 1) == b"1" * 512
                assert lab.held() == used
                async with connect(where, **OPTIONS) as other:  # as if on the new device
                    assert await other.namespace(2).read(0, 1) == bytes(512)
            await lab.quiet()
            lab.gone()
            await lab.until(lambda: lab.held() == nothing)


@pytest.mark.feature("srq")
async def test_queues_share_their_receives() -> None:
    """Each reactor has shared receive queues, and further hosts do not add any."""
    before = Resources.held()[2]
    async with serving(RAM) as (server, where):
        lab = Resources(server)
        async with connect(where, **{**OPTIONS, "queues": 4}) as one:
            shared = lab.held()[2]
            assert shared > before
            async with connect(where, **{**OPTIONS, "queues": 4}) as other:
                for controller in (one, other):
                    await controller.namespace(1).write(0, b"2" * 512)
                assert lab.held()[2] == shared


class Resources:
    """The objects of the embedded device that a server's engine holds."""

    def __init__(self, server: Server) -> None:
        self.server = server

    @staticmethod
    def held() -> tuple[int, int, int]:
        """Memory regions, completion queues, shared receive queues; a client keeps none."""
        found = engine.resources()
        return found["mr"], found["cq"], found["srq"]

    def gone(self) -> None:
        self.server._target.device_gone("iwarp0", "iwarp")

    async def quiet(self) -> None:
        await self.until(lambda: self.server.connections == 0)

    async def until(self, reached: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not reached():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
