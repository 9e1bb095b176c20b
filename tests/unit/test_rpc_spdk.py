# SPDX-License-Identifier: BSD-3-Clause
"""SPDK's set-up scripts: their calls in their order, on an empty target, then hosts' data."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from nvmf.cli.main import main
from nvmf.config import from_dict, load
from nvmf.initiator import NvmeError, connect
from nvmf.json import JSON
from nvmf.spec.status import Status
from nvmf.target.client import NoTargetError, RpcError, connect_sync
from support.clientlab import OPTIONS, url
from support.served import Served

NQN = "nqn.2016-06.io.spdk:cnode1"
OTHER = "nqn.2016-06.io.spdk:cnode2"
HOST = "nqn.2016-06.io.spdk:host1"
HANG = 60
LISTEN: JSON = {"trtype": "RDMA", "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": "0"}


class Empty(Served):
    """A target without ports and subsystems, as SPDK's starts."""

    def wait_ready(self, timeout: float = HANG) -> Empty:
        deadline = time.monotonic() + timeout
        while True:
            try:
                with connect_sync(self.rpc_socket) as rpc:
                    rpc.wait_init()
                return self
            except NoTargetError:
                assert self.alive, self.log
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def call(self, method: str, **params: JSON) -> Any:
        with connect_sync(self.rpc_socket) as rpc:
            return rpc.request(method, params)

    def refused(self, method: str, **params: JSON) -> tuple[int, str]:
        with pytest.raises(RpcError) as caught:
            self.call(method, **params)
        return caught.value.code, str(caught.value)

    @property
    def listens(self) -> int:
        """The number of its port."""
        (found,) = self.call("nvmf_subsystem_get_listeners", nqn="discovery")
        return int(found["address"]["trsvcid"])


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Empty]:
    with Empty(tmp_path, "port = []\n") as served:
        yield served.wait_ready()


def set_up(target: Empty, image: Path) -> None:
    """Make the calls of an ordinary script: options, transport, bdevs, subsystems, listeners."""
    target.call("iobuf_set_options", small_pool_count=4096, large_pool_count=512)
    target.call("bdev_set_options", bdev_io_pool_size=65535, bdev_io_cache_size=256)
    target.call("sock_set_default_impl", impl_name="posix")
    assert target.call("framework_disable_cpumask_locks") is True
    assert target.call("framework_start_init") is True
    assert target.call("framework_wait_init") is True
    target.call("log_set_print_level", level="NOTICE")
    transport: dict[str, JSON] = {"max_queue_depth": 128, "in_capsule_data_size": 8192}
    more: dict[str, JSON] = {"io_unit_size": 8192, "max_io_size": 131072, "no_srq": False}
    assert target.call("nvmf_create_transport", trtype="RDMA", **transport, **more) is True
    blocks: dict[str, JSON] = {"num_blocks": 16384, "block_size": 512}
    assert target.call("bdev_malloc_create", **blocks) == "Malloc0"
    assert target.call("bdev_malloc_create", name="m4k", num_blocks=512, block_size=4096) == "m4k"
    assert target.call("bdev_null_create", name="Null0", **blocks) == "Null0"
    file: dict[str, JSON] = {"name": "aio0", "filename": str(image), "block_size": 512}
    assert target.call("bdev_aio_create", **file) == "aio0"
    assert target.call("bdev_set_qos_limit", name="m4k", rw_mbytes_per_sec=200) is True
    assert target.call("bdev_wait_for_examine") is True
    serial: dict[str, JSON] = {"serial_number": "SPDK00000000000001", "model_number": "SPDK"}
    created = target.call("nvmf_create_subsystem", nqn=NQN, allow_any_host=True, **serial)
    assert created is True
    assert target.call("nvmf_create_subsystem", nqn=OTHER, max_namespaces=8) is True
    for number, name in enumerate(("Malloc0", "aio0"), 1):
        space: JSON = {"bdev_name": name, "no_auto_visible": False, "hide_metadata": False}
        assert target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace=space) == number
    space = {"bdev_name": "m4k", "nsid": 5, "anagrpid": 2}
    assert target.call("nvmf_subsystem_add_ns", nqn=OTHER, namespace=space) == 5
    assert target.call("nvmf_subsystem_add_host", nqn=OTHER, host=HOST) is True
    for nqn in (NQN, OTHER):
        assert target.call(
            "nvmf_subsystem_add_listener", nqn=nqn, listen_address=LISTEN, secure_channel=False
        )
    assert target.call("nvmf_subsystem_add_listener", nqn="discovery", listen_address=LISTEN)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "aio.img"
    path.write_bytes(bytes(4 << 20))
    return path


