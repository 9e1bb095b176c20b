# SPDX-License-Identifier: BSD-3-Clause
"""The Python clients of a running target: every method, its result's type, and the errors."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

import nvmf.target.client
from manual import rpc as manual
from nvmf.auth import Key
from nvmf.check import checked
from nvmf.cli.main import main
from nvmf.initiator import connect as connect_host
from nvmf.json import JSON
from nvmf.rpc import alive
from nvmf.rpc.calls import Calls
from nvmf.rpc.methods import METHODS as NAMES
from nvmf.rpc.sync_calls import SyncCalls
from nvmf.target.client import (
    Code,
    RpcError,
    connect,
    connect_sync,
    results,
)
from nvmf.target.rpc.accepted import OPTIONS as OPTIONS_OF_SPDK
from nvmf.target.rpc.methods import METHODS
from support.clientlab import NQN, OPTIONS, url
from support.served import Served

OTHER = f"{NQN}.other"
HOST = "nqn.2026-11.io.example:host"
CONFIG = f"""
[target]
allow_faults = true
state_dir = "%s"
[[port]]
device = "iwarp"
trsvcid = 0
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
[[subsystem.namespace]]
store = "ram"
size = "8MiB"
[[subsystem.namespace]]
store = "file"
path = "%s"
size = "1MiB"
hotplug = true
"""


LISTENER = f"nvmeof-capture-rpc-{os.getpid()}"
"""The abstract name of a socket of a program that captures."""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, CONFIG % (tmp_path / "state", tmp_path / "absent.img")) as served:
        yield served.wait_ready()


def mirror_calls(folder: Path) -> list[tuple[str, dict[str, JSON]]]:
    """Return calls about a mirror that they add; none of its legs is needed afterwards."""
    legs = [folder / f"leg{number}" for number in range(4)]
    for leg in legs:
        leg.write_bytes(bytes(1 << 20))
    paths: list[JSON] = [{"path": str(leg)} for leg in legs]
    one: dict[str, JSON] = {"nqn": NQN, "nsid": 9}
    space: dict[str, JSON] = {"nsid": 9, "store": "mirror", "leg": paths[:2]}
    return [
        ("nvmf_subsystem_add_ns", {"nqn": NQN, "namespace": space}),
        ("target_get_mirrors", {}),
        ("target_add_leg", {**one, "leg": paths[2], "quorum": 2}),
        ("target_replace_leg", {**one, "name": str(legs[2]), "leg": paths[3]}),
        ("target_get_tree", {}),
        ("target_remove_leg", {**one, "name": str(legs[1])}),
        ("target_resync_mirror", one),
        ("nvmf_subsystem_remove_ns", one),
    ]


async def in_sync(rpc: Calls) -> None:
    """Wait until all mirrors have all legs in sync."""
    async with asyncio.timeout(60):
        while {one["state"] for one in await rpc.mirrors()} != {"clean"}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def calls(tmp_path: Path, uuid: str, service: int) -> list[tuple[str, dict[str, JSON]]]:
    """Return requests for every method that succeed in this order."""
    key = tmp_path / "host.key"
    key.touch(0o600)
    key.write_text(Key.generate().text())
    listen: JSON = {"trtype": "RDMA", "adrfam": "IPv4", "traddr": "127.0.0.2", "trsvcid": "0"}
    one: dict[str, JSON] = {"nqn": NQN, "nsid": 1}
    new: dict[str, JSON] = {"nqn": OTHER, "nsid": 1}
    port: dict[str, JSON] = {"traddr": "127.0.0.1", "trsvcid": service}
    ram: JSON = {"store": "ram", "size": "1MiB"}
    whole: JSON = [{"traddr": "127.0.0.1", "trsvcid": 0, "device": "iwarp"}]
    anything: dict[str, JSON] = {"anything": 1}
    blocks: dict[str, JSON] = {"block_size": 512, "num_blocks": 2048}
    image = tmp_path / "bdev.img"
    image.write_bytes(bytes(1 << 20))
    away: JSON = {"trtype": "RDMA", "traddr": "127.0.0.9", "trsvcid": "4420"}
    return [
        ("framework_start_init", {}),
        ("framework_wait_init", {}),
        ("framework_get_reactors", {}),
        ("framework_get_scheduler", {}),
        ("framework_monitor_context_switch", {"enabled": False}),
        ("thread_get_stats", {}),
        ("thread_get_pollers", {}),
        ("thread_get_io_channels", {}),
        ("notify_get_types", {}),
        ("notify_get_notifications", {"id": 0, "max": 1}),
        ("framework_set_scheduler", {"name": "static"}),
        ("nvmf_get_targets", {}),
        *((name, anything) for name in OPTIONS_OF_SPDK),
        ("log_set_level", {"level": "NOTICE"}),
        ("log_get_level", {}),
        ("log_set_print_level", {"level": "INFO"}),
        ("log_get_print_level", {}),
        ("log_set_flag", {"flag": "rpc"}),
        ("log_get_flags", {}),
        ("log_clear_flag", {"flag": "all"}),
        ("log_enable_timestamps", {"enabled": True}),
        ("nvmf_create_transport", {"trtype": "RDMA", "max_io_size": 131072}),
        ("bdev_malloc_create", {"name": "m", **blocks}),
        ("bdev_null_create", {"name": "n", **blocks}),
        ("bdev_aio_create", {"name": "a", "filename": str(image), "readonly": True}),
        ("bdev_uring_create", {"name": "u", "filename": str(key)}),
        ("bdev_get_bdevs", {}),
        ("bdev_get_iostat", {}),
        ("bdev_null_resize", {"name": "n", "new_size": 2}),
        ("bdev_aio_rescan", {"name": "a"}),
        ("bdev_uring_rescan", {"name": "u"}),
        ("bdev_malloc_delete", {"name": "m"}),
        ("bdev_null_delete", {"name": "n"}),
        ("bdev_aio_delete", {"name": "a"}),
        ("bdev_uring_delete", {"name": "u"}),
        ("nvmf_stop_mdns_prr", {}),
        ("nvmf_discovery_add_referral", {"address": away}),
        ("nvmf_discovery_get_referrals", {}),
        ("nvmf_discovery_remove_referral", {"address": away}),
        ("framework_get_subsystems", {}),
        ("framework_get_config", {"name": "nvmf"}),
        ("save_config", {}),
        ("load_config", {"subsystems": []}),
        ("rpc_get_methods", {}),
        ("spdk_get_version", {}),
        ("target_get_tree", {}),
        ("target_get_config", {"secrets": True}),
        ("target_log_level", {}),
        ("target_capture", {"socket": f"@{LISTENER}"}),
        ("target_add_fault", {"fault": {"kind": "delay", "delay_us": 1}}),
        ("target_get_faults", {}),
        ("target_remove_fault", {"id": 1}),
        ("target_get_counters", {}),
        ("nvmf_get_stats", {}),
        ("nvmf_get_transports", {"trtype": "rdma"}),
        ("nvmf_get_subsystems", {}),
        ("nvmf_subsystem_get_controllers", {"nqn": NQN}),
        ("target_get_memory", {}),
        ("target_revoke_memory", {"nqn": NQN}),
        ("nvmf_subsystem_get_qpairs", {"nqn": NQN}),
        ("nvmf_subsystem_get_listeners", {"nqn": NQN}),
        ("target_get_ns_limits", one),
        ("target_set_ns_limits", {**one, "limits": {"iops": 1000}}),
        ("target_get_ns_limits", one),
        ("nvmf_get_subsystems", {"nqn": NQN}),
        ("target_clear_ns_limits", one),
        ("bdev_set_qos_limit", {"name": uuid, "rw_ios_per_sec": 5000}),
        ("nvmf_create_subsystem", {"nqn": OTHER, "serial_number": "1"}),
        ("nvmf_subsystem_add_ns", {"nqn": OTHER, "namespace": ram}),
        ("target_resize_ns", {**new, "size": "512KiB"}),
        ("nvmf_subsystem_set_ns_ana_group", {**new, "anagrpid": 2}),
        ("target_replace_ns", {**new, "namespace": ram}),
        ("target_mask_ns", {**new, "hosts": []}),
        ("nvmf_ns_add_host", {**new, "host": HOST}),
        ("nvmf_get_subsystems", {"nqn": OTHER}),
        ("nvmf_ns_remove_host", {**new, "host": HOST}),
        ("target_protect_ns", {**new, "state": "protected"}),
        ("keyring_file_add_key", {"name": "k", "path": str(key)}),
        ("keyring_get_keys", {}),
        ("nvmf_subsystem_add_host", {"nqn": OTHER, "host": HOST, "dhchap_key": "k"}),
        ("nvmf_get_subsystems", {"nqn": OTHER}),
        ("nvmf_subsystem_set_keys", {"nqn": OTHER, "host": HOST}),
        ("target_set_host_keys", {"nqn": OTHER, "host": {"nqn": HOST}}),
        ("nvmf_subsystem_remove_host", {"nqn": OTHER, "host": HOST}),
        ("target_add_host", {"nqn": OTHER, "host": {"nqn": HOST}}),
        ("keyring_file_remove_key", {"name": "k"}),
        ("nvmf_subsystem_allow_any_host", {"nqn": OTHER, "allow_any_host": True}),
        ("nvmf_subsystem_remove_ns", new),
        *mirror_calls(tmp_path),
        ("target_set_ana", {**port, "state": "non-optimized"}),
        ("target_get_tree", {}),
        (
            "nvmf_subsystem_listener_set_ana_state",
            {
                "nqn": NQN,
                "listen_address": {"traddr": "127.0.0.1", "trsvcid": str(service)},
                "ana_state": "optimized",
            },
        ),
        ("nvmf_delete_subsystem", {"nqn": OTHER}),
        ("target_add_subsystem", {"subsystem": {"nqn": OTHER}}),
        ("nvmf_delete_subsystem", {"nqn": OTHER}),
        ("nvmf_subsystem_add_listener", {"nqn": NQN, "listen_address": listen}),
        ("nvmf_subsystem_remove_listener", {"nqn": NQN, "listen_address": listen}),
        ("target_add_port", {"port": {"traddr": "127.0.0.3", "trsvcid": 0, "device": "iwarp"}}),
        ("target_reload", {}),
        ("target_set_config", {"config": {"subsystem": [{"nqn": NQN}], "port": whole}}),
        ("target_remove_port", port),
        ("spdk_kill_instance", {"sig_name": "SIGHUP"}),
    ]


@pytest.mark.feature("rpc")
async def test_every_result_has_exactly_the_fields_of_its_type(
    target: Served, tmp_path: Path
) -> None:
    """While a host is connected, so that no list of them is empty."""
    called: set[str] = set()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{LISTENER}")
    listener.listen()
    async with connect(target.rpc_socket) as rpc, connect_host(url(target.port), **OPTIONS):
        (found,) = await rpc.subsystems(nqn=NQN)
        uuid = found["namespaces"][0]["uuid"]
        for name, params in calls(tmp_path, uuid, target.port):
            if name in ("target_add_leg", "target_remove_leg"):
                await in_sync(rpc)
            result = await rpc.request(name, params)
            checked(cast(type[object], METHODS[name].result), result, exact=True)
            called.add(name)
            if name in ("nvmf_subsystem_get_controllers", "nvmf_subsystem_get_qpairs"):
                assert result
    assert called == set(METHODS) - {"nvmf_publish_mdns_prr"}  # see test_mdns.py
    listener.close()


def test_clients_have_every_method() -> None:
    names = {method.python for method in METHODS.values() if method.python is not None}
    for kind in (Calls, SyncCalls):
        public = {name for one in kind.__mro__[:2] for name in vars(one) if name[0] != "_"}
        assert public == names
    for method in METHODS.values():
        if method.python is None:
            continue
        one, other = getattr(Calls, method.python), getattr(SyncCalls, method.python)
        assert inspect.signature(one) == inspect.signature(other)
        assert set(inspect.signature(one).parameters) == {
            "self", *(parameter.name for parameter in manual.parameters(method))
        }  # fmt: skip
    assert list(NAMES) == sorted(METHODS)


async def test_typed_methods(target: Served) -> None:
    async with connect(target.rpc_socket) as rpc:
        assert str(target.rpc_socket) in repr(rpc)
        assert await rpc.add_subsystem({"nqn": OTHER, "allow_any_host": True})
        nsid = await rpc.add_namespace(OTHER, {"store": "ram", "size": "1MiB"})
        assert await rpc.resize_namespace(OTHER, nsid, size=1 << 19) == 1 << 19
        await rpc.mask_namespace(OTHER, nsid, hosts=[HOST])
        tree = await rpc.tree()
        spaces = {one["nqn"]: one.get("namespaces", []) for one in tree["subsystems"]}
        assert [space.get("hosts") for space in spaces[OTHER]] == [[HOST]]
        absent = [one["absent_namespaces"] for one in tree["subsystems"] if one["nqn"] == NQN]
        assert [one["nsid"] for one in absent[0]] == [2]
        versions = await asyncio.gather(*(rpc.version() for _ in range(20)))
        assert len({version["version"] for version in versions}) == 1


def test_synchronous_client_shared_by_threads(target: Served) -> None:
    found: list[int] = []
    with connect_sync(target.rpc_socket) as rpc:
        threads = [
            threading.Thread(target=lambda: found.extend(len(rpc.subsystems()) for _ in range(20)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [2] * 80


async def test_refusals_have_code_and_sentence(target: Served) -> None:
    async with connect(target.rpc_socket) as rpc:
        with pytest.raises(RpcError, match=r"there is no subsystem nqn\.nowhere") as missing:
            await rpc.subsystems(nqn="nqn.nowhere")
        assert missing.value.code == Code.NO_SUCH_DEVICE
        with pytest.raises(RpcError, match="there is no parameter nonsense") as unknown:
            await rpc.request("nvmf_get_subsystems", {"nonsense": 1})
        assert unknown.value.code == Code.INVALID_PARAMS
        assert await rpc.methods() == sorted(METHODS)  # the connection is still usable
    with connect_sync(target.rpc_socket) as client, pytest.raises(RpcError, match="no method odd"):
        client.request("odd")


async def test_a_cancelled_request_does_not_confuse_the_next_one(target: Served) -> None:
    async with connect(target.rpc_socket) as rpc:
        for steps in range(6):
            task = asyncio.create_task(rpc.tree())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert "version" in await rpc.version()


# ---- nvmeof rpc ----


def test_command(target: Served, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--rpc-socket", str(target.rpc_socket)]
    assert main(["rpc", *place, "nvmf_get_subsystems", json.dumps({"nqn": NQN})]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["nqn"] == NQN
    assert main(["rpc", *place, "nvmf_get_subsystems", '{"nqn": "nqn.nowhere"}']) == 1
    assert "there is no subsystem nqn.nowhere" in capsys.readouterr().err
    assert main(["rpc", *place, "nonsense"]) == 1
    assert "there is no method nonsense" in capsys.readouterr().err


def test_command_lists_methods(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rpc", "--list", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == NAMES
    assert main(["rpc", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == sorted(METHODS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "specify a method"),
        (["--list", "x"], "cannot be combined"),
        (["x", "{"], "the parameters are not JSON"),
        (["x", "[1]"], "must be a JSON object"),
    ],
)
def test_command_usage(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rpc", *words]) == 2
    assert said in capsys.readouterr().err


def test_reference_names_every_method_and_type() -> None:
    text = manual.reference()
    for name in METHODS:
        assert f"### {name}\n" in text
    assert nvmf.target.client.results is results


def test_commands_for_a_stopped_target(
    target: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each ends with a sentence, and works again when the target continues."""
    monkeypatch.setattr(alive, "ASK_AFTER", 0.2)
    monkeypatch.setattr(alive, "STEP", 0.05)
    place = ["--rpc-socket", str(target.rpc_socket)]
    commands = (
        ["target", "ls", *place],
        ["target", "stats", *place],
        ["target", "save", *place],
        ["target", "mirror", "events", "--follow", *place],
        ["rpc", "rpc_get_methods", *place],
        ["top", "-n", "1", *place],
        ["capture", "--duration", "2", *place, str(tmp_path / "x.pcapng")],
    )
    target.stop()
    try:
        for command in commands:
            assert main(command) == 1
            assert "s: is it stopped, or busy?" in capsys.readouterr().err
    finally:
        target.process.send_signal(signal.SIGCONT)
    monkeypatch.undo()
    assert main(["target", "ls", *place]) == 0
