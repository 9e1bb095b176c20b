# SPDX-License-Identifier: BSD-3-Clause
"""`config check` and `doctor` examine the files of a mirror's legs, and of bdevs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nvmf.auth import Key
from nvmf.config import advice
from nvmf.config.models import Config
from nvmf.doctor import Level, Machine, service, storage
from support.described import config

NQN = "nqn.2026-11.io.example:a"


def mirror(tmp_path: Path) -> Config:
    legs = [
        {"path": str(tmp_path / "leg")},
        {"url": f"nvme+rdma://192.0.2.1/{NQN}", "dhchap_key_file": str(tmp_path / "key")},
    ]
    namespace = {"nsid": 1, "store": "mirror", "leg": legs}
    subsystem = {"nqn": NQN, "allow_any_host": True, "namespace": [namespace]}
    return config(subsystem=[subsystem])


def test_files_of_legs(tmp_path: Path) -> None:
    wanted = mirror(tmp_path)
    assert advice(wanted) == [
        f"{tmp_path / 'leg'} (leg of namespace 1 of {NQN}) does not exist",
        f"{tmp_path / 'key'} (key of leg nvme+rdma://192.0.2.1/{NQN}#1 of namespace 1 of {NQN}) "
        "does not exist",
    ]
    for check, text in ((storage.stores, "leg"), (service.keys, "key")):
        (found,) = check(Machine(), wanted)
        assert found.level is Level.PROBLEM
        assert str(tmp_path / text) in found.text
    (tmp_path / "leg").write_bytes(bytes(1 << 20))
    (tmp_path / "key").touch(0o600)
    (tmp_path / "key").write_text(Key.generate().text())
    assert advice(wanted) == []
    for check in (storage.stores, service.keys):
        (found,) = check(Machine(), wanted)
        assert found.level is Level.OK


def test_the_file_of_a_bdev(tmp_path: Path) -> None:
    bdev = {"name": "aio0", "store": "file", "path": str(tmp_path / "gone")}
    (found,) = storage.stores(Machine(), config(bdev=[bdev]))
    assert found.level is Level.PROBLEM
    assert "bdev aio0" in found.text


@pytest.mark.parametrize("kind", ["directory", "pipe", "device"])
def test_kinds_of_files_that_are_no_storage(tmp_path: Path, kind: str) -> None:
    """A pipe is not opened: that may take forever."""
    os.mkfifo(tmp_path / "pipe")
    path = {"directory": tmp_path, "pipe": tmp_path / "pipe", "device": Path("/dev/null")}[kind]
    one: dict[str, Any] = {"nsid": 1, "store": "file", "path": str(path), "read_only": True}
    wanted = config(subsystem=[{"nqn": NQN, "namespace": [one]}])
    (found,) = storage.stores(Machine(), wanted)
    assert found.level is Level.PROBLEM
    assert kind in found.text
    assert found.remedy == "Correct the path."