async def write_and_read(target: Empty, word: bytes) -> None:
    """Write to every namespace as a host, and read it back."""
    async with connect(url(target.listens, NQN), **OPTIONS) as host:
        assert [one.nsid for one in host.namespaces] == [1, 2]
        for one in host.namespaces:
            await one.write(8, word * 512)
            assert bytes(await one.read(8, 1)) == (word * 512)[:512]


@pytest.mark.feature("rpc")
async def test_a_script_and_a_host(target: Empty, image: Path) -> None:
    await asyncio.to_thread(set_up, target, image)
    await write_and_read(target, b"s")
    found = await asyncio.to_thread(target.call, "bdev_get_iostat")
    stats = {one["name"]: one for one in found["bdevs"]}
    assert set(stats) == {"Malloc0", "aio0", "m4k", "Null0"}
    for name in ("Malloc0", "aio0"):
        assert stats[name]["num_write_ops"] == 1
        assert stats[name]["num_read_ops"] == 1
    assert not stats["Null0"]["num_read_ops"]
    assert (await asyncio.to_thread(image.read_bytes))[4096:4608] == b"s" * 512
    (subsystem,) = await asyncio.to_thread(target.call, "nvmf_get_subsystems", nqn=NQN)
    assert [n["bdev_name"] for n in subsystem["namespaces"]] == ["Malloc0", "aio0"]
    target.check_log()


def test_bdevs(target: Empty, image: Path) -> None:
    set_up(target, image)
    every = {one["name"]: one for one in target.call("bdev_get_bdevs")}
    assert list(every) == ["Null0", "Malloc0", "aio0", "m4k"]
    assert [every[n]["claimed"] for n in every] == [False, True, True, True]
    assert [every[n]["num_blocks"] for n in every] == [16384, 16384, 8192, 512]
    assert every["m4k"]["assigned_rate_limits"]["rw_mbytes_per_sec"] == 200
    assert every["aio0"]["driver_specific"]["aio"]["filename"] == str(image)
    uuid = every["Malloc0"]["uuid"]
    (subsystem,) = target.call("nvmf_get_subsystems", nqn=NQN)
    assert subsystem["namespaces"][0]["uuid"] == uuid == str(UUID(uuid))
    (found,) = target.call("bdev_get_bdevs", name=uuid, timeout=100)
    assert found["name"] == "Malloc0"

    # A bdev is one namespace, stays without it, and removes it when it is deleted.
    twice: JSON = {"bdev_name": "Malloc0"}
    code, said = target.refused("nvmf_subsystem_add_ns", nqn=OTHER, namespace=twice)
    assert code == -32602
    assert "is already namespace 1" in said
    target.call("nvmf_subsystem_remove_ns", nqn=NQN, nsid=1)
    (found,) = target.call("bdev_get_bdevs", name="Malloc0")
    assert not found["claimed"]
    assert found["uuid"] == uuid
    assert target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace=twice) == 1
    assert target.call("bdev_malloc_delete", name="Malloc0") is True
    (subsystem,) = target.call("nvmf_get_subsystems", nqn=NQN)
    assert [n["nsid"] for n in subsystem["namespaces"]] == [2]
    with image.open("r+b") as file:
        file.truncate(8 << 20)
    assert target.call("bdev_aio_rescan", name="aio0") is True
    (subsystem,) = target.call("nvmf_get_subsystems", nqn=NQN)
    assert subsystem["namespaces"][0]["size"] == 8 << 20
    target.call("nvmf_delete_subsystem", nqn=NQN)
    left = [one["name"] for one in target.call("bdev_get_bdevs") if not one["claimed"]]
    assert left == ["Null0", "aio0"]
    target.call("bdev_null_resize", name="Null0", new_size=16)
    assert target.call("bdev_get_bdevs", name="Null0")[0]["num_blocks"] == 32768
    target.call("bdev_null_delete", name="Null0")
    target.call("bdev_uring_delete", name="aio0")
    target.check_log()


