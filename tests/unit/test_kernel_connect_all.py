# SPDX-License-Identifier: BSD-3-Clause
"""connect-all through the kernel, with a fake kernel made of files and given discovery logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nvmf.initiator.connecting import bykernel
from nvmf.initiator.connecting.bykernel import ByKernel, connect_found_by_kernel, start_of
from nvmf.initiator.connecting.everything import Outcome
from nvmf.initiator.discovery import referrals
from nvmf.initiator.kernel import sysfs
from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.host import Connected
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.kernel.system import System
from nvmf.spec.fabrics import (
    DiscoveryEntry,
    SubsystemType,
    TransportType,
    encode_discovery_log,
)
from nvmf.spec.nqn import DISCOVERY_NQN
from support.fakekernel import HOSTNQN, NQN, FakeKernel

WANTED = FabricsOptions(traddr="192.0.2.1", nqn=NQN, tos=3)
BAD = NQN + "3"
"""The fake kernel refuses to connect to it."""
Connections = list[FabricsOptions]


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Connections:
    """Replace the kernel's connect; return the list of its calls."""
    made: Connections = []

    def connect(options: FabricsOptions, system: System) -> Connected:
        if options.nqn == BAD:
            raise KernelError("refused")
        made.append(options)
        return Connected(sysfs.controllers(system)[0], [], [])

    monkeypatch.setattr(bykernel, "connect", connect)
    return made


def entry(traddr: str, nqn: str, **changes: Any) -> DiscoveryEntry:
    return DiscoveryEntry(traddr=traddr, trsvcid="4420", subnqn=nqn, **changes)


def referral(traddr: str) -> DiscoveryEntry:
    return entry(traddr, DISCOVERY_NQN, subtype=SubsystemType.REFERRAL)


def reader(logs: dict[str, list[DiscoveryEntry]]) -> Callable[[FabricsOptions, int], bytes]:
    """Return a reader of these logs, by address."""

    def read(options: FabricsOptions, most: int) -> bytes:
        if options.traddr not in logs:
            raise KernelError("nobody there")
        return encode_discovery_log(1, logs[options.traddr])

    return read


def shown(outcomes: list[Outcome[Connected]]) -> list[tuple[str, str, str]]:
    """Return address, NQN and result of each outcome."""
    return [
        (
            one.place.traddr,
            one.place.subnqn,
            "failed" if one.error else "skipped" if one.skipped else "connected",
        )
        for one in outcomes
    ]


def test_connect_all(kernel: FakeKernel, connected: Connections) -> None:
    """Referrals are followed, once each; other transports are skipped; failures are reported."""
    kernel.controller(0)
    other = NQN + "2"
    read = reader(
        {
            "192.0.2.1": [
                entry("192.0.2.1", NQN),
                entry("192.0.2.1", other),
                entry("192.0.2.1", other, trtype=TransportType.TCP),
                entry("192.0.2.1", DISCOVERY_NQN, subtype=SubsystemType.CURRENT_DISCOVERY),
                referral("192.0.2.2"),
                referral("192.0.2.3"),
                referral("192.0.2.4,tos=7"),
            ],
            "192.0.2.2": [
                entry("192.0.2.2", BAD),
                entry("192.0.2.2", f"{BAD},hostnqn=nqn.2014-08.org.example:somebody"),
                entry("192.0.2.2", "no\nNQN"),
                entry("192.0.2.2", "testnqn"),
                entry("192.0.2.1", other),
                referral("192.0.2.1"),
            ],
        }
    )
    by = ByKernel(read, kernel.system)
    outcomes = list(connect_found_by_kernel([start_of(WANTED, discovery=True)], by))
    assert shown(outcomes) == [
        ("192.0.2.1", NQN, "skipped"),
        ("192.0.2.1", other, "connected"),
        ("192.0.2.2", BAD, "failed"),
        ("192.0.2.2", f"{BAD},hostnqn=nqn.2014-08.org.example:somebody", "failed"),
        ("192.0.2.2", DISCOVERY_NQN, "failed"),
        ("192.0.2.2", "testnqn", "connected"),
        ("192.0.2.1", other, "skipped"),
        ("192.0.2.3", DISCOVERY_NQN, "failed"),
        ("192.0.2.4,tos=7", DISCOVERY_NQN, "failed"),
    ]
    assert outcomes[0].controller is not None
    assert outcomes[0].controller.controller.name == "nvme0"
    there = replace(WANTED, traddr="192.0.2.2", nqn="testnqn")
    assert connected == [replace(WANTED, nqn=other), there]
    said = [str(one.error) for one in outcomes if one.error]
    assert (said[0], said[3]) == ("refused", "nobody there")
    assert "the kernel does not accept" in said[1]
    assert r"'no\nNQN' contains a control character" in said[2]
    assert "cannot follow the referral: traddr: the kernel does not accept" in said[4]


def test_controllers_of_two_hosts(kernel: FakeKernel, connected: Connections) -> None:
    """A subsystem is connected once for each host NQN and source address; no log is read."""
    kernel.controller(0, subsysnqn=NQN + "9")
    hosts = [WANTED, replace(WANTED, hostnqn=HOSTNQN), replace(WANTED, host_traddr="192.0.2.9")]
    starts = [start_of(options, discovery=False) for options in (*hosts, WANTED)]
    outcomes = list(connect_found_by_kernel(starts, ByKernel(reader({}), kernel.system)))
    assert [result for _, _, result in shown(outcomes)] == ["connected"] * 3 + ["skipped"]
    assert connected == hosts


def test_a_second_service_at_the_same_port(kernel: FakeKernel) -> None:
    """It is asked by its own NQN."""
    asked: list[str] = []

    def read(options: FabricsOptions, most: int) -> bytes:
        asked.append(options.nqn)
        return encode_discovery_log(1, [replace(referral(WANTED.traddr), subnqn=NQN)])

    starts = [start_of(WANTED, discovery=True)]
    assert not list(connect_found_by_kernel(starts, ByKernel(read, kernel.system)))
    assert asked == [DISCOVERY_NQN, NQN]


def test_referrals_without_end(kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Referrals are followed up to a limit, which is reported; a port that the user names is always
    asked.
    """
    monkeypatch.setattr(referrals, "MAX_LOGS", 3)
    asked: list[str] = []

    def read(options: FabricsOptions, most: int) -> bytes:
        asked.append(options.traddr)
        number = len(asked)
        return encode_discovery_log(1, [referral(f"192.0.2.{10 * number + n}") for n in range(4)])

    by = ByKernel(read, kernel.system)
    last = replace(WANTED, traddr="192.0.2.200")
    starts = [start_of(WANTED, discovery=True), start_of(last, discovery=True)]
    outcomes = list(connect_found_by_kernel(starts, by))
    assert asked == [
        *(WANTED.traddr, "192.0.2.10", "192.0.2.11"),
        *("192.0.2.200", "192.0.2.40", "192.0.2.41"),
    ]
    assert [one.place.traddr for one in outcomes] == ["192.0.2.12", "192.0.2.42"]
    assert {str(one.error) for one in outcomes} == {
        "this referral and later ones are not followed: the logs of 3 services were read"
    }
