# SPDX-License-Identifier: BSD-3-Clause
"""The doctor, on simulated machines made of files, and on the present one."""

from __future__ import annotations

import json
import resource
import socket
from pathlib import Path
from typing import Any

import pytest

from nvmf.auth import Key
from nvmf.cli.app import run
from nvmf.config.models import Config
from nvmf.doctor import (
    Finding,
    Level,
    Machine,
    examine,
    limits,
    network,
    rdma,
    service,
    storage,
)
from nvmf.doctor.machine import Interface
from support.described import Described, config, levels, only

IB = "/sys/class/infiniband/rxe0"
RXE = {f"{IB}/ports/1/state": "4: ACTIVE\n", f"{IB}/ports/1/gid_attrs/ndevs/0": "eth0\n"}


def test_no_device(tmp_path: Path) -> None:
    machine = Described(tmp_path)
    assert only(rdma.devices(machine, None)).level is Level.NOTE
    found = only(rdma.devices(machine, config()))
    assert found.level is Level.PROBLEM
    assert "rdma link add" in found.remedy


def test_devices(tmp_path: Path) -> None:
    up = Described(tmp_path / "up", files=RXE)
    assert only(rdma.devices(up, None)).text == "RDMA device rxe0 port 1 on eth0 is up"
    down = Described(tmp_path / "down", files={**RXE, f"{IB}/ports/1/state": "1: DOWN"})
    found = only(rdma.devices(down, None))
    assert found.level is Level.WARNING
    assert "1: DOWN" in found.text
    assert "ip link set eth0 up" in found.remedy


def test_port_off_the_device(tmp_path: Path) -> None:
    elsewhere = Interface("eth1", 1500, True, ("192.0.2.1",))
    found = only(rdma.ports(Described(tmp_path, files=RXE, links=[elsewhere]), config()))
    assert found.level is Level.PROBLEM
    assert "eth1 has no RDMA device" in found.text
    right = Interface("eth0", 1500, True, ("192.0.2.1",))
    assert not list(rdma.ports(Described(tmp_path, links=[right]), config()))


def test_modules(tmp_path: Path) -> None:
    missing = list(rdma.modules(Described(tmp_path / "without"), config()))
    assert levels(missing) == [Level.PROBLEM, Level.PROBLEM, Level.NOTE]
    files = {f"/sys/module/{name}/refcnt": "0" for name in ("ib_uverbs", "rdma_ucm", "nvme_rdma")}
    files |= {"/dev/infiniband/rdma_cm": "", "/dev/nvme-fabrics": ""}
    loaded = list(rdma.modules(Described(tmp_path / "with", files=files), config()))
    assert levels(loaded) == [Level.OK] * 3


def test_memlock(tmp_path: Path) -> None:
    def level(soft: int | None, wanted: Config | None) -> Level:
        return only(limits.memlock(Described(tmp_path, soft=soft), wanted)).level

    assert level(None, config()) is Level.OK
    assert level(8 << 20, config()) is Level.PROBLEM
    assert level(8 << 20, None) is Level.NOTE
    assert level(1 << 30, config()) is Level.OK


def test_limits(tmp_path: Path) -> None:
    files = {"/proc/meminfo": "MemAvailable: 1048576 kB\nHugePages_Free: 3\nHugepagesize: 2048 kB"}
    machine = Described(tmp_path, files=files, soft=1024)
    ram = {"nsid": 1, "store": "ram", "size": "8GiB"}
    wanted = config(
        subsystem=[{"nqn": "nqn.2026-11.io.example:a", "namespace": [ram]}],
        target={"reactors": 3},
    )
    assert machine.memory["MemAvailable"] == 1 << 30
    found = only(limits.memory(machine, wanted))
    assert found.level is Level.WARNING
    assert "only 1.0 GiB are available" in found.text
    assert only(limits.files(machine, wanted)).level is Level.WARNING
    assert only(limits.files(Described(tmp_path, soft=1 << 20), wanted)).level is Level.OK
    assert only(limits.huge_pages(machine, wanted)).level is Level.NOTE
    assert only(limits.processors(machine, wanted)).level is Level.WARNING
    pinned = config(target={"reactors": 1, "cpus": [7]})
    assert only(limits.processors(machine, pinned)).level is Level.PROBLEM


def test_io_uring(tmp_path: Path) -> None:
    files = {"/proc/sys/kernel/io_uring_disabled": "2\n"}
    assert only(limits.io_uring(Described(tmp_path, files=files), None)).level is Level.WARNING
    assert not list(limits.io_uring(Described(tmp_path / "old"), None))


def test_socket_buffers(tmp_path: Path) -> None:
    files = {
        "/proc/sys/net/core/rmem_max": "212992\n",
        "/proc/sys/net/core/wmem_max": "8388608\n",
    }
    machine = Described(tmp_path, files=files)
    wanted = config(port=[{"traddr": "10.0.0.1", "trsvcid": 4420, "device": "roce"}])
    receive, send = limits.socket_buffers(machine, wanted)
    assert receive.level is Level.WARNING
    assert "limited to 208 KiB" in receive.text
    assert "net.core.rmem_max=8388608" in receive.remedy
    assert send.level is Level.OK
    iwarp = config(port=[{"traddr": "10.0.0.1", "trsvcid": 4420, "device": "iwarp"}])
    assert not list(limits.socket_buffers(machine, iwarp))
    assert not list(limits.socket_buffers(machine, None))