async def test_a_bdev_is_deleted_while_a_host_uses_it(target: Empty, image: Path) -> None:
    """Commands to it fail with a status; the connection and the other namespace go on."""
    await asyncio.to_thread(set_up, target, image)
    async with connect(url(target.listens, NQN), **OPTIONS) as host:
        gone, stays = host.namespaces
        started = asyncio.Event()

        async def load() -> int:
            while True:
                try:
                    await gone.write(0, b"x" * 4096)
                except NvmeError as error:
                    return error.status
                finally:
                    started.set()

        task = asyncio.create_task(load())
        await started.wait()
        assert await asyncio.to_thread(target.call, "bdev_malloc_delete", name="Malloc0") is True
        async with asyncio.timeout(HANG):
            assert await task == Status.INVALID_NAMESPACE_OR_FORMAT
        await stays.write(0, b"y" * 512)
        assert bytes(await stays.read(0, 1)) == b"y" * 512
    target.check_log()


def test_killed_and_started_again(target: Empty, image: Path, tmp_path: Path) -> None:
    """The saved bdevs exist again, and the namespaces made of them."""
    set_up(target, image)
    target.call("bdev_null_create", name="later", block_size=4096, num_blocks=8)
    assert main(["target", "save", "--rpc-socket", str(target.rpc_socket)]) == 0
    before = target.call("bdev_get_bdevs")
    target.call("bdev_null_delete", name="later")
    target.kill()
    text = (tmp_path / "target.toml").read_text()
    folder = tmp_path / "again"
    folder.mkdir()
    with Empty(folder, text) as again:
        assert again.wait_ready().call("bdev_get_bdevs") == before
        # A reload of a file without a bdev removes it, and says so.
        (folder / "target.toml").write_text("port = []\n# no bdevs\n")
        assert "list of bdevs changed" in again.call("target_reload")["changed"]
        assert again.call("bdev_get_bdevs") == []


