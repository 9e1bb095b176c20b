# SPDX-License-Identifier: BSD-3-Clause
"""Changes that fail or coincide, and the resulting state."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest

from nvmf.config import loads
from nvmf.config.models import Config, NamespaceConfig
from nvmf.json import JSON
from nvmf.spec.features import WriteProtection
from nvmf.spec.reservations import ReservationType
from nvmf.spec.status import Status, StatusError
from nvmf.target.change import edit
from nvmf.target.commands.protection import protect
from nvmf.target.io.stores import ServerError
from nvmf.target.lasting.lasting import Lasting
from nvmf.target.lasting.reservations import Outcome, Reservation
from nvmf.target.model.namespace import Namespace
from nvmf.target.rpc.dispatch import answer
from nvmf.target.rpc.ports import AddPort, RemovePort, add, remove
from nvmf.target.service.administration import Administration
from support.changelab import BASE, PORT, A, file, ram, running, subsystem

HOST_A = b"a" * 16
PATIENCE = 60.0
"""Seconds: ends a hang."""


def of_file(path: Path, block_size: int = 512) -> str:
    more = f'size = "1MiB"\nblock_size = {block_size}'
    return PORT + subsystem(A, file(1, str(path), more), extra="permanent_write_protect = true")


async def test_what_a_namespace_had_is_there_again(tmp_path: Path) -> None:
    """If a change fails that had released its file, state in memory is not lost."""
    old, new = of_file(tmp_path / "disk"), of_file(tmp_path / "disk", 4096)
    async with running(old, tmp_path / "state") as lab:
        one = lab.server.core.subsystems[A]
        ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        reserved = Reservation(
            MappingProxyType({HOST_A: 1}), ReservationType.WRITE_EXCLUSIVE, HOST_A
        )
        protected = Lasting(WriteProtection.UNTIL_POWER_CYCLE, ((8, 8),))
        one.reservations.commit(1, lambda _: Outcome(reserved), lambda _: None)
        one.lasting.commit(1, lambda _: protected, ended.set_result)
        assert await ended is None
        lab.engine.locking = True
        lab.engine.store_error_at = 2
        with pytest.raises(ServerError):
            await lab.server.apply(loads(new))
        assert one.reservations.get(1) == reserved
        assert one.lasting.get(1) == protected
        assert lab.engine.namespaces[-1].invalid == ((8, 8),)
        assert lab.engine.namespaces[-1].gates[1]


async def test_what_cannot_be_put_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next change tries again; a change that removes it does not need it."""
    path = tmp_path / "disk"
    async with running(of_file(path)) as lab:
        lab.engine.locking = True
        lab.engine.store_error = OSError(errno.ENXIO, "it has gone")
        with pytest.raises(ServerError):
            await lab.server.apply(loads(of_file(path, 4096)))
        assert "not available to hosts" in caplog.text
        spaces = lab.server.core.subsystems[A].namespaces
        assert not spaces
        with pytest.raises(ServerError, match="it has gone"):
            await lab.server.edit(lambda config: edit.change_namespace(config, A, 1, hosts=()))
        lab.engine.store_error = None
        await lab.server.edit(lambda config: edit.change_namespace(config, A, 1, ana_group=2))
        assert spaces[1].store.block_size == 512
        lab.engine.store_error = OSError(errno.ENXIO, "it has gone")
        with pytest.raises(ServerError):
            await lab.server.apply(loads(of_file(path, 4096)))
        await lab.server.edit(lambda config: edit.remove_namespace(config, A, 1))
        assert not lab.server.config.subsystems[0].namespaces


async def test_a_port_that_cannot_be_put_back(caplog: pytest.LogCaptureFixture) -> None:
    more = BASE.replace("4420", "4421")
    async with running(PORT + more) as lab:
        lab.engine.listen_errors["iwarp"] = OSError(errno.EADDRINUSE, "in use")
        with pytest.raises(ServerError):
            await lab.server.apply(loads(PORT.replace('"iwarp"', '"system"') + more))
        assert "hosts cannot reach the port" in caplog.text
        lab.engine.listen_errors.clear()
        where = lab.server.config.ports[0].traddr
        await lab.server.edit(lambda config: edit.set_ana(config, where, 4420, 1, "inaccessible"))
        assert {port.address[1] for port in lab.server.ports} == {4420, 4421}


async def test_a_port_with_a_free_number_beside_another_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A later change does not use the number of a failed one: it can be removed with that
    number.
    """
    async with running() as lab:
        administration = Administration(lab.server)
        added = asyncio.create_task(
            add(administration, AddPort(port={"trsvcid": 0, "device": "iwarp"}))
        )
        await asyncio.sleep(0)
        opening, open_ = asyncio.Event(), lab.server.storage.open

        async def slowly(nqn: str, nsid: int, config: NamespaceConfig) -> Namespace:
            await opening.wait()
            return await open_(nqn, nsid, config)

        monkeypatch.setattr(lab.server.storage, "open", slowly)
        namespace = ram(2)
        other = asyncio.create_task(lab.server.edit(lambda config: with_space(config, namespace)))
        await lab.settle()
        opening.set()
        async with asyncio.timeout(PATIENCE):
            where = await added
            await other
        assert 0 not in {port.trsvcid for port in lab.server.config.ports}
        place = RemovePort(traddr=where["traddr"], trsvcid=int(where["trsvcid"]))
        await remove(administration, place)
        assert len(lab.server.ports) == 1


def with_space(config: Config, namespace: str) -> Config:
    made = loads(PORT + subsystem(A, namespace)).subsystems[0].namespaces[0]
    return edit.add_namespace(config, A, made)[0]


async def test_protecting_what_goes_meanwhile(tmp_path: Path) -> None:
    """The answer reports it, and is sent."""
    async with running(BASE, tmp_path / "state") as lab:
        administration: asyncio.Future[Administration] = asyncio.Future()
        administration.set_result(Administration(lab.server))
        held: list[Callable[[], None]] = []
        one = lab.server.core.subsystems[A]
        one.fence = lambda qpairs, nsid, then, *, abort=0: held.append(then)
        params: JSON = {"nqn": A, "nsid": 1}
        asked = asyncio.create_task(
            answer(
                administration,
                {"jsonrpc": "2.0", "id": 1, "method": "target_protect_ns", "params": params},
                "somebody",
            )
        )
        await lab.settle()
        await lab.server.edit(lambda config: edit.remove_namespace(config, A, 1))
        held[0]()
        async with asyncio.timeout(PATIENCE):
            found = await asked
        assert isinstance(found, dict)
        assert "namespace 1 no longer exists" in found["error"]["message"]


async def test_protecting_what_another_takes_the_place_of(tmp_path: Path) -> None:
    """The new one is not protected."""
    async with running(BASE, tmp_path / "state") as lab:
        one = lab.server.core.subsystems[A]
        held: list[Callable[[], None]] = []
        fence = one.fence
        one.fence = lambda qpairs, nsid, then, *, abort=0: held.append(then)
        ended: asyncio.Future[StatusError | None] = asyncio.get_running_loop().create_future()
        protect(one, 1, WriteProtection.PROTECTED, ended.set_result)
        await lab.server.edit(lambda config: edit.remove_namespace(config, A, 1))
        await lab.server.edit(lambda config: with_space(config, ram(1)))
        one.fence = fence
        held[0]()
        async with asyncio.timeout(PATIENCE):
            failure = await ended
        assert failure is not None
        assert failure.status == Status.INVALID_NAMESPACE_OR_FORMAT
        assert one.lasting.get(1).protection is WriteProtection.NONE
        assert not lab.engine.namespaces[-1].gates[1]
