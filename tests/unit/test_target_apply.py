# SPDX-License-Identifier: BSD-3-Clause
"""Changes of a running target: by difference, atomic, without effect on other hosts."""

from __future__ import annotations

import errno
import itertools
from pathlib import Path
from uuid import UUID

import pytest

from nvmf.config import ConfigError, loads
from nvmf.config.models import ReferralConfig
from nvmf.spec.features import WriteProtection
from nvmf.target.change.apply import Change
from nvmf.target.change.diff import compare, fixed
from nvmf.target.change.edit import (
    EditError,
    add_referral,
    allow_any_host,
    allow_host,
    remove_host,
    remove_referral,
)
from nvmf.target.io.stores import ServerError
from nvmf.target.lasting.lasting import Lasting, encode
from support.changelab import BASE, PORT, SECOND, A, B, Lab, file, ram, running, subsystem
from support.faketarget import HOST
from wire import dhchap


@pytest.mark.feature("reload")
async def test_what_is_the_same_is_left_alone() -> None:
    async with running() as lab:
        before, opened = lab.facts(), len(lab.engine.stores)
        qpair = await lab.host(A)
        assert not await lab.server.apply(loads(BASE))
        assert (lab.facts(), len(lab.engine.stores)) == (before, opened)
        assert not qpair.gone


@pytest.mark.feature("reload", "atomic")
async def test_everything_at_once() -> None:
    """Ports, subsystems, namespaces and hosts are added and removed in one change; one host
    stays.
    """
    async with running(BASE + SECOND) as lab:
        stays, goes = await lab.host(A), await lab.host(B, port=4421)
        text = (
            PORT
            + SECOND.replace("4421", "4422")
            + subsystem(A, ram(1, size="512KiB"), ram(2), ram(3, f'hosts = ["{HOST}"]\n'))
            + subsystem(f"{B}2", ram(1))
        )
        difference = await lab.server.apply(loads(text))
        assert difference.sentence() == (
            "1 port added, 1 port removed, 1 subsystem added, 1 subsystem removed, "
            "2 namespaces added, 1 namespace resized"
        )
        assert [port.address[1] for port in lab.server.ports] == [4420, 4422]
        assert [port.portid for port in lab.server.core.ports] == [1, 3]
        assert not stays.gone
        assert goes.gone
        spaces = lab.server.core.subsystems[A].namespaces
        assert {nsid: n.store.size for nsid, n in spaces.items()} == {
            1: 512 << 10, 2: 1 << 20, 3: 1 << 20
        }  # fmt: skip
        assert B not in lab.server.core.subsystems


@pytest.mark.feature("atomic")
@pytest.mark.parametrize("fault", ["store", "port", "resize", "second store"])
async def test_all_or_nothing(fault: str) -> None:
    """If any part fails, the state is as before, and hosts have seen no change."""
    async with running() as lab:
        qpair, before = await lab.host(A), lab.facts()
        genctr = lab.server.core.generation.value
        engine = lab.engine
        match fault:
            case "store":
                engine.store_error = OSError(errno.ENOENT, "no such file")
            case "second store":
                engine.store_error_at = 4
            case "port":
                engine.listen_errors["iwarp"] = OSError(errno.EADDRINUSE, "in use")
            case "resize":
                engine.resize_error = OSError(errno.ENOTSUP, "it cannot grow")
        text = (
            PORT
            + SECOND
            + subsystem(
                A, ram(1, size="2MiB"), ram(2), extra='hosts = ["nqn.2026-11.io.example:h"]'
            )
            + subsystem(f"{B}2", ram(1))
        )
        with pytest.raises(ServerError):
            await lab.server.apply(loads(text))
        assert lab.facts() == before
        assert lab.server.core.generation.value == genctr
        assert not qpair.gone
        engine.store_error = engine.resize_error = None
        engine.listen_errors.clear()
        await lab.server.apply(loads(text))
        assert qpair.gone


async def test_a_file_opened_in_another_way(tmp_path: Path) -> None:
    """The file's lock is released first; if the new mode fails, the old one is restored."""
    path = str(tmp_path / "disk")
    old = PORT + subsystem(A, file(1, path, 'size = "1MiB"'))
    new = PORT + subsystem(A, file(1, path, 'size = "1MiB"\nblock_size = 4096'))
    async with running(old) as lab:
        lab.engine.locking = True
        lab.engine.store_error_at = 2
        with pytest.raises(ServerError):
            await lab.server.apply(loads(new))
        assert lab.server.core.subsystems[A].namespaces[1].store.block_size == 512
        assert lab.server.config == loads(old)
        await lab.server.apply(loads(new))
        assert lab.server.core.subsystems[A].namespaces[1].store.block_size == 4096


