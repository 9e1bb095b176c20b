# SPDX-License-Identifier: BSD-3-Clause
"""nvmetcli's file, both ways, and what is said about what is lost on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nvmf.cli.main import main
from nvmf.config import ConfigError, loads
from nvmf.config.nvmetcli import dump, load

A, B = "nqn.2026-11.io.example:a", "nqn.2026-11.io.example:b"
HOST = "nqn.2014-08.org.nvmexpress:uuid:8d4f1b1e-6a0a-4f53-9d55-3a1f2d1c7b10"
FILE = {
    "hosts": [{"nqn": HOST}],
    "ports": [
        {
            "addr": {"adrfam": "ipv4", "traddr": "192.0.2.1", "treq": "not specified",
                     "trsvcid": "4420", "trtype": "rdma"},
            "ana_groups": [{"ana": {"state": "optimized"}, "grpid": 1}],
            "portid": 1, "referrals": [], "subsystems": [A],
        },
        {
            "addr": {"adrfam": "ipv4", "traddr": "192.0.2.1", "treq": "not specified",
                     "trsvcid": "4421", "trtype": "tcp"},
            "portid": 2, "referrals": [], "subsystems": [A, B],
        },
    ],
    "subsystems": [
        {
            "allowed_hosts": [],
            "attr": {"allow_any_host": "1", "serial": "3d83c78b76623f1d", "model": "Linux",
                     "version": "1.3", "cntlid_min": "1", "cntlid_max": "65519"},
            "namespaces": [
                {"device": {"nguid": "5b722b05-e9b6-542d-ba80-62010b57775d",
                            "path": "/dev/nullb0",
                            "uuid": "26ffc8ce-73b4-321d-9685-7d7a9872c460"},
                 "enable": 1, "nsid": 1, "ana_grpid": 1},
                {"device": {"nguid": "00000000-0000-0000-0000-000000000000",
                            "path": "/dev/nullb1"},
                 "enable": 0, "nsid": 40},
            ],
            "nqn": A,
        },
        {"allowed_hosts": [HOST], "attr": {"allow_any_host": "0"}, "namespaces": [], "nqn": B},
    ],
}  # fmt: skip


def test_read() -> None:
    config, lost = load(json.dumps(FILE), "config.json")
    assert [(p.traddr, p.trsvcid) for p in config.ports] == [("192.0.2.1", 4420)]
    first, second = config.subsystems
    assert (first.serial, first.model, first.allow_any_host) == ("3d83c78b76623f1d", "Linux", True)
    assert second.hosts == (HOST,)
    one, off = first.namespaces
    assert str(one.uuid) == "26ffc8ce-73b4-321d-9685-7d7a9872c460"
    assert one.nguid == bytes.fromhex("5b722b05e9b6542dba8062010b57775d")
    assert (off.nsid, off.enabled, off.nguid, first.max_namespaces) == (40, False, None, 40)
    assert len(lost) == 2
    assert any("transport tcp" in sentence for sentence in lost)
    assert any(f"did not serve {B}" in sentence for sentence in lost)


def test_there_and_back() -> None:
    config, _ = load(json.dumps(FILE), "config.json")
    written, lost = dump(config)
    assert lost == []
    again, _ = load(json.dumps(written), "config.json")
    assert again == config
    assert written["subsystems"][0]["namespaces"][0] == FILE["subsystems"][0]["namespaces"][0]  # type: ignore[index]


def test_what_the_kernel_does_not_have() -> None:
    text = f"""
[[port]]
device = "iwarp"
[[subsystem]]
nqn = "{A}"
mdts = "64KiB"
[[subsystem.namespace]]
store = "ram"
size = "1MiB"
[[subsystem.namespace]]
store = "file"
path = "/dev/sdb"
size = "1MiB"
block_size = 4096
hosts = ["{HOST}"]
"""
    written, lost = dump(loads(text))
    assert len(written["subsystems"][0]["namespaces"]) == 1
    for word in ("embedded device", "mdts", "no ram store", "size", "block_size", "hosts"):
        assert any(word in sentence for sentence in lost), word


def test_each_thing_that_is_lost_is_said_once() -> None:
    text = f"""
[target]
state_dir = "/var/lib/nvmeof"
discovery_nqn = "nqn.2026-11.io.example:discovery"
[mdns]
enabled = true
[metrics]
enabled = true
[[port]]
device = "system"
hotplug = true
[[port.ana_group]]
id = 1
state = "non-optimized"
[[subsystem]]
nqn = "{A}"
permanent_write_protect = true
[[subsystem.namespace]]
store = "file"
path = "/dev/sdb"
hosts = []
hotplug = true
limits = {{ iops = 1 }}
"""
    _, lost = dump(loads(text))
    words = ("state_dir", "discovery_nqn", "mDNS", "metrics", "4420: hotplug", "ANA groups",
             "permanent_write_protect", ": hosts", f"{A}: hotplug", "limits")  # fmt: skip
    assert [len([said for said in lost if word in said]) for word in words] == [1] * len(words)
    assert len(lost) == len(words)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"subsystems": [{}]}', '{"subsystems": [1]}',
     '{"subsystems": [{"nqn": "bad name"}]}'],
)  # fmt: skip
def test_not_such_a_file(text: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.json: "):
        load(text, "config.json")


def test_commands(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(FILE))
    assert main(["config", "import", str(path)]) == 0
    out, err = capfd.readouterr()
    assert "transport tcp has no counterpart" in err
    assert loads(out) == load(path.read_text(), "x")[0]
    made = tmp_path / "target.toml"
    made.write_text(out)
    assert main(["config", "export", str(made)]) == 0
    assert json.loads(capfd.readouterr().out)["hosts"] == [{"nqn": HOST}]
    assert main(["config", "import", str(tmp_path / "none")]) == 1
