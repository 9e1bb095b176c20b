# SPDX-License-Identifier: BSD-3-Clause
"""The doctor has no problem with absent objects that a target waits for (hotplug = true)."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvmf.doctor import Level, Machine, network, rdma, roce, storage
from support.described import Described, config, levels


def test_an_absent_path(tmp_path: Path) -> None:
    """No command is proposed either: a file on the place of a mount would hide what is missing."""
    one = {"nsid": 1, "store": "file", "path": str(tmp_path / "gone"), "hotplug": True}
    subsystem = {"nqn": "nqn.2026-11.io.example:a", "namespace": [one]}
    (found,) = storage.stores(Machine(), config(subsystem=[subsystem]))
    assert (found.level, found.remedy) == (Level.NOTE, "")
    assert "gone: No such file or directory; the target waits for it" in found.text


@pytest.mark.parametrize("hotplug", [True, False])
def test_an_absent_address(tmp_path: Path, hotplug: bool) -> None:
    wanted = Level.NOTE if hotplug else Level.PROBLEM
    for device, check in (("iwarp", network.addresses), ("roce", roce.addresses)):
        port = {"traddr": "192.0.2.9", "trsvcid": 4420, "device": device, "hotplug": hotplug}
        assert levels(check(Machine(), config(port=[port]))) == [wanted]
    port = {"traddr": "192.0.2.9", "trsvcid": 4420, "device": "system", "hotplug": hotplug}
    assert levels(rdma.devices(Described(tmp_path), config(port=[port]))) == [wanted]
