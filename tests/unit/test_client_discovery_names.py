# SPDX-License-Identifier: BSD-3-Clause
"""Discovery services that have a unique NQN beside the well-known one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvmf.initiator import TransportId, discover_all
from nvmf.initiator.discovery.log import address_key
from nvmf.spec.fabrics import DiscoveryEntry, EntryFlags, encode_discovery_log
from nvmf.spec.nqn import DISCOVERY_NQN


async def test_a_referral_back_by_the_unique_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that names itself in its log is not asked again by that name; others are."""
    own, other = "nqn.2026-01.example:own", "nqn.2026-01.example:other"
    here = DiscoveryEntry(traddr="192.0.2.1", trsvcid="1000", eflags=EntryFlags.DUPLICATE)
    there = replace(here, trsvcid="1001", subnqn=DISCOVERY_NQN)
    found = {
        "1000": [
            replace(here, subtype=3, subnqn=own),
            replace(there, subtype=3, subnqn=other),  # which it cannot say
            replace(there, subtype=1),
        ],
        "1001": [replace(here, subtype=1, subnqn=own), replace(there, subtype=1, subnqn=other)],
    }
    asked = []

    async def raw(place: TransportId, options: object, most: int) -> bytes:
        asked.append((place.trsvcid, place.subnqn))
        return encode_discovery_log(1, found[place.trsvcid])

    monkeypatch.setattr("nvmf.initiator.discovery.referrals.raw_log", raw)
    async for _ in discover_all("nvme+rdma://192.0.2.1:1000", depth=3):
        pass
    assert asked == [("1000", DISCOVERY_NQN), ("1001", DISCOVERY_NQN), ("1001", other)]


async def test_an_address_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log may have 65,535 records, and parsing is most of the work for a referral."""
    count = 100
    here = DiscoveryEntry(traddr="192.0.2.1", trsvcid="1000", subtype=3)
    log = [replace(here, subnqn=f"nqn.2026-01.example:{number}") for number in range(count)]
    log += [replace(here, traddr=f"192.0.2.{number}", subtype=1) for number in range(2, 102)]
    parsed = 0

    def counted(place: TransportId) -> tuple[str, str]:
        nonlocal parsed
        parsed += 1
        return address_key(place)

    async def raw(place: TransportId, options: object, most: int) -> bytes:
        return encode_discovery_log(1, log if place.traddr == "192.0.2.1" else [])

    monkeypatch.setattr("nvmf.initiator.discovery.referrals.raw_log", raw)
    monkeypatch.setattr("nvmf.initiator.discovery.referrals.address_key", counted)
    found = [log async for log in discover_all("nvme+rdma://192.0.2.1:1000", depth=1)]
    assert len(found) == 101
    # the start, each service that is asked; each record as one of its own, or as a referral
    assert parsed <= 1 + len(found) + 3 * count
