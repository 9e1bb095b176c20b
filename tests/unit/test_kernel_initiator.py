# SPDX-License-Identifier: BSD-3-Clause
"""The initiator through the kernel, with a fake kernel made of files."""

from __future__ import annotations

import errno
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nvmf.auth.key import Key
from nvmf.initiator import ConnectOptions, TransportId
from nvmf.initiator.kernel import sysfs
from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.fabrics import Created, create
from nvmf.initiator.kernel.host import connected_to, resolve
from nvmf.initiator.kernel.options import FabricsOptions, from_client, kernel_words
from nvmf.initiator.kernel.system import System
from nvmf.initiator.kernel.wait import Waiter
from nvmf.spec.nqn import DISCOVERY_NQN
from support.fakekernel import HOSTID, HOSTNQN, NQN, FakeKernel

WANTED = FabricsOptions(traddr="192.0.2.1", nqn=NQN)
KEY = Key(b"k" * 32)


# ---- options ----


def test_every_option_is_written(kernel: FakeKernel) -> None:
    kernel.known = None
    options = FabricsOptions(
        traddr="2001:db8::1",
        trsvcid="4421",
        nqn=NQN,
        queue_size=64,
        nr_io_queues=2,
        reconnect_delay=3,
        ctrl_loss_tmo=-1,
        keep_alive_tmo=0,
        hostnqn=HOSTNQN,
        host_traddr="2001:db8::2",
        hostid=HOSTID,
        duplicate_connect=True,
        disable_sqflow=True,
        nr_write_queues=1,
        nr_poll_queues=1,
        tos=0,
        fast_io_fail_tmo=30,
        dhchap_secret=KEY,
        dhchap_ctrl_secret=KEY,
    )
    assert create(options, kernel.system) == Created("nvme0", 1)
    assert kernel.written == [
        f"transport=rdma,traddr=2001:db8::1,trsvcid=4421,nqn={NQN},queue_size=64,nr_io_queues=2,"
        f"reconnect_delay=3,ctrl_loss_tmo=-1,keep_alive_tmo=0,hostnqn={HOSTNQN},"
        f"host_traddr=2001:db8::2,hostid={HOSTID},duplicate_connect,disable_sqflow,"
        "nr_write_queues=1,nr_poll_queues=1,tos=0,fast_io_fail_tmo=30,"
        f"dhchap_secret={KEY.text()},dhchap_ctrl_secret={KEY.text()}"
    ]


def test_only_what_was_given_is_written(kernel: FakeKernel) -> None:
    create(WANTED, kernel.system)
    assert kernel.written == [f"transport=rdma,traddr=192.0.2.1,trsvcid=4420,nqn={NQN}"]


def test_options_that_a_kernel_has_not(kernel: FakeKernel) -> None:
    """An option of the user is an error; one that this package adds is left out."""
    with pytest.raises(KernelError, match=r"no option dhchap_secret.*CONFIG_NVME_HOST_AUTH"):
        create(replace(WANTED, dhchap_secret=KEY), kernel.system)
    assert kernel.written == []
    assert kernel.known is not None
    kernel.known = kernel.known.replace(",discovery", "")
    create(replace(WANTED, nqn=DISCOVERY_NQN, discovery=True), kernel.system)
    assert kernel.written[0].endswith(f"nqn={DISCOVERY_NQN}")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"queue_size": 8}, "queue_size is 16 to 1024"),
        ({"nr_io_queues": 0}, "nr_io_queues is 1 to 65535"),
        ({"tos": 256}, "tos is 0 to 255"),
        ({"reconnect_delay": 0}, "reconnect_delay is 1"),
        ({"dhchap_ctrl_secret": KEY}, "requires dhchap_secret"),
        ({"traddr": "192.0.2.1,tos=7"}, "traddr: the kernel does not accept"),
        ({"nqn": ""}, "the NQN is empty"),
    ],
)
def test_wrong_options(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(WANTED, **changes)


def test_too_long_for_the_kernel() -> None:
    with pytest.raises(KernelError, match="the kernel reads"):
        replace(WANTED, host_traddr="1" * 5000).text()


def test_from_the_python_api() -> None:
    where = TransportId("disk.example", "4421", NQN)
    options = ConnectOptions(
        backend="kernel", queues=2, queue_depth=64, hostid=HOSTID, write_queues=1, tos=4
    )
    assert from_client(where, options, "192.0.2.1").given() == {
        "transport": "rdma",
        "traddr": "192.0.2.1",
        "trsvcid": "4421",
        "nqn": NQN,
        "queue_size": 64,
        "nr_io_queues": 2,
        "reconnect_delay": 10,
        "ctrl_loss_tmo": 600,
        "keep_alive_tmo": 5,
        "hostnqn": f"nqn.2014-08.org.nvmexpress:uuid:{HOSTID}",
        "hostid": HOSTID,
        "nr_write_queues": 1,
        "tos": 4,
    }
    asked = from_client(replace(where, subnqn=DISCOVERY_NQN), options, "192.0.2.1")
    assert asked.discovery
    assert asked.nr_io_queues is asked.queue_size is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"io_timeout": 5.0}, "io_timeout is an option of the client"),
        ({"device": "iwarp"}, "device is an option of the client"),
        ({"kato": 0.5}, "whole seconds"),
    ],
)
def test_what_the_kernel_has_not(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_client(
            TransportId("h", "1", NQN), ConnectOptions(backend="kernel", **changes), "192.0.2.1"
        )


def test_keys(tmp_path: Path) -> None:
    """Keys are given as text, from a file, or as the Key that ConnectOptions makes of them."""
    file = tmp_path / "key"
    file.write_text(KEY.text() + "\n")
    assert kernel_words({"dhchap_secret_file": str(file)}) == {"dhchap_secret": KEY}
    options = ConnectOptions(backend="kernel", dhchap_secret=KEY.text())
    assert from_client(TransportId("h", "1", NQN), options, "192.0.2.1").dhchap_secret == KEY
    with pytest.raises(ValueError, match="not both"):
        kernel_words({"dhchap_secret": KEY.text(), "dhchap_secret_file": str(file)})
    assert KEY.text() not in repr(replace(WANTED, dhchap_secret=KEY))


def test_what_the_client_has_not() -> None:
    with pytest.raises(ValueError, match="tos is an option of backend kernel only"):
        ConnectOptions(tos=3)


def test_names_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve("127.0.0.1", "4420") == "127.0.0.1"

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(KernelError, match="cannot resolve disk: Name or service not known; check"):
        resolve("disk", "4420")


# ---- the device ----


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "connecting through the kernel requires root: try sudo"),
        (errno.ENXIO, "modprobe nvme-fabrics"),
    ],
)
def test_device_that_cannot_be_opened(kernel: FakeKernel, number: int, words: str) -> None:
    kernel.opening = number
    with pytest.raises(KernelError, match=words):
        create(WANTED, kernel.system)