async def test_a_port_on_another_device() -> None:
    """The address is released first, and taken again if the new device does not have it."""
    async with running(BASE) as lab:
        before = [str(port) for port in lab.server.ports]
        with pytest.raises(ServerError, match="there is no RDMA device"):
            await lab.server.apply(loads(BASE.replace('"iwarp"', '"system"')))
        assert [str(port) for port in lab.server.ports] == before
        lab.engine.system_devices = [{"name": "rxe0"}]
        await lab.server.apply(loads(BASE.replace('"iwarp"', '"system"')))
        assert [port.device for port in lab.server.ports] == ["system"]


@pytest.mark.feature("reload", "ana")
async def test_a_port_moves_to_another_address() -> None:
    """Its hosts are disconnected, and do not get the ANA states of the new port meanwhile."""
    old = PORT + 'traddr = "127.0.0.1"\n'
    new = PORT + 'traddr = "127.0.0.2"\n[[port.ana_group]]\nid = 1\nstate = "inaccessible"\n'
    more = subsystem(A, ram(1)) + subsystem(B, ram(1))
    async with running(old + more) as lab:
        qpair = await lab.host(A)
        portid = lab.server.core.controllers()[0].portid
        lab.engine.listen_errors["system"] = OSError(errno.ENODEV, "no device")
        with pytest.raises(ServerError):
            await lab.server.apply(loads(new.replace('"iwarp"', '"system"') + more))
        assert lab.server.core.controllers()
        assert [port.portid for port in lab.server.core.ports] == [portid]
        await lab.server.apply(loads(new + more))
        assert qpair.gone
        assert portid not in [port.portid for port in lab.server.core.ports]


@pytest.mark.feature("limits")
async def test_limits_change_under_load() -> None:
    """The namespace is not replaced, and hosts are not disconnected."""
    async with running(PORT + subsystem(A, ram(1), ram(2, "limits = { iops = 5 }\n"))) as lab:
        stays = await lab.host(A)
        first, second = lab.engine.namespaces
        assert not hasattr(first, "limits")
        assert (second.limits["iops"], second.limits["bandwidth"]) == (5, 0)
        limits = 'limits = { read_bandwidth = "1MiB", burst_ms = 20 }\n'
        difference = await lab.server.apply(loads(PORT + subsystem(A, ram(1, limits), ram(2))))
        assert difference.sentence() == "2 namespaces limited"
        assert first.limits["read_bandwidth"] == 1 << 20
        assert first.limits["burst_ms"] == 20
        assert second.limits["iops"] == 0
        assert len(lab.engine.namespaces) == 2
        assert not stays.gone


@pytest.mark.feature("reload")
async def test_made_anew_with_its_namespaces() -> None:
    """A different serial number: its hosts connect again, and find the same namespaces."""
    async with running() as lab:
        mine, other = await lab.host(A), await lab.host(B)
        space = lab.server.core.subsystems[A].namespaces[1]
        text = BASE.replace(f'nqn = "{A}"', f'nqn = "{A}"\nserial = "NEW"')
        await lab.server.apply(loads(text))
        assert (mine.gone, other.gone) == (True, False)
        assert lab.server.core.subsystems[A].serial == "NEW"
        assert lab.server.core.subsystems[A].namespaces[1] is space
        assert not any(store.closed for store in lab.engine.stores)
        await lab.host(A)


@pytest.mark.feature("reload", "allow-list")
async def test_a_host_that_may_not_any_more() -> None:
    one, two = f"{A}:host1", f"{A}:host2"
    both, none = f'hosts = ["{one}", "{two}"]', f'hosts = ["{two}"]'
    async with running(PORT + subsystem(A, ram(1), extra=both)) as lab:
        first, second = await lab.host(A, one), await lab.host(A, two)
        await lab.server.apply(loads(PORT + subsystem(A, ram(1), extra=none)))
        assert (first.gone, second.gone) == (True, False)


async def test_a_namespace_that_is_not_enabled() -> None:
    async with running(PORT + subsystem(A, ram(1), ram(2, "enabled = false"))) as lab:
        assert list(lab.server.core.subsystems[A].namespaces) == [1]
        await lab.server.apply(loads(PORT + subsystem(A, ram(1, "enabled = false"), ram(2))))
        assert list(lab.server.core.subsystems[A].namespaces) == [2]


async def test_a_stopping_target_takes_no_change() -> None:
    lab = Lab(BASE)
    await lab.start()
    await lab.server.stop()
    with pytest.raises(ServerError, match="stopping"):
        await lab.server.apply(loads(BASE))


def test_what_is_read_at_start() -> None:
    old, new = loads(BASE), loads(f"[target]\nreactors = 2\n{BASE}")
    assert fixed(old, old) == []
    (said,) = fixed(old, new)
    assert "[target]" in said
    assert "restart" in said
    assert not compare(old, new)


@pytest.mark.feature("identifiers")
def test_identifiers_are_unique_in_the_whole_target() -> None:
    uuid = 'uuid = "11111111-2222-3333-4444-555555555555"'
    with pytest.raises(ConfigError, match=r"duplicate uuid"):
        loads(PORT + subsystem(A, ram(1, uuid)) + subsystem(B, ram(1, uuid)))