@pytest.mark.parametrize(
    ("method", "params", "code", "said"),
    [
        (
            "bdev_malloc_create",
            {"name": "Null0", "block_size": 512, "num_blocks": 1},
            -17,
            "exists",
        ),
        ("bdev_malloc_create", {"block_size": 520, "num_blocks": 1}, -22, "only 512 and 4096"),
        ("bdev_malloc_create", {"block_size": 512, "num_blocks": 0}, -22, "at least one block"),
        ("bdev_malloc_create", {"block_size": 512, "num_blocks": 1 << 40}, -12, "does not fit"),
        ("bdev_malloc_create", {"block_size": 512}, -32602, "num_blocks is missing"),
        (
            "bdev_malloc_create",
            {"block_size": 512, "num_blocks": 1, "uuid": "x"},
            -22,
            "not a UUID",
        ),
        (
            "bdev_malloc_create",
            {"block_size": 512, "num_blocks": 8, "md_size": 8},
            -32602,
            "md_size",
        ),
        ("bdev_aio_create", {"name": "x", "filename": "/nowhere"}, -2, "No such file"),
        ("bdev_aio_create", {"name": "x", "filename": "rel"}, -22, "absolute"),
        ("bdev_aio_create", {"name": "x", "filename": "/dev/null"}, -22, "nor a block device"),
        ("bdev_uring_create", {"name": "x y", "filename": "IMAGE"}, -22, "without spaces"),
        ("bdev_uring_create", {"name": "x", "filename": "IMAGE"}, -22, "already used by"),
        ("bdev_malloc_delete", {"name": "no"}, -19, "there is no bdev no"),
        ("bdev_malloc_delete", {"name": "Null0"}, -19, "different driver"),
        ("bdev_null_resize", {"name": "m4k", "new_size": 1}, -19, "not a null bdev"),
        ("bdev_aio_rescan", {"name": "Null0"}, -19, "has no file"),
        ("bdev_get_bdevs", {"name": "no"}, -19, "there is no bdev no"),
        ("bdev_get_iostat", {"names": ["no"]}, -19, "there is no bdev no"),
        ("nvmf_create_transport", {"trtype": "RDMA"}, -32603, "already exists"),
        ("nvmf_create_transport", {"trtype": "TCP"}, -32602, "only RDMA"),
        (
            "nvmf_create_transport",
            {"trtype": "RDMA", "max_io_size": 100000},
            -32602,
            "max_io_size: expected a power of two",
        ),
        ("nvmf_subsystem_add_ns", {"nqn": NQN, "namespace": {"bdev_name": 3}}, -32602, "string"),
        (
            "nvmf_subsystem_add_ns",
            {"nqn": NQN, "namespace": {"bdev_name": "Null0", "size": 512}},
            -32602,
            "belongs to the bdev",
        ),
        (
            "nvmf_subsystem_add_ns",
            {"nqn": NQN, "namespace": {"bdev_name": "Null0", "ptpl_file": "/x"}},
            -32602,
            "state_dir",
        ),
        (
            "nvmf_subsystem_add_ns",
            {"nqn": NQN, "namespace": {"store": "ram", "size": 512, "bdev": "x"}},
            -32602,
            "bdev_name",
        ),
        ("framework_get_config", {"name": "iscsi"}, -32602, "no subsystem iscsi"),
        ("framework_set_scheduler", {"name": "dynamic"}, -32602, "name"),
        ("log_set_level", {"level": "LOUD"}, -32602, "must be one of"),
        ("log_set_flag", {"flag": "nope"}, -32602, "flag must be one of"),
        ("load_config", {"subsystems": [{"config": [{"method": "no"}]}]}, -32602, "no method no"),
        ("load_config", {"subsystems": [{"config": [1]}]}, -32602, "must be an object"),
    ],
)
def test_refusals(
    shared: Empty, method: str, params: dict[str, JSON], code: int, said: str
) -> None:
    """The error has SPDK's code and a message, and nothing changes."""
    known = {k: str(shared.folder / "aio.img") if v == "IMAGE" else v for k, v in params.items()}
    before = shared.call("target_get_config")
    found, sentence = shared.refused(method, **known)
    assert (found, said in sentence) == (code, True), sentence
    assert shared.call("target_get_config") == before


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Empty]:
    folder = tmp_path_factory.mktemp("spdk")
    image = folder / "aio.img"
    image.write_bytes(bytes(1 << 20))
    with Empty(folder, "port = []\n") as served:
        set_up(served.wait_ready(), image)
        yield served


