# SPDX-License-Identifier: BSD-3-Clause
"""SPDK's own RPC client administers the target, and gets the same codes as from SPDK's target.

Codes: SPDK's lib/nvmf/nvmf_rpc.c, module/keyring/file and lib/keyring, as of 26.09.
"""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nvmf.auth import Key
from nvmf.initiator import connect
from support.clientlab import OPTIONS, url
from support.livelab import H1, HANG, A, B
from support.served import Served

CLIENT = Path(sys.executable).parent / "spdk-rpc"
MADE, NONE = "nqn.2026-11.io.example:made", "nqn.2026-11.io.example:none"
KEYED = "nqn.2026-11.io.example:keyed"
PARAMS, INTERNAL = -32602, -32603
LISTENER = ("-t", "rdma", "-f", "ipv4", "-a", "127.0.0.2")


def ask(served: Served, *args: object) -> subprocess.CompletedProcess[str]:
    """Run spdk-rpc."""
    argv = [str(arg) for arg in (CLIENT, "-s", served.rpc_socket, *args)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=HANG, check=False)


def rpc(served: Served, *args: object) -> Any:
    """Return the result of a method, if it prints one."""
    done = ask(served, *args)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None


def code(served: Served, *args: object) -> int:
    """Return the code of a refused method."""
    done = ask(served, *args)
    assert done.returncode != 0, done.stdout
    found = re.search(r'"code": (-?\d+)', done.stdout + done.stderr)
    assert found is not None, done.stdout + done.stderr
    return int(found[1])


@pytest.mark.feature("rpc")
async def test_a_session(served: Served, tmp_path: Path) -> None:
    rpc(served, "nvmf_create_subsystem", MADE, "-s", "SPDK00000000000001", "-m", 8, "-r")
    rpc(served, "nvmf_create_subsystem", f"{MADE}2")
    (made,) = rpc(served, "nvmf_get_subsystems", MADE)
    assert (made["serial_number"], made["max_namespaces"]) == ("SPDK00000000000001", 8)
    rpc(served, "nvmf_subsystem_allow_any_host", MADE, "--allow-any-host")
    rpc(served, "nvmf_subsystem_add_listener", MADE, *LISTENER, "-s", 0)
    _, place = rpc(served, "nvmf_subsystem_get_listeners", MADE)
    port = int(place["address"]["trsvcid"])
    where = f"nvme+rdma://127.0.0.2:{port}/{MADE}"
    async with connect(where, **OPTIONS, hostnqn=H1):
        (controller,) = rpc(served, "nvmf_subsystem_get_controllers", MADE)
        assert controller["hostnqn"] == H1
        assert {one["qid"] for one in rpc(served, "nvmf_subsystem_get_qpairs", MADE)} >= {0, 1}
    rpc(served, "nvmf_subsystem_listener_set_ana_state", MADE, *LISTENER, "-s", port, "-n",
        "inaccessible")  # fmt: skip

    path = tmp_path / "one.key"
    path.touch(0o600)
    path.write_text(Key.generate().text())
    rpc(served, "keyring_file_add_key", "one", path)
    rpc(served, "nvmf_subsystem_add_host", B, KEYED, "--dhchap-key", "one")
    async with connect(
        url(served.port, B), **OPTIONS, hostnqn=KEYED, dhchap_secret_file=str(path)
    ) as host:
        assert await host.namespace(1).read(0, 1)
    rpc(served, "nvmf_subsystem_remove_host", B, KEYED)
    rpc(served, "keyring_file_remove_key", "one")
    (transport,) = rpc(served, "nvmf_get_transports", "--trtype", "RDMA")
    assert transport["trtype"] == "RDMA"
    assert rpc(served, "nvmf_get_stats")["poll_groups"]
    rpc(served, "nvmf_subsystem_remove_ns", A, 1)
    rpc(served, "nvmf_delete_subsystem", MADE)


