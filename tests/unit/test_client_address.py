# SPDX-License-Identifier: BSD-3-Clause
"""A controller's address, connect options and the host's identity: their forms, and refusals."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

import nvmf.initiator
import nvmf.initiator.sync
from nvmf.initiator import ConnectOptions, TransportId
from nvmf.initiator.base import identity
from nvmf.initiator.base.identity import HostIdentity, host_identity
from nvmf.spec.nqn import DISCOVERY_NQN

NQN = "nqn.2026-01.example:disk"
UUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
UUID_NQN = f"nqn.2014-08.org.nvmexpress:uuid:{UUID}"


@pytest.mark.parametrize(
    ("text", "traddr", "trsvcid", "nqn"),
    [
        (f"nvme+rdma://192.0.2.1:4421/{NQN}", "192.0.2.1", "4421", NQN),
        (f"nvme+rdma://host.example/{NQN}", "host.example", "4420", NQN),
        (f"nvme+rdma://[2001:db8::1]:5000/{NQN}", "2001:db8::1", "5000", NQN),
        (f"nvme+rdma://[fe80::1%25eth0]/{NQN}", "fe80::1%eth0", "4420", NQN),
        ("nvme+rdma://192.0.2.1", "192.0.2.1", "4420", DISCOVERY_NQN),
        ("nvme+rdma://192.0.2.1/", "192.0.2.1", "4420", DISCOVERY_NQN),
        ("nvme+rdma://h/nqn.2026-01.example:a%3Fb/c", "h", "4420", "nqn.2026-01.example:a?b/c"),
    ],
)
def test_url(text: str, traddr: str, trsvcid: str, nqn: str) -> None:
    place = TransportId.parse(text)
    assert (place.traddr, place.trsvcid, place.subnqn) == (traddr, trsvcid, nqn)
    assert TransportId.parse(str(place)) == place


def test_url_options() -> None:
    place = TransportId.parse(
        f"nvme+rdma://h/{NQN}?queues=2&kato=1.5&disable_sqflow=yes&in_capsule=no&device=iwarp"
    )
    assert place.options == {
        "queues": 2,
        "kato": 1.5,
        "disable_sqflow": True,
        "in_capsule": False,
        "device": "iwarp",
    }
    options = ConnectOptions().with_options(place.options)
    assert (options.queues, options.kato_ms, options.disable_sqflow) == (2, 1500, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nvme+tcp://h/x", "is not of the form"),
        ("192.0.2.1", "is not of the form"),
        ("nvme+rdma:///x", "has no host"),
        ("nvme+rdma://h:99999/x", "a port is 1 to 65535"),
        ("nvme+rdma://h:0/" + NQN, "1 to 65535"),
        ("nvme+rdma://h/%01", "control character"),
        ("nvme+rdma://u:p@h/" + NQN, "means nothing"),
        ("nvme+rdma://h/" + NQN + "?queues=many", "queues: expected a whole number"),
        ("nvme+rdma://h/" + NQN + "?kato=x", "kato: expected a number"),
        ("nvme+rdma://h/" + NQN + "?in_capsule=maybe", "in_capsule: expected yes or no"),
        ("nvme+rdma://h/" + NQN + "?queues", "NAME=VALUE"),
    ],
)
def test_bad_url(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TransportId.parse(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"speed": 1}, "no option 'speed'"),
        ({"queues": 0}, "queues is 1 to 65535, not 0"),
        ({"queue_depth": 1}, "queue_depth"),
        ({"kato": -1}, "kato"),
        ({"reconnect_delay": 0}, "reconnect_delay"),
        ({"ctrl_loss_tmo": -2}, "ctrl_loss_tmo"),
        ({"io_timeout": 0}, "io_timeout"),
        ({"device": "tcp"}, "auto, iwarp, roce or system"),
    ],
)
def test_bad_options(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ConnectOptions().with_options(options)


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of /etc/nvme."""
    monkeypatch.setattr(identity, "HOSTNQN_FILE", tmp_path / "hostnqn")
    monkeypatch.setattr(identity, "HOSTID_FILE", tmp_path / "hostid")
    monkeypatch.setattr(identity, "MACHINE_ID_FILE", tmp_path / "machine-id")
    identity._made.cache_clear()
    return tmp_path


def test_identity_from_files(etc: Path) -> None:
    (etc / "hostnqn").write_text(f"{NQN}\n")
    (etc / "hostid").write_text(f"{UUID}\n")
    assert host_identity() == HostIdentity(NQN, UUID)
    other = host_identity("nqn.2026-01.example:other")
    assert other.nqn == "nqn.2026-01.example:other"
    assert other.id != UUID, "the identifier of the files belongs to their NQN"


def test_identity_of_a_uuid_nqn(etc: Path) -> None:
    (etc / "hostnqn").write_text(UUID_NQN)
    assert host_identity() == HostIdentity(UUID_NQN, UUID)
    assert host_identity(None, str(UUID)) == HostIdentity(UUID_NQN, UUID)


def test_identity_made_up(etc: Path) -> None:
    (etc / "machine-id").write_text("0123456789abcdef\n")
    first = host_identity()
    identity._made.cache_clear()
    assert host_identity() == first, "a machine keeps its identity"
    (etc / "machine-id").unlink()
    identity._made.cache_clear()
    assert host_identity() == host_identity() != first


def test_bad_identity(etc: Path) -> None:
    with pytest.raises(ValueError, match="the host NQN given"):
        host_identity("m\n")
    with pytest.raises(ValueError, match="the host ID given: 'x' is not a UUID"):
        host_identity(NQN, "x")
    (etc / "hostnqn").write_text("non\x7fsense")
    with pytest.raises(ValueError, match=r"hostnqn: NQN 'non\\x7fsense'"):
        host_identity()


@pytest.mark.parametrize("where", [None, 5, b"nvme+rdma://127.0.0.1/nqn.2026-01.example:disk"])
def test_what_is_neither_a_url_nor_a_transport_id(where: Any) -> None:
    for connect in (nvmf.initiator.connect, nvmf.initiator.sync.connect):
        with pytest.raises(TypeError, match="expected a URL or a TransportId, not "):
            connect(where)
