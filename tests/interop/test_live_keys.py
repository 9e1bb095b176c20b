# SPDX-License-Identifier: BSD-3-Clause
"""Keys and limits are set, changed and removed while hosts are connected; no key is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nvmf.auth import Key
from nvmf.initiator import AuthenticationError, NvmeError, connect
from nvmf.rpc.errors import RpcError
from nvmf.rpc.sync import connect as administer
from support.clientlab import OPTIONS, url
from support.livelab import H1, H2, HANG, B, command, config, run
from support.served import Served

KEYED = "nqn.2026-11.io.example:keyed"


@pytest.fixture
def served(tmp_path: Path, need_product: None) -> Iterator[Served]:
    with Served(tmp_path, f"# mine\n{config()}") as one:
        one.wait_ready()
        yield one
        assert one.end() == 0
        one.check_log()
        for path in tmp_path.glob("*.key"):
            assert path.read_text()[10:30] not in one.log


@pytest.fixture
def keys(tmp_path: Path) -> list[Path]:
    """Three keys in files."""
    paths = [tmp_path / f"{number}.key" for number in range(3)]
    for path in paths:
        path.touch(0o600)
        path.write_text(Key.generate().text())
    return paths


def rpc(served: Served, method: str, **params: Any) -> Any:
    """Return the result of a method."""
    with administer(served.rpc_socket) as target:
        return target.request(method, params)


async def reads(served: Served, nqn: str, key: Path | None = None, **more: Any) -> None:
    """Connect as a host, and read a block."""
    if key is not None:
        more["dhchap_secret_file"] = str(key)
    async with connect(url(served.port, B), **OPTIONS, hostnqn=nqn, **more) as one:
        await one.namespace(1).read(0, 1)


def hosts(served: Served) -> dict[str, dict[str, str]]:
    """Return the hosts of the second subsystem, as the target reports them."""
    (found,) = [s for s in run(served, "ls")["subsystems"] if s["nqn"] == B]
    return {host["nqn"]: host for host in found["hosts"]}


@pytest.mark.feature("keys-live")
async def test_by_command(served: Served, keys: list[Path]) -> None:
    """A host is allowed with keys; these are rotated in new files and in the same file, removed,
    and saved.
    """
    first, second, ctrl = keys
    both = ("--dhchap-key", first, "--dhchap-ctrl-key", ctrl)
    done = await command(served, "host", "allow", B, KEYED, *both)
    assert done["dhchap_key_file"] == str(first)
    assert hosts(served)[KEYED] == {
        "nqn": KEYED, "dhchap_key": str(first), "dhchap_ctrlr_key": str(ctrl),
    }  # fmt: skip
    await reads(served, KEYED, first, dhchap_ctrl_secret_file=str(ctrl))
    with pytest.raises(AuthenticationError):
        await reads(served, KEYED, second)
    with pytest.raises(AuthenticationError):
        await reads(served, KEYED)

    options = {**OPTIONS, "hostnqn": KEYED, "dhchap_secret_file": str(first)}
    async with connect(url(served.port, B), **options) as stays:
        await stays.namespace(1).write(0, b"a" * 512)
        await command(served, "host", "set-keys", B, KEYED, "--dhchap-key", second)
        with pytest.raises(AuthenticationError):
            await reads(served, KEYED, first)
        await reads(served, KEYED, second)
        assert await stays.namespace(1).read(0, 1) == b"a" * 512
        assert stays.reconnects == 0
        second.write_text(Key.generate().text())  # the same file with a new key
        await command(served, "host", "set-keys", B, KEYED, "--dhchap-key", second)
        await reads(served, KEYED, second)
        assert stays.reconnects == 0

    await command(served, "save")
    text = (served.folder / "target.toml").read_text()
    assert text.startswith("# mine\n")
    assert f'dhchap_key_file = "{second}"' in text
    assert "DHHC" not in text
    assert (await command(served, "reload"))["changed"] == "nothing to do"
    await reads(served, KEYED, second)

    await command(served, "host", "set-keys", B, KEYED, "--none")
    await reads(served, KEYED)
    await command(served, "host", "set-keys", B, H1, "--dhchap-key", first)
    await reads(served, H1, first)
    await reads(served, H2)
    await command(served, "host", "remove", B, KEYED)
    with pytest.raises(NvmeError):
        await reads(served, KEYED)


def test_wrong_commands(served: Served, keys: list[Path], tmp_path: Path) -> None:
    """Each command is refused with a message that contains no key, and nothing changes."""
    (tmp_path / "no.txt").write_text("no key")
    secret = keys[0].read_text()
    before = hosts(served)
    for args, status, said in (
        (("allow", B, KEYED, "--dhchap-key", tmp_path / "none"), 1, "No such file"),
        (("allow", B, KEYED, "--dhchap-key", tmp_path / "no.txt"), 1, "has the form DHHC-1"),
        (("allow", B, KEYED, "--dhchap-key", secret), 1, "must be the location of a key"),
        (("allow", B, KEYED, "--dhchap-ctrl-key", keys[0]), 1, "requires dhchap_key"),
        (("allow", B, KEYED, "--dhchap-key-credential", "a"), 1, "$CREDENTIALS_DIRECTORY"),
        (("allow", B, KEYED, "--dhchap-key-credential", "../a"), 1, "name of a systemd credential"),
        (("allow", B, "--any", "--dhchap-key", keys[0]), 2, "belongs to one host"),
        (("set-keys", B, KEYED, "--dhchap-key", keys[0]), 1, "add it first"),
        (("set-keys", B, H1), 2, "--none"),
    ):
        sentence = run(served, "host", *args, status=status)
        assert said in sentence
        assert secret[10:30] not in sentence
        assert hosts(served) == before


@pytest.mark.feature("keys-live", "rpc")
async def test_in_the_words_of_spdk(served: Served, keys: list[Path]) -> None:
    """keyring_file_add_key, nvmf_subsystem_add_host, nvmf_subsystem_set_keys."""
    first, second, _ = keys
    for name, path in (("one", first), ("two", second)):
        assert rpc(served, "keyring_file_add_key", name=name, path=str(path))
    assert rpc(served, "keyring_get_keys") == [
        {"name": "one", "path": str(first)}, {"name": "two", "path": str(second)},
    ]  # fmt: skip
    assert rpc(served, "nvmf_subsystem_add_host", nqn=B, host=KEYED, dhchap_key="one")
    await reads(served, KEYED, first)
    both = {"dhchap_key": "two", "dhchap_ctrlr_key": "one"}
    assert rpc(served, "nvmf_subsystem_set_keys", nqn=B, host=KEYED, **both)
    assert rpc(served, "keyring_file_remove_key", name="one")
    await reads(served, KEYED, second, dhchap_ctrl_secret_file=str(first))
    assert rpc(served, "nvmf_subsystem_set_keys", nqn=B, host=KEYED)
    await reads(served, KEYED)

    secret = first.read_text()
    table = {"nqn": KEYED, "dhchap_key": secret}
    for method, params, said in (
        ("keyring_file_add_key", {"name": "two", "path": str(second)}, "key two already exists"),
        ("keyring_file_add_key", {"name": "x", "path": "x.key"}, "must be absolute"),
        ("keyring_file_add_key", {"name": "x", "path": secret}, "the location of a key"),
        ("keyring_file_remove_key", {"name": "one"}, "no key one"),
        ("nvmf_subsystem_set_keys", {"nqn": B, "host": H1, "dhchap_key": "one"}, "no key one"),
        (
            "nvmf_subsystem_set_keys",
            {"nqn": B, "host": H1, "dhchap_key": secret},
            "the location of a key",
        ),
        ("target_add_host", {"nqn": B, "host": table}, "not allowed in a request"),
        (
            "target_add_host",
            {"nqn": B, "host": {"nqn": KEYED, "dhchap_key_file": "a"}},
            "must be absolute",
        ),
    ):
        with pytest.raises(RpcError, match=said) as refused:
            rpc(served, method, **params)
        assert secret[10:30] not in str(refused.value)


async def test_keys_in_the_configuration_are_for_saving_alone(
    tmp_path: Path, keys: list[Path], need_product: None
) -> None:
    secret = keys[0].read_text().strip()
    table = f'[[subsystem.host]]\nnqn = "{KEYED}"\ndhchap_key = "{secret}"\n'
    with Served(tmp_path, config(b=table)) as one:
        one.wait_ready()
        assert hosts(one)[KEYED]["dhchap_key"] == "configuration"
        (found,) = rpc(one, "target_get_config")["config"]["subsystem"][1]["host"]
        assert found["dhchap_key"] == "[secret]"
        await command(one, "namespace", "limit", B, 1, "--iops", 100_000)
        await command(one, "save")
        assert f'dhchap_key = "{secret}"' in (tmp_path / "target.toml").read_text()
        assert one.end() == 0
        assert secret[10:30] not in one.log


@pytest.mark.feature("limits")
async def test_limits_by_command(served: Served) -> None:
    """Limits are set, shown, changed, cleared and saved while a host reads; commands over a limit
    wait.
    """

    def limit(*args: object, status: int = 0) -> Any:
        found = run(served, "namespace", "limit", B, 1, *args, status=status)
        return found if status else found["limits"]

    assert limit() == {}
    async with connect(url(served.port, B), **OPTIONS, hostnqn=H1) as one:
        disk = one.namespace(1)
        set_to = limit("--read-iops", 20, "--bandwidth", "100MiB", "--burst-ms", 50)
        assert set_to == {"read_iops": 20, "bandwidth": 100 << 20, "burst_ms": 50}
        waits = asyncio.gather(*(disk.read(0, 1) for _ in range(32)))
        limits = await asyncio.to_thread(limit, "--read-iops", 0)
        assert limits == {"bandwidth": 100 << 20, "burst_ms": 50}
        await asyncio.wait_for(waits, HANG)
        rpc(served, "bdev_set_qos_limit", name=space(served)["uuid"], w_mbytes_per_sec=3)
        assert limit() == {"bandwidth": 100 << 20, "write_bandwidth": 3 << 20, "burst_ms": 50}
        assert space(served)["limits"] == limit()
        run(served, "save")
        assert "write_bandwidth" in (served.folder / "target.toml").read_text()
        assert run(served, "reload")["changed"] == "nothing to do"
        assert limit("--clear") == {}
        assert "limits" not in space(served)
        await disk.write(0, bytes(4096))
    assert "cannot be combined" in limit("--clear", "--iops", 1, status=2)
    assert "burst_ms" in limit("--burst-ms", 1, status=1)
    assert "limits" not in space(served)
    with pytest.raises(RpcError, match="no namespace has nothing"):
        rpc(served, "bdev_set_qos_limit", name="nothing", rw_ios_per_sec=1)
    with pytest.raises(RpcError, match="select one by its UUID"):
        rpc(served, "bdev_set_qos_limit", name="ram", rw_ios_per_sec=1)


def space(served: Served) -> dict[str, Any]:
    """Return the namespace with the limits, as the target reports it."""
    (found,) = [s for s in run(served, "ls")["subsystems"] if s["nqn"] == B]
    (one,) = found["namespaces"]
    assert isinstance(one, dict)
    return one
