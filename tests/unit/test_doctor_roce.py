# SPDX-License-Identifier: BSD-3-Clause
"""The doctor on UDP port 4791 of an address: who has it, and who shares it."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from nvmf.doctor import Level, Machine, network, roce
from nvmf.doctor.machine import Interface
from support.described import Described, config, only

ROCE_PORT = {"traddr": "127.0.0.43", "trsvcid": 4420, "device": "roce"}


def test_roce_addresses() -> None:
    """The device needs UDP port 4791 of the address, whatever its trsvcid; TCP sockets are
    irrelevant.
    """
    machine, wanted = Machine(), config(port=[ROCE_PORT, {**ROCE_PORT, "trsvcid": 4421}])
    assert not list(network.addresses(machine, wanted))
    found = only(roce.addresses(machine, wanted))
    assert (found.level, found.text) == (
        Level.OK,
        "UDP port 4791 of 127.0.0.43, for RoCEv2, is free",
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.43", 4791))
        found = only(roce.addresses(machine, wanted))
        assert found.level is Level.WARNING
        assert f"is in use by process {os.getpid()} (" in found.text
        assert "on 127.0.0.43" in found.text
    found = only(roce.addresses(machine, config(port=[{**ROCE_PORT, "traddr": "192.0.2.1"}])))
    assert found.text == "192.0.2.1 is not an address of this machine"


def test_roce_everywhere(tmp_path: Path) -> None:
    """An unspecified address stands for those that the machine has."""
    links = [Interface("lo", 65536, True, ("127.0.0.44", "127.0.0.45", "::1", "fe80::1"))]
    wanted = config(port=[{**ROCE_PORT, "traddr": "0.0.0.0"}])
    found = list(roce.addresses(Described(tmp_path, links=links), wanted))
    assert [one.text.split()[4] for one in found] == ["127.0.0.44,", "127.0.0.45,"]


@pytest.mark.parametrize(
    ("is_root", "modules", "words"),
    [
        (True, ("rdma_rxe",), "is in use by the kernel's rxe (module rdma_rxe)"),
        (False, ("rdma_rxe",), "probably by the kernel's rxe (module rdma_rxe is loaded) or"),
        (False, (), "probably by another user"),
        (True, (), "the kernel or a process in a different PID namespace"),
    ],
)
def test_roce_port_of_the_kernel(
    tmp_path: Path, is_root: bool, modules: tuple[str, ...], words: str
) -> None:
    """rxe has the port on every address, with a socket that belongs to no process."""
    line = "  7: {} 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 4711 2 0 0\n"
    files = {"/proc/net/udp": "head\n" + line.format("00000000:12B7"), "/proc/1/comm": "init\n"}
    files |= {f"/sys/module/{name}/refcnt": "0" for name in modules}
    machine = Described(tmp_path, files=files, is_root=is_root)
    assert roce.holder(machine, "127.0.0.43") == roce.Holder("0.0.0.0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.43", 4791))
        found = only(roce.addresses(machine, config(port=[ROCE_PORT])))
    assert found.level is Level.PROBLEM
    assert words in found.text


ROLES = {
    10: ("nvmeof", "/usr/bin/python3\0/usr/bin/nvmeof\0target\0serve\0x.toml", "A=b"),
    11: ("python3", "python3\0-m\0nvmf.cli.main\0read\0nvme+rdma://127.0.0.43", ""),
    12: ("ib_send_bw", "ib_send_bw\0-R", "A=b\0LD_PRELOAD=/usr/lib/libnvmf-verbs.so"),
    13: ("fio", "fio\0job.fio", ""),
    14: ("python3", "python3\0program.py", ""),
}


def test_roce_roles(tmp_path: Path) -> None:
    """All processes that share an address, with what they do there."""
    line = (
        " 7: 2B00007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 {} 2 0 0\n"
    )
    if sys.byteorder == "big":
        line = line.replace("2B00007F", "7F00002B")
    files = {"/proc/net/udp": "head\n" + line.format(4711) + line.format(4712)}
    files["/proc/net/unix"] = f"head\n0: 1 0 1 0001 01 1 @nvmf-roce.{os.geteuid()}.127.0.0.43\n"
    for pid, (name, words, environment) in ROLES.items():
        files |= {f"/proc/{pid}/comm": name, f"/proc/{pid}/cmdline": words}
        files[f"/proc/{pid}/environ"] = environment
    machine = Described(tmp_path, files=files)
    for pid in ROLES:
        machine.path(f"/proc/{pid}/fd").mkdir()
        machine.path(f"/proc/{pid}/fd/3").symlink_to(f"socket:[{4711 + pid % 2}]")
    assert [str(one) for one in roce.holders(machine)] == [
        "processes 10 (nvmeof, target), 11 (python3, host), 12 (ib_send_bw, verbs program), "
        "13 (fio, host) and 14 (python3)"
    ]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.43", 4791))
        found = only(roce.addresses(machine, config(port=[ROCE_PORT])))
    assert found.level is Level.OK
    assert found.text.endswith("14 (python3), which share it with this user's")