def test_addresses() -> None:
    machine = Machine()
    found = only(network.addresses(machine, config()))
    assert found.level is Level.PROBLEM
    assert "192.0.2.1 is not an address of this machine" in found.text
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        port = {"traddr": "127.0.0.1", "trsvcid": number, "device": "iwarp"}
        found = only(network.addresses(machine, config(port=[port])))
        assert found.level is Level.WARNING
        assert f"port 127.0.0.1:{number} is in use" in found.text


def test_mtu(tmp_path: Path) -> None:
    def found(size: int, up: bool = True) -> Finding:
        link = Interface("eth0", size, up, ("192.0.2.1",))
        return only(network.mtu(Described(tmp_path, links=[link]), config()))

    assert found(9000).level is Level.OK
    assert "mtu 9000" in found(1500).remedy
    assert found(1500, up=False).level is Level.PROBLEM


@pytest.mark.parametrize(
    ("rules", "level"),
    [
        ("chain input { type filter hook input priority 0; policy drop;\n}", Level.WARNING),
        (
            "chain input { type filter hook input priority 0; policy drop;\ntcp dport 4420 accept}",
            Level.OK,
        ),
        ("chain input { type filter hook input priority 0; policy accept;\n}", Level.OK),
        ("", Level.OK),
    ],
)
def test_firewall(tmp_path: Path, rules: str, level: Level) -> None:
    machine = Described(tmp_path, programs={"nft": rules})
    assert only(network.firewall(machine, config())).level is level
    hidden = Described(tmp_path, programs={"nft": rules}, is_root=False)
    assert only(network.firewall(hidden, config())).level is Level.NOTE


def test_names_of_host_files(tmp_path: Path) -> None:
    files = {"/etc/nvme/discovery.conf": "-t rdma -a nowhere.invalid\n-t rdma -a 127.0.0.1\n"}
    found = list(network.names(Described(tmp_path, files=files), None))[1:]
    assert "nowhere.invalid" in only(found).text
    broken = Described(tmp_path / "broken", files={"/etc/nvme/hostid": "7\n"})
    assert "hostid:1:" in list(network.names(broken, None))[1].text


@pytest.mark.parametrize(
    ("said", "level"), [("yes\n", Level.OK), ("no\n", Level.WARNING), ("", Level.NOTE)]
)
def test_clock(tmp_path: Path, said: str, level: Level) -> None:
    machine = Described(tmp_path, programs={"timedatectl": said})
    assert next(iter(network.clock(machine, None))).level is level


def test_storage(tmp_path: Path) -> None:
    def found(**namespace: Any) -> Finding:
        one = {"nsid": 1, "store": "file", **namespace}
        subsystem = {"nqn": "nqn.2026-11.io.example:a", "namespace": [one]}
        return only(storage.stores(Machine(), config(subsystem=[subsystem])))

    there = tmp_path / "disk"
    there.write_bytes(bytes(4096))
    assert found(path=str(there)).level is Level.OK
    missing = found(path=str(tmp_path / "gone"), size="1GiB")
    assert missing.level is Level.PROBLEM
    assert "truncate -s 1073741824" in missing.remedy
    assert found(path=str(tmp_path)).level is Level.PROBLEM
    device = found(path="/dev/no-such-device", size="1GiB")
    assert device.level is Level.PROBLEM
    assert "truncate" not in device.remedy
    assert "lsblk" in device.remedy
    assert "Capacity Exceeded" in found(path=str(there), size="4096TiB").text


def test_the_state_folder(tmp_path: Path) -> None:
    def found(folder: Path) -> Finding:
        return only(service.state(Machine(), config(target={"state_dir": str(folder)})))

    assert list(service.state(Machine(), config())) == []
    assert found(tmp_path).level is Level.OK
    assert found(tmp_path / "to" / "be" / "made").level is Level.OK
    assert not (tmp_path / "to").exists()
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        assert found(wrong).level is Level.PROBLEM
        assert "file is not a folder" in found(wrong).text


def test_keys(tmp_path: Path) -> None:
    path = tmp_path / "host.key"
    host = {"nqn": "nqn.2026-11.io.example:h", "dhchap_key_file": str(path)}
    wanted = config(subsystem=[{"nqn": "nqn.2026-11.io.example:a", "host": [host]}])

    def found() -> Finding:
        return only(service.keys(Machine(), wanted))

    assert found().level is Level.PROBLEM
    assert "gen-dhchap-key" in found().remedy
    path.touch(0o600)
    path.write_text(Key.generate().text())
    assert found().level is Level.OK
    path.chmod(0o644)
    assert found().remedy == f"chmod 0600 {path}"
    path.write_text("DHHC-1:00:x")
    assert found().level is Level.PROBLEM


def test_the_place_of_the_metrics() -> None:
    def found(port: int, **more: Any) -> Finding:
        wanted = config(metrics={"enabled": True, "port": port}, **more)
        return only(service.metrics(Machine(), wanted))

    assert list(service.metrics(Machine(), config())) == []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert found(port).level is Level.WARNING
    assert found(0).level is Level.OK


def test_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {finding.check for finding in examine()} >= {"devices", "modules", "memlock", "clock"}
    assert Machine().limit(resource.RLIMIT_NOFILE) != 0
    file = tmp_path / "target.toml"
    file.write_text('[[port]]\ntraddr = "192.0.2.1"\n')
    assert run(["doctor", str(file), "-o", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["well"] is False
    assert any("192.0.2.1 is not an address" in finding["text"] for finding in report["findings"])
    assert run(["doctor", str(file)]) == 1
    assert (
        "problem  addresses: 192.0.2.1 is not an address of this machine" in capsys.readouterr().out
    )


def test_wrong_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "target.toml"
    file.write_text("[target]\nreactors = 0\n")
    assert run(["doctor", str(file)]) == 1
    assert "reactors" in capsys.readouterr().err