def test_without_the_module(kernel: FakeKernel, tmp_path: Path) -> None:
    kernel.opening = errno.ENOENT
    with pytest.raises(KernelError, match=r"there is no /nonexistent/modprobe.*install kmod"):
        create(WANTED, kernel.system)
    with pytest.raises(KernelError, match=r"driver is not loaded .* requires root: try sudo"):
        create(WANTED, replace(kernel.system, euid=1000))
    modprobe = tmp_path / "modprobe"
    modprobe.write_text("#!/bin/sh\necho 'modprobe: FATAL: Module not found.' >&2\nexit 1\n")
    modprobe.chmod(0o755)
    system = replace(kernel.system, modprobe=str(modprobe))
    with pytest.raises(KernelError, match=r"'modprobe nvme-rdma' failed: modprobe: FATAL: Module"):
        create(WANTED, system)
    modprobe.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(KernelError, match="is this a container"):
        create(WANTED, system)


# ---- sysfs ----


def test_controllers(kernel: FakeKernel) -> None:
    for number in (10, 2):
        kernel.controller(number, subsystem=number)
    kernel.controller(3, subsystem=3, transport="pcie", address="0000:00:01.0")
    found = sysfs.controllers(kernel.system)
    assert [one.name for one in found] == ["nvme2", "nvme3", "nvme10"]
    assert [one.is_fabrics for one in found] == [True, False, True]
    assert found[0].place == {"traddr": "192.0.2.1", "trsvcid": "4420"}
    assert (found[0].is_live, found[0].is_going) == (True, False)
    assert connected_to(WANTED, kernel.system) == found[0]
    assert connected_to(replace(WANTED, hostnqn=HOSTNQN), kernel.system) == found[0]
    for other in (
        replace(WANTED, trsvcid="4421"),
        replace(WANTED, hostnqn=NQN),
        replace(WANTED, host_traddr="192.0.2.2"),
    ):
        assert connected_to(other, kernel.system) is None


def test_namespaces_with_and_without_multipath(kernel: FakeKernel) -> None:
    kernel.controller(0)
    kernel.controller(1)
    plain = kernel.namespace(2)
    shared = kernel.namespace(1, head="nvme0n7")
    kernel.namespace(1, controller=1, head="nvme0n7")
    kernel.namespace(5, sectors=0)
    (kernel.dev / "nvme0n5").unlink()  # udev has not created it yet
    (subsystem,) = sysfs.subsystems(kernel.system)
    assert [one.name for one in subsystem.controllers] == ["nvme0", "nvme1"]
    assert [(b.name, b.nsid) for b in subsystem.namespaces] == [(shared, 1), (plain, 2)]
    block = subsystem.namespaces[0]
    assert (block.size, block.block_size, block.used) == (8 << 20, 512, 51200)
    assert (block.path, block.uuid) == (str(kernel.dev / shared), HOSTID)
    (other,) = sysfs.namespaces(subsystem.controllers[1], kernel.system)
    assert other.name == shared


def test_nothing_there(tmp_path: Path) -> None:
    system = System(sysfs=tmp_path / "none", dev=tmp_path)
    assert sysfs.controllers(system) == []
    assert sysfs.subsystems(system) == []


def test_delete(kernel: FakeKernel) -> None:
    kernel.controller(0)
    (one,) = sysfs.controllers(kernel.system)
    sysfs.delete(one)
    assert (one.folder / "delete_controller").read_text() == "1"
    (one.folder / "delete_controller").unlink()
    sysfs.delete(one)  # it was removed meanwhile


# ---- waiting ----


def test_wait(tmp_path: Path) -> None:
    with Waiter() as waiter:
        threading.Timer(0.2, (tmp_path / "there").touch).start()
        there = waiter.until(lambda: (tmp_path / "there").exists() or None, 60)
        assert there
        assert waiter.until(lambda: None, 0.01) is None
        assert waiter.until(lambda: None, 60, give_up=lambda: True) is None
