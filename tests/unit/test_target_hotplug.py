# SPDX-License-Identifier: BSD-3-Clause
"""Ports and namespaces that come and go with their devices: files and devices that a test moves."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clientlab import OPTIONS, RAM, serving
from fakeengine import ConnectRequest, FakeEngine, ListenerEvent, Qpair, QpairEvent, Readable
from nvmf import engine
from nvmf.config import ConfigError, loads
from nvmf.initiator import connect
from nvmf.rdma.hotplug import DeviceEvent
from nvmf.spec.cm import CmRequest
from nvmf.target.change import presence
from nvmf.target.change.hotplug import Surroundings
from nvmf.target.io.stores import ServerError
from nvmf.target.rpc.registry import Params
from nvmf.target.rpc.whole import get_tree
from nvmf.target.service.administration import Administration
from nvmf.target.service.server import Server
from nvmf.target.service.starting import serve
from served_lab import ServedLab

NQN = "nqn.2026-11.io.example:a"
PATIENCE = 60.0
"""Seconds: ends a hang."""


class Monitor(Readable):
    """Events that a test makes."""

    def events(self) -> list[DeviceEvent]:
        found: list[DeviceEvent] = self.take()
        return found

    def tell(self, action: str = "add", subsystem: str = "block") -> None:
        self.put(DeviceEvent(action, subsystem, "sdx", "/dev/sdx"))


class Lab(ServedLab):
    """A server on the engine that does nothing, and a machine whose devices come and go."""

    def __init__(self, text: str, devices: tuple[str, ...] = ()) -> None:
        self.engine = FakeEngine()
        self.monitor = Monitor()
        self.rdma: frozenset[str] = frozenset()
        self.looked = False
        self.plug(*devices)
        surroundings = Surroundings(lambda: self.monitor, self._look)
        super().__init__(serve(loads(text), engine=self.engine, surroundings=surroundings))

    def _look(self) -> frozenset[str]:
        self.looked = True
        return self.rdma

    def plug(self, *names: str) -> None:
        """These are the RDMA devices from now on."""
        self.rdma = frozenset(names)
        self.engine.system_devices = [{"name": name} for name in names]

    @property
    def shown(self) -> set[int]:
        return set(self.server.core.subsystems[NQN].namespaces)

    @property
    def listening(self) -> list[int]:
        return [port.address[1] for port in self.server.ports]

    async def until(self, reached: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not reached():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def host(self) -> Qpair:
        request = ConnectRequest(self.engine, CmRequest(0, 0, 32, 31, 0).encode())
        self.engine.channels["system"].put(request)
        await self.until(lambda: request.qpair is not None)
        assert request.qpair is not None
        request.qpair.device = "rxe0"
        return request.qpair


@asynccontextmanager
async def running(text: str, *devices: str) -> AsyncIterator[Lab]:
    lab = Lab(text, devices)
    async with lab:
        yield lab
    lab.monitor.close()


def disks(*paths: Path, more: str = "hotplug = true") -> str:
    spaces = "".join(
        f'[[subsystem.namespace]]\nnsid = {nsid}\nstore = "file"\npath = "{path}"\n{more}\n'
        for nsid, path in enumerate(paths, 1)
    )
    return (
        f'[[port]]\ndevice = "iwarp"\n[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n{spaces}'
    )


PORTS = """
[[port]]
device = "system"
hotplug = true
[[port]]
device = "iwarp"
trsvcid = 4421
"""


@pytest.mark.feature("hotplug-disk")
async def test_a_namespace_comes_and_goes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    second.touch()
    with caplog.at_level(logging.INFO):
        async with running(disks(first, second)) as lab:
            assert lab.shown == {2}
            identity = lab.server.core.subsystems[NQN].namespaces[2].identity
            first.touch()
            lab.monitor.tell()
            await lab.until(lambda: lab.shown == {1, 2})
            second.rename(tmp_path / "away")
            lab.monitor.tell("remove")
            await lab.until(lambda: lab.shown == {1})
            await lab.until(lambda: lab.engine.stores[0].closed)
            (tmp_path / "away").rename(second)
            lab.monitor.tell()
            await lab.until(lambda: lab.shown == {1, 2})
            assert lab.server.core.subsystems[NQN].namespaces[2].identity == identity
            assert lab.server.config == loads(disks(first, second))
    waits = f"namespace 1 of {NQN}: waiting for {first}: No such file or directory"
    assert caplog.messages.count(waits) == 1
    assert f"namespace 2 of {NQN}: is present" in caplog.messages


async def test_without_hotplug_it_is_an_error(tmp_path: Path) -> None:
    """As the real engine has it, which opens the file."""
    lab = Lab(disks(tmp_path / "none", more=""))
    lab.engine.store_error = OSError(errno.ENOENT, "no such file")
    with pytest.raises(ServerError, match="no such file"):
        await lab.start()
    lab.monitor.close()


@pytest.mark.feature("hotplug-disk")
async def test_a_file_system_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is served stays, what is not is waited for, and changes go on meanwhile."""
    monkeypatch.setattr(presence, "STAT_TIMEOUT", 0.05)
    served, other = tmp_path / "served", tmp_path / "other"
    served.touch()
    answers = threading.Event()
    look = presence.Mark.of

    def slowly(path: Path) -> presence.Mark:
        answers.wait(PATIENCE)
        return look(path)

    async with running(disks(served)) as lab:
        monkeypatch.setattr(presence.Mark, "of", slowly)
        other.touch()
        await lab.server.apply(loads(disks(served, other)))
        assert lab.server.away == {other: "its file system does not respond"}
        assert lab.shown == {1}
        threads = threading.active_count()
        await lab.server.look()
        assert threading.active_count() == threads, "one thread waits for one path"
        answers.set()
        lab.monitor.tell()
        await lab.until(lambda: lab.shown == {1, 2})
        answers.clear()
        await lab.server.look()
        assert lab.shown == {1, 2}
    answers.set()


