# SPDX-License-Identifier: BSD-3-Clause
"""Announcements of discovery services: their content, and invalid ones; then on a real network."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeroconf import ServiceStateChange
from zeroconf._dns import DNSPointer
from zeroconf.asyncio import AsyncZeroconf
from zeroconf.const import _CLASS_IN, _TYPE_PTR

from nvmf.initiator import connect
from nvmf.initiator.discovery.mdns import Service, _Browser, services_of
from nvmf.spec.dnssd import (
    TCP_TYPE,
    UDP_TYPE,
    parse_text_record,
    service_type,
    text_record,
    transport_of,
)
from nvmf.spec.fabrics import RdmaProvider
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.target import serve
from nvmf.target.client import connect_sync
from nvmf.target.commands.discovery import Port
from nvmf.target.service import mdns
from nvmf.target.service.mdns import addresses_of, system_protocol
from support.clientlab import RAM, config
from support.roce import own_address
from support.served import Served
from support.serverlab import until

NQN = "nqn.2014-08.org.example:discovery"
ADDRESS = "10.77.99.1"
SECOND = "10.77.98.1"


def test_types_and_texts() -> None:
    assert [service_type(kind) for kind in ("tcp", "iwarp", "roce")] == [
        TCP_TYPE,
        TCP_TYPE,
        UDP_TYPE,
    ]
    assert text_record("iwarp", NQN) == {"p": "iwarp", "nqn": NQN}
    for protocol, transport in (("tcp", "tcp"), ("iwarp", "rdma"), ("RoCE", "rdma")):
        record: dict[bytes, bytes | None] = {b"P": protocol.encode(), b"NQN": NQN.encode()}
        assert parse_text_record(record) == (protocol.lower(), NQN)
        assert transport_of(protocol.lower()) == transport
    assert parse_text_record({b"p": b"rdma", b"other": None}) == ("rdma", DISCOVERY_NQN)


def test_an_announcement_of_two_addresses() -> None:
    record: dict[bytes, bytes | None] = {b"p": b"iwarp"}
    addresses = ["192.0.2.1", "0.0.0.0", "fe80::1%2", "ff02::1"]
    assert services_of("n", record, addresses, 4420) == [
        Service("n", "rdma", "192.0.2.1", "4420", DISCOVERY_NQN, "iwarp"),
        Service("n", "rdma", "fe80::1%2", "4420", DISCOVERY_NQN, "iwarp"),
    ]


async def test_the_protocol_of_an_announcement_chooses_roce() -> None:
    """A client that follows it uses the embedded device that speaks the protocol."""
    async with serve(ram="1MiB", device="roce", traddr=own_address()) as target:
        address, port = target.ports[0]
        [service] = services_of("n", {b"p": b"RoCE"}, [address], port)
        async with connect(service.where, connect_timeout=60.0) as controller:
            device = controller.device
    if device == "system":
        pytest.skip("a device of the system reaches the address, and comes first")
    assert device == "roce"
    for protocol, embedded in ((b"iwarp", "iwarp"), (b"rdma", None), (b"tcp", None)):
        [service] = services_of("n", {b"p": protocol}, ["192.0.2.1"], 4420)
        assert service.where.embedded == embedded


@pytest.mark.parametrize(
    ("record", "addresses", "port", "said"),
    [
        ({}, ["192.0.2.1"], 4420, r"its protocol is 'missing' \(p=\), not tcp, iwarp or roce"),
        ({b"p": None}, ["192.0.2.1"], 4420, "its protocol is ''"),
        ({b"p": b"\xff"}, ["192.0.2.1"], 4420, r"its protocol is '\\\\xff'"),
        ({b"p": b"tcp", b"nqn": b""}, ["192.0.2.1"], 4420, "the NQN is empty"),
        ({b"p": b"tcp", b"nqn": b"nqn.\x1b"}, ["192.0.2.1"], 4420, "control character"),
        ({b"p": b"tcp"}, [], 4420, "it has no address"),
        ({b"p": b"tcp"}, ["::"], 4420, "it has no address"),
        ({b"p": b"tcp"}, ["192.0.2.1"], 0, "its port is 0"),
        ({b"p": b"tcp"}, ["192.0.2.1"], None, "its port is None"),
    ],
)
def test_rubbish(record: dict[bytes, Any], addresses: list[str], port: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        services_of("n", record, addresses, port)


@given(st.dictionaries(st.binary(max_size=5) | st.just(b"p"), st.none() | st.binary(max_size=30)))
def test_any_record(record: dict[bytes, bytes | None]) -> None:
    """Invariant: a TXT record is understood, or refused with a sentence."""
    try:
        protocol, nqn = parse_text_record(record)
    except ValueError as error:
        said = str(error)
    else:
        said = nqn
        assert transport_of(protocol) in ("tcp", "rdma")
    assert said


class Network:
    """The announcements of an Announcer, on a machine whose addresses cannot be listed at times."""

    def __init__(self) -> None:
        self.ports: list[int | None] = []
        self.fails = False
        self.failures = 0

    def addresses(self, version: int | None = None) -> list[str]:
        if self.fails:
            self.failures += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return [ADDRESS]

    async def async_register_service(self, info: Any) -> None:
        self.ports.append(info.port)

    async def async_update_interfaces(self, addresses: list[str]) -> None: ...
    async def async_close(self) -> None: ...


@pytest.mark.feature("mdns")
async def test_a_moment_without_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports that are opened after it are announced."""
    network = Network()
    monkeypatch.setattr(mdns, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(mdns, "outward_addresses", network.addresses)
    monkeypatch.setattr(mdns, "open_mdns", lambda _: network)
    announcer = mdns.Announcer("n", NQN, lambda: "roce")
    announcer.follow([Port(1, ADDRESS, 4420)])
    await until(lambda: network.ports == [4420])
    network.fails = True
    await until(lambda: network.failures > 1)
    network.fails = False
    announcer.follow([Port(1, ADDRESS, 4420), Port(2, ADDRESS, 4421)])
    await until(lambda: network.ports == [4420, 4421])
    await announcer.close()


async def test_a_network_that_refuses_every_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The target does not rename itself without end, and is announced when that has ended."""
    caplog.set_level("INFO")
    network = AsyncZeroconf(interfaces=["127.0.0.1"])
    loop, probe = asyncio.get_running_loop(), network.zeroconf.generate_service_query
    names: list[str] = []
    hostile = True

    def answered(info: Any) -> Any:
        names.append(info.name)
        if hostile:
            claim = DNSPointer(info.type, _TYPE_PTR, _CLASS_IN, 4500, info.name)
            loop.call_soon(network.zeroconf.cache.async_add_records, [claim])
            loop.call_soon(network.zeroconf.async_notify_all)
        return probe(info)

    monkeypatch.setattr(network.zeroconf, "generate_service_query", answered)
    monkeypatch.setattr(mdns, "outward_addresses", lambda _=None: [ADDRESS])
    monkeypatch.setattr(mdns, "open_mdns", lambda _: network)
    monkeypatch.setattr(network, "async_update_interfaces", AsyncMock())
    announcer = mdns.Announcer("n", NQN, lambda: "roce")
    announcer.follow([Port(1, ADDRESS, 4420)])
    await until(lambda: len(set(names)) > 15 or "others claim 15 names" in caplog.text)
    assert len(set(names)) == 15
    monkeypatch.setattr(mdns, "LOOK_SECONDS", 0.01)
    hostile = False
    announcer.follow([Port(1, ADDRESS, 4420)])
    await until(lambda: "mDNS: announced" in caplog.text)
    assert len(set(names)) == 16
    await announcer.close()


@pytest.mark.parametrize("name", ["pod-of-a-cluster-" * 3 + "7d9f4c5b6-x2x7", "h" * 63, "ä" * 40])
async def test_a_long_name(name: str) -> None:
    """A host name may have 63 characters; zeroconf sends nothing if a label is longer than that."""
    network = AsyncZeroconf(interfaces=["127.0.0.1"])
    names = set()
    for whole in (name, name[:-1] + "8"):
        info = mdns.Announcer(whole, NQN, lambda: "roce")._service(Port(1, ADDRESS, 65535))
        assert info is not None
        assert info.name.startswith(name[:12])
        names.add(info.name)
        assert network.zeroconf.generate_service_broadcast(info, None).packets()
    assert len(names) == 2
    await network.async_close()


@pytest.mark.feature("mdns")
def test_what_is_announced() -> None:
    assert addresses_of(Port(1, "127.0.0.1", 4420)) == []
    assert addresses_of(Port(1, "192.0.2.1", 4420, RdmaProvider.IWARP)) == ["192.0.2.1"]
    assert all(":" not in text for text in addresses_of(Port(1, "0.0.0.0", 4420)))
    assert system_protocol(["iWARP", "iWARP"]) == "iwarp"
    assert system_protocol(["InfiniBand"]) == "roce"
    assert system_protocol(["iWARP", "InfiniBand"]) is None
    assert system_protocol([]) is None


async def test_pointers_to_rubbish(caplog: pytest.LogCaptureFixture) -> None:
    """A PTR record may name something other than an instance, and there may be too many of them."""
    browser = _Browser(None)
    zeroconf: Any = None
    names = ["evil.other._tcp.local.", "", ".", f"\x1b[2J.{TCP_TYPE}", f"{'a' * 300}.{TCP_TYPE}"]
    for name in names:
        browser.changed(zeroconf, TCP_TYPE, name, ServiceStateChange.Added)
    for number in range(3000):
        name = f"{number}.{TCP_TYPE}"
        browser.changed(zeroconf, TCP_TYPE, name, ServiceStateChange.Added)
        browser.changed(zeroconf, TCP_TYPE, f"x{name}", ServiceStateChange.Removed)
    said = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["more than 1024 discovery services announce themselves"]
    await browser.close()
    assert browser.services == []


# ---- over multicast, in a network of its own ----

SET_UP = f"""
ip link set lo up multicast on &&
ip addr add {ADDRESS}/24 dev lo &&
ip route add 224.0.0.0/4 dev lo src {ADDRESS} &&
exec "$@"
"""


def in_a_network(set_up: str) -> list[str]:
    """Return the command that runs a command in a network namespace."""
    wrapper = ["unshare", "--net", "--", "sh", "-c", set_up, "sh"]
    try:
        done = subprocess.run(
            [*wrapper, "true"], capture_output=True, text=True, timeout=60, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare(1) to make a network with")
    if done.returncode:
        pytest.skip(f"no network of its own can be made here: {done.stderr.strip()}")
    return wrapper


@pytest.fixture
def network() -> list[str]:
    """A network namespace whose loopback device has multicast."""
    return in_a_network(SET_UP)


def test_nothing_to_browse(network: list[str]) -> None:
    argv = ["unshare", "--net", "--", sys.executable, "-m"]
    argv += ["nvmf.cli.main", "discover", "--mdns", "--wait", "1"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "mDNS: no network interface has an address reachable by other machines" in done.stderr


def browse(served: Served, *args: str) -> list[dict[str, str]]:
    """Return the services that `nvmeof discover --mdns` finds in a target's network namespace."""
    argv = ["nsenter", "-t", str(served.process.pid), "--net", "--", sys.executable, "-m"]
    argv += ["nvmf.cli.main", "discover", "--mdns", "-o", "json", *args]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    found: list[dict[str, str]] = json.loads(done.stdout)["services"]
    return found


def reload(served: Served, text: str) -> None:
    """Write a different configuration, and reload it."""
    done = served.log.count(": 1 announcement (mDNS) changed")
    (served.folder / "target.toml").write_text(text)
    served.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 120
    while served.log.count(": 1 announcement (mDNS) changed") == done:
        assert time.monotonic() < end, served.log
        time.sleep(0.05)


@pytest.mark.feature("mdns")
def test_announced_and_found(network: list[str], tmp_path: Path) -> None:
    """The target is not announced at first; a request enables it, and a reload of the file disables
    it.
    """
    text = f'[mdns]\nenabled = false\nname = "lab"\n[target]\ndiscovery_nqn = "{NQN}"\n'
    text += config(RAM) + f'[[port]]\ntraddr = "{ADDRESS}"\ntrsvcid = 4421\ndevice = "iwarp"\n'
    served = Served(tmp_path, text, wrapper=network).wait_ready()
    try:
        with connect_sync(served.rpc_socket) as rpc:
            assert rpc.announce() is True
        end = time.monotonic() + 120
        found = browse(served, "--wait", "2")
        while not found and time.monotonic() < end:  # announcing takes a second or more
            found = browse(served, "--wait", "5")
        assert found == [
            {
                "name": "lab-4421-6c48",
                "transport": "rdma",
                "traddr": ADDRESS,
                "trsvcid": "4421",
                "nqn": NQN,
                "protocol": "iwarp",
            }
        ], served.log
        assert "port 127.0.0.1 listens on loopback only: not announced" in served.log
        reload(served, text)
        assert browse(served, "--wait", "2") == []
    finally:
        assert served.end() == 0
    served.check_log()


def until_found(served: Served, *addresses: str) -> None:
    """Wait until exactly these addresses are announced for the port on every address."""
    same = {"name": "lab-4421-a2f1", "transport": "rdma", "trsvcid": "4421", "nqn": NQN}
    wanted = [same | {"traddr": one, "protocol": "iwarp"} for one in sorted(addresses)]
    end = time.monotonic() + 120
    while (found := browse(served, "--wait", "2")) != wanted:
        assert time.monotonic() < end, (found, served.log)


@pytest.mark.feature("mdns")
def test_addresses_that_come_and_go(network: list[str], tmp_path: Path) -> None:
    """A port on every address is announced with the addresses that exist."""
    port = '[[port]]\ntraddr = "0.0.0.0"\ntrsvcid = 4421\ndevice = "iwarp"\n'
    text = f'[mdns]\nenabled = true\nname = "lab"\n[target]\ndiscovery_nqn = "{NQN}"\n{port}'
    served = Served(tmp_path, text, wrapper=network).wait_ready()
    enter = ["nsenter", "-t", str(served.process.pid), "--net", "--", "ip", "addr"]
    try:
        until_found(served, ADDRESS)
        subprocess.run([*enter, "add", f"{SECOND}/24", "dev", "lo"], check=True, timeout=60)
        until_found(served, ADDRESS, SECOND)
        subprocess.run([*enter, "del", f"{SECOND}/24", "dev", "lo"], check=True, timeout=60)
        until_found(served, ADDRESS)
    finally:
        assert served.end() == 0
    served.check_log()


@pytest.mark.feature("mdns")
def test_two_of_one_name(network: list[str], tmp_path: Path) -> None:
    """Each of the two targets is found with its own addresses."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    def text(traddr: str) -> str:
        port = f'[[port]]\ntraddr = "{traddr}"\ntrsvcid = 4421\ndevice = "iwarp"\n'
        return f'[mdns]\nenabled = true\nname = "lab"\n{port}'

    with Served(tmp_path / "a", text(ADDRESS), wrapper=network) as one:
        one.wait_ready()
        enter = ["nsenter", "-t", str(one.process.pid), "--net", "--"]
        add = [*enter, "ip", "addr", "add", f"{SECOND}/24", "dev", "lo"]
        subprocess.run(add, check=True, timeout=60)
        end = time.monotonic() + 120
        while not browse(one, "--wait", "2"):
            assert time.monotonic() < end, one.log
        with Served(tmp_path / "b", text(SECOND), wrapper=enter) as other:
            other.wait_ready()
            while len(found := browse(one, "--wait", "2")) < 2:
                assert time.monotonic() < end, (found, other.log)
    assert {(service["name"], service["traddr"]) for service in found} == {
        ("lab-4421-6c48", ADDRESS),
        ("lab-4421-067f", SECOND),
    }


def test_no_network_to_announce_on(tmp_path: Path) -> None:
    """A target without a network still serves, and announces itself when there is one."""
    wrapper = in_a_network('ip link set lo up && exec "$@"')
    served = Served(tmp_path, "[mdns]\nenabled = true\n" + config(RAM), wrapper=wrapper)
    served.wait_ready()
    end = time.monotonic() + 60
    while "no network interface has an address" not in served.log and time.monotonic() < end:
        time.sleep(0.05)
    enter = ["nsenter", "-t", str(served.process.pid), "--net", "--", "ip"]
    subprocess.run([*enter, "addr", "add", f"{ADDRESS}/24", "dev", "lo"], check=True)
    while "port 127.0.0.1 listens on loopback only" not in served.log and time.monotonic() < end:
        time.sleep(0.05)
    assert served.end() == 0
    said = "cannot announce the discovery service: mDNS: no network interface"
    assert served.log.count(said) == 1
    assert "port 127.0.0.1 listens on loopback only: not announced" in served.log