async def test_saved_and_loaded(target: Empty, image: Path, tmp_path: Path) -> None:
    """The result of save_config restores the same target, and so does a saved file."""
    await asyncio.to_thread(set_up, target, image)
    saved = await asyncio.to_thread(target.call, "save_config")
    parts = await asyncio.to_thread(target.call, "framework_get_subsystems")
    assert [part["subsystem"] for part in saved["subsystems"]] == [p["subsystem"] for p in parts]
    wanted = (await asyncio.to_thread(target.call, "target_get_config"))["config"]
    assert await asyncio.to_thread(target.end) == 0
    folder = tmp_path / "second"
    folder.mkdir()
    with Empty(folder, "port = []\n") as second:
        await asyncio.to_thread(second.wait_ready)
        calls = await asyncio.to_thread(second.call, "load_config", **saved)
        assert calls == sum(len(part["config"]) for part in saved["subsystems"])
        described = await asyncio.to_thread(second.call, "target_get_config")
        assert from_dict(described["config"]) == from_dict(wanted)
        await write_and_read(second, b"t")
        socket = str(second.rpc_socket)
        assert await asyncio.to_thread(main, ["target", "save", "--rpc-socket", socket]) == 0
    assert load(folder / "target.toml") == from_dict(described["config"])


def test_a_file_of_spdk(target: Empty, image: Path) -> None:
    """The form that SPDK's rpc.py saves, with parts that do not exist here, and a batch."""
    malloc = {"name": "M", "num_blocks": 2048, "block_size": 512, "numa_id": -1, "md_size": 0}
    space = {"nsid": 1, "bdev_name": "M", "nguid": "0102030405060708090a0b0c0d0e0f10"}
    text: dict[str, Any] = {
        "subsystems": [
            {"subsystem": "scheduler", "config": None},
            {"subsystem": "sock", "config": [_call("sock_impl_set_options", impl_name="posix")]},
            {"subsystem": "bdev", "config": [[_call("bdev_malloc_create", **malloc)]]},
            {
                "subsystem": "nvmf",
                "config": [
                    _call("nvmf_set_config", discovery_filter="match_any"),
                    _call("nvmf_create_transport", trtype="RDMA", max_aq_depth=128),
                    _call("nvmf_create_subsystem", nqn=NQN, min_cntlid=1, max_cntlid=65519),
                    _call("nvmf_subsystem_add_ns", nqn=NQN, namespace=space),
                ],
            },
        ]
    }
    assert target.call("load_config", **text) == 6
    (subsystem,) = target.call("nvmf_get_subsystems", nqn=NQN)
    assert subsystem["namespaces"][0]["nguid"] == "0102030405060708090A0B0C0D0E0F10"
    code, said = target.refused("load_config", **text)
    assert code == -17
    assert "call 2, bdev_malloc_create, failed, after 1 were made" in said


def _call(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": params}


def test_log(target: Empty) -> None:
    for level, then in (("ERROR", "ERROR"), ("notice", "INFO"), ("DEBUG", "DEBUG")):
        assert target.call("log_set_level", level=level) is True
        assert target.call("log_get_level") == then == target.call("log_get_print_level")
    assert target.call("log_set_flag", flag="rpc") is True
    assert target.call("log_get_flags") == {"nvmf": False, "rpc": True}
    assert target.call("log_clear_flag", flag="all") is True
    assert target.call("log_get_flags") == {"nvmf": False, "rpc": False}


def test_kill(target: Empty) -> None:
    code, said = target.refused("spdk_kill_instance", sig_name="SIGKILL")
    assert (code, "SIGTERM, SIGINT or SIGHUP" in said) == (-32602, True)
    assert target.call("spdk_kill_instance", sig_name="SIGTERM") is True
    assert target.process.wait(HANG) == 0
    target.check_log()


def test_methods_that_can_be_called_now(target: Empty) -> None:
    every, now = target.call("rpc_get_methods"), target.call("rpc_get_methods", current=True)
    assert set(every) - set(now) == {"framework_start_init"}


def test_command(target: Empty, capsys: pytest.CaptureFixture[str]) -> None:
    """The same methods, called through `nvmeof rpc`."""
    words = ["--rpc-socket", str(target.rpc_socket)]
    call = '{"name": "B", "block_size": 512, "num_blocks": 8}'
    assert main(["rpc", *words, "bdev_null_create", call]) == 0
    assert json.loads(capsys.readouterr().out) == "B"