@pytest.mark.feature("rpc")
def test_codes(served: Served, tmp_path: Path) -> None:
    """For a missing subsystem, for existing objects, and for unsupported features."""
    place = (*LISTENER, "-s", 4499)
    for method, *args in (
        ("nvmf_delete_subsystem",),
        ("nvmf_subsystem_add_listener", *place),
        ("nvmf_subsystem_remove_listener", *place),
        ("nvmf_subsystem_listener_set_ana_state", *place, "-n", "optimized"),
        ("nvmf_subsystem_get_listeners",),
        ("nvmf_subsystem_get_controllers",),
        ("nvmf_subsystem_get_qpairs",),
        ("nvmf_subsystem_add_ns", "Malloc0"),
        ("nvmf_subsystem_remove_ns", 1),
        ("nvmf_ns_add_host", 1, H1),
        ("nvmf_ns_remove_host", 1, H1),
        ("nvmf_subsystem_add_host", H1),
        ("nvmf_subsystem_remove_host", H1),
        ("nvmf_subsystem_set_keys", H1),
        ("nvmf_subsystem_allow_any_host", "--allow-any-host"),
    ):
        assert code(served, method, NONE, *args) == PARAMS, method
    assert code(served, "nvmf_get_subsystems", NONE) == -errno.ENODEV
    assert code(served, "nvmf_get_transports", "--trtype", "TCP") == -errno.ENODEV
    assert code(served, "bdev_set_qos_limit", "None0", "--rw-ios-per-sec", 1000) == -errno.ENODEV

    assert code(served, "nvmf_create_subsystem", A) == INTERNAL
    assert code(served, "nvmf_create_subsystem", MADE, "-p") == PARAMS
    assert code(served, "nvmf_create_subsystem", MADE, "-i", 5) == PARAMS
    assert code(served, "nvmf_subsystem_remove_ns", A, 9) == PARAMS
    assert code(served, "nvmf_ns_add_host", A, 1, H1) == PARAMS
    assert code(served, "nvmf_subsystem_add_host", B, H1) == INTERNAL
    assert code(served, "nvmf_subsystem_remove_host", B, KEYED) == INTERNAL
    assert code(served, "nvmf_subsystem_add_host", B, KEYED, "--dhchap-key", "none") == PARAMS
    assert code(served, "nvmf_subsystem_set_keys", B, KEYED) == -errno.EINVAL
    # An address of documentation (RFC 5737): no machine has it.
    outside = ("-t", "rdma", "-f", "ipv4", "-a", "192.0.2.77", "-s", 4499)
    assert code(served, "nvmf_subsystem_add_listener", A, *outside) == PARAMS

    path = tmp_path / "one.key"
    path.touch(0o600)
    path.write_text(Key.generate().text())
    rpc(served, "keyring_file_add_key", "one", path)
    assert code(served, "keyring_file_add_key", "one", path) == -errno.EEXIST
    assert code(served, "keyring_file_add_key", "two", tmp_path / "none.key") == -errno.ENOENT
    assert code(served, "keyring_file_add_key", "two", "one.key") == -errno.EPERM
    assert code(served, "keyring_file_remove_key", "two") == -errno.ENOKEY


SCRIPT = """\
# One command a line, in the order of the guide of SPDK for its target.
framework_start_init
framework_wait_init
log_set_print_level NOTICE
nvmf_create_transport -t RDMA -i 131072 -c 8192
bdev_malloc_create -b Malloc0 8 512
bdev_aio_create {image} aio0 4096
bdev_null_create Null0 64 512
bdev_set_qos_limit Malloc0 --rw-mbytes-per-sec 500
nvmf_create_subsystem {made} -a -s SPDK00000000000001 -d SPDK_Controller1
nvmf_subsystem_add_ns {made} Malloc0
nvmf_subsystem_add_ns {made} aio0 -n 3
nvmf_subsystem_add_listener {made} -t rdma -a 127.0.0.1 -s 0 -f ipv4
nvmf_subsystem_add_listener discovery -t rdma -a 127.0.0.1 -s 0 -f ipv4
bdev_wait_for_examine
"""


@pytest.mark.feature("rpc")
async def test_a_whole_script(tmp_path: Path, need_product: None) -> None:
    """A script runs on an empty target, hosts use the created objects, and the saved file recreates
    them.
    """
    image, saved = tmp_path / "aio.img", tmp_path / "saved.json"
    image.write_bytes(bytes(1 << 20))
    with Served(tmp_path, "port = []\n") as served:
        run_script(served, SCRIPT.format(image=image, made=MADE))
        await write_and_read(served)
        iostat = rpc(served, "bdev_get_iostat", "--names", "Malloc0")
        assert iostat["bdevs"][0]["num_write_ops"] == 1
        assert [one["name"] for one in rpc(served, "bdev_get_bdevs", "-b", "aio0")] == ["aio0"]
        assert rpc(served, "framework_get_reactors")["reactors"]
        saved.write_text(json.dumps(rpc(served, "save_config")))
        assert code(served, "bdev_malloc_delete", "aio0") == -errno.ENODEV
        rpc(served, "bdev_malloc_delete", "Malloc0")
        rpc(served, "bdev_null_delete", "Null0")
        (made,) = rpc(served, "nvmf_get_subsystems", MADE)
        assert [one["nsid"] for one in made["namespaces"]] == [3]
        assert served.end() == 0
        served.check_log()
    folder = tmp_path / "again"
    folder.mkdir()
    with Served(folder, "port = []\n") as again:
        run_script(again, "")
        rpc(again, "load_config", "-j", saved)
        await write_and_read(again)
        assert rpc(again, "save_config") == json.loads(saved.read_text())
        assert again.end() == 0


def run_script(served: Served, text: str) -> None:
    """Run the lines of a script, once the socket is there."""
    argv = [str(CLIENT), "-s", str(served.rpc_socket), "-r", "300"]
    script = f"framework_wait_init\n{text}"
    done = subprocess.run(
        argv, input=script, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def write_and_read(served: Served) -> None:
    """Use both namespaces as a host."""
    (place,) = rpc(served, "nvmf_subsystem_get_listeners", MADE)
    where = url(int(place["address"]["trsvcid"]), MADE)
    async with connect(where, **OPTIONS) as host:
        assert [(n.nsid, n.block_size) for n in host.namespaces] == [(1, 512), (3, 4096)]
        for one in host.namespaces:
            await one.write(2, b"s" * 4096)
            assert bytes(await one.read(2, 1)) == b"s" * one.block_size