async def test_referrals() -> None:
    """Referrals change like all other settings, and by the editing commands."""
    text = PORT + subsystem(A, ram(1))
    referral = '[[referral]]\ntraddr = "10.0.0.9"\n'
    async with running(text) as lab:
        core = lab.server.core
        difference = await lab.server.apply(loads(text + referral))
        assert difference.sentence() == "1 list of referrals changed"
        assert [(r.traddr, r.trsvcid) for r in core.referrals] == [("10.0.0.9", 4420)]
        before = core.generation.value
        assert not await lab.server.apply(loads(text + referral))
        assert core.generation.value == before
        more = ReferralConfig(traddr="10.0.0.8", trtype="tcp", trsvcid=8009)
        await lab.server.edit(lambda config: add_referral(config, more))
        assert len(core.referrals) == 2
        with pytest.raises(EditError, match=r"duplicate referral tcp 10.0.0.8:8009"):
            await lab.server.edit(lambda config: add_referral(config, more))
        await lab.server.edit(lambda config: remove_referral(config, "10.0.0.9", 4420))
        assert [r.traddr for r in core.referrals] == ["10.0.0.8"]
        with pytest.raises(EditError, match=r"there is no referral to rdma 10.0.0.9:4420"):
            await lab.server.edit(lambda config: remove_referral(config, "10.0.0.9", 4420))


# ---- keys ----


def keyed(path: Path, hostnqn: str = HOST) -> str:
    return PORT + subsystem(
        A,
        ram(1),
        extra=f'[[subsystem.host]]\nnqn = "{hostnqn}"\ndhchap_key_file = "{path}"\n',
    )


@pytest.mark.feature("keys-live")
async def test_keys_are_read_again(tmp_path: Path) -> None:
    """A new key in the file applies from the next authentication on; no host is disconnected."""
    path = tmp_path / "key"
    path.write_text(dhchap.key_text(b"a" * 32))
    async with running(keyed(path)) as one:
        keys = one.server.core.subsystems[A].keys
        path.write_text(dhchap.key_text(b"b" * 32))
        difference = compare(loads(keyed(path)), loads(keyed(path)))
        assert difference.sentence() == "1 list of keys read"
        difference = await one.server.apply(loads(keyed(path)))
        assert difference.sentence() == "1 list of keys read"
        read = one.server.core.subsystems[A].keys
        assert read != keys
        difference = await one.server.apply(loads(keyed(path)))
        assert (bool(difference), difference.sentence()) == (False, "nothing to do")
        assert one.server.core.subsystems[A].keys is read


async def test_keys_that_cannot_be_read_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(dhchap.key_text(b"a" * 32))
    async with running(keyed(path)) as one:
        keys = one.server.core.subsystems[A].keys
        path.write_text("DHHC-1:00:none:")
        with pytest.raises(ServerError, match=f"{path}: the DH-HMAC-CHAP key"):
            await one.server.apply(loads(keyed(path)))
        assert one.server.core.subsystems[A].keys is keys


async def test_host_that_has_to_authenticate_now_connects_again(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(dhchap.key_text(b"a" * 32))
    free = PORT + subsystem(A, ram(1), extra=f'hosts = ["{HOST}", "{HOST}x"]')
    async with running(free) as one:
        qpair, other = await one.host(A), await one.host(A, f"{HOST}x")
        mixed = keyed(path).replace(
            "[[subsystem.host]]", f'hosts = ["{HOST}x"]\n[[subsystem.host]]'
        )
        await one.server.apply(loads(mixed))
        await one.settle()
        assert qpair.gone
        assert not other.gone


def test_edits_of_hosts_with_keys(tmp_path: Path) -> None:
    config = loads(keyed(tmp_path / "key"))
    with pytest.raises(EditError, match=r"is already allowed to connect to"):
        allow_host(config, A, HOST)
    with pytest.raises(EditError, match="has hosts with keys: remove them first"):
        allow_any_host(config, A, True)
    (changed,) = remove_host(config, A, HOST).subsystems
    assert changed.host_nqns == ()


async def test_what_a_failed_change_has_read_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later change whose state changes all the time reads it while it is made."""
    uuid = "3f1b4b6e-5f0c-4d0e-9d57-1d6c5b1c7a11"
    text = PORT + subsystem(A, ram(1), ram(5, f'uuid = "{uuid}"\n')) + subsystem(B, ram(1))
    async with running(state=tmp_path) as lab:

        def refuse(*_: object) -> None:
            raise ServerError("no port")

        with monkeypatch.context() as patch:
            patch.setattr(Change, "_listen", refuse)
            with pytest.raises(ServerError, match="no port"):
                await lab.server.apply(loads(text))
        keeper = lab.server.core.subsystems[A].lasting
        assert keeper.files is not None
        keeper.files.put(UUID(uuid), encode(Lasting(WriteProtection.PROTECTED)))
        count = itertools.count()
        monkeypatch.setattr(Change, "_puts", lambda *_: next(count))
        await lab.server.apply(loads(text))
        assert keeper.protected(5)