@pytest.mark.feature("hotplug-disk")
async def test_another_in_its_place(tmp_path: Path) -> None:
    """It was away between two looks: hosts see the one go and the other come."""
    path = tmp_path / "disk"
    path.touch()
    async with running(disks(path)) as lab:
        (tmp_path / "other").touch()
        (tmp_path / "other").rename(path)
        lab.monitor.tell()
        await lab.until(lambda: lab.engine.stores[0].closed)
        await lab.until(lambda: lab.shown == {1})
        assert len(lab.engine.stores) == 2


async def test_one_that_cannot_be_opened_keeps_none_waiting(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    async with running(disks(*paths)) as lab:
        lab.engine.store_error_at = 1
        for path in paths:
            path.touch()
        lab.monitor.tell()
        await lab.until(lambda: lab.shown)
        # Without another event: what failed is tried again by itself.
        await lab.until(lambda: lab.shown == {1, 2})
        assert lab.server.away == {}


@pytest.mark.feature("hotplug-disk", "resize")
async def test_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block device that grows takes its namespace along, unless that has a size of its own."""
    sizes = [1 << 20]
    monkeypatch.setattr(presence.Mark, "of", lambda path: presence.Mark((1, 2, 3), sizes[0]))
    async with running(disks(tmp_path / "a")) as lab:
        store = lab.engine.stores[0]
        asked: list[int] = []

        def resize(size: int = 0) -> int:
            asked.append(size)
            return 2 << 20

        store.resize = resize
        sizes[0] = 2 << 20
        lab.monitor.tell("change")
        await lab.until(lambda: asked == [0])


async def test_who_removes_a_device_waits_for_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue pairs are let go though what has come or gone besides cannot be followed."""
    sizes = [1 << 20]
    monkeypatch.setattr(presence.Mark, "of", lambda path: presence.Mark((1, 2, 3), sizes[0]))
    async with running(disks(tmp_path / "a"), "rxe0") as lab:
        await lab.server.look()
        lab.engine.resize_error = OSError(errno.EIO, "it does not say how large it is")
        sizes[0] = 2 << 20
        lab.plug()
        with pytest.raises(ServerError):
            await lab.server.look()
        assert lab.engine.gone == ["rxe0"]


@pytest.mark.feature("hotplug-disk")
async def test_changes_while_it_is_away(tmp_path: Path) -> None:
    """They are made to the configuration, and show when it comes."""
    path = tmp_path / "disk"
    async with running(disks(path)) as lab:
        wanted = disks(path, more="hotplug = true\nana_group = 3")
        await lab.server.apply(loads(wanted))
        assert lab.server.config == loads(wanted)
        tree = get_tree(Administration(lab.server), Params())
        (subsystem,) = [one for one in tree["subsystems"] if one["nqn"] == NQN]
        assert subsystem["absent_namespaces"] == [
            {"nsid": 1, "store": "file", "path": str(path), "absent": "No such file or directory"}
        ]
        path.touch()
        lab.monitor.tell()
        await lab.until(lambda: lab.shown == {1})
        assert lab.server.core.subsystems[NQN].group_of(1) == 3
        # Without the key, what is away is an error, and nothing changes.
        path.unlink()
        lab.monitor.tell("remove")
        await lab.until(lambda: not lab.shown)
        lab.engine.store_error = OSError(errno.ENOENT, "no such file")
        with pytest.raises(ServerError, match="no such file"):
            await lab.server.apply(loads(disks(path, more="")))
        assert lab.server.config == loads(wanted)


@pytest.mark.feature("hotplug-rdma")
async def test_a_port_comes_and_goes() -> None:
    """With its RDMA device: hosts on it are disconnected, and the device is let go of."""
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
    """It is there again at once under its name: the connection manager tells of it."""
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
        # Who removes the device waits until all of it is let go of.
        assert channel.listeners[0].closed
        assert lab.engine.gone == ["rxe0"]


async def test_a_port_of_every_device() -> None:
    """No event is its own: what is gone is looked up, and each connection is told."""
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
    """Of a port on the embedded device."""
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
    """Not before its last queue pair is gone, and then all that it held; then it can be another."""
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
                used = lab.held()
                lab.gone()
                assert await controller.namespace(1).read(0, 1) == b"1" * 512
                assert lab.held() == used
                async with connect(where, **OPTIONS) as other:  # as if on the device that came
                    assert await other.namespace(2).read(0, 1) == bytes(512)
            await lab.quiet()
            lab.gone()
            await lab.until(lambda: lab.held() == nothing)


class Resources:
    """What the engine of a server holds of the embedded device."""

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
