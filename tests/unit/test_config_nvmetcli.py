# SPDX-License-Identifier: BSD-3-Clause
"""nvmetcli's file, in both directions, and the messages about settings that are lost."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

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
            "param": {"inline_data_size": "4096", "max_queue_size": "-1", "pi_enable": "0"},
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
    words = ("state_dir", "discovery_nqn", "mDNS", "metrics", "4420: hotplug",
             "permanent_write_protect", ": hosts", f"{A}: hotplug", "limits")  # fmt: skip
    assert [len([said for said in lost if word in said]) for word in words] == [1] * len(words)
    assert len(lost) == len(words)


def referral(number: int, traddr: str, **more: object) -> dict[str, object]:
    address = {"adrfam": "ipv4", "traddr": traddr, "treq": "not specified", "trsvcid": "8009",
               "trtype": "tcp"}  # fmt: skip
    return {"addr": {**address, **more}, "enable": 1, "name": str(number)}


def two_ports() -> dict[str, Any]:
    """A file with two ports on RDMA, and a namespace of group 3."""
    data: dict[str, Any] = copy.deepcopy(FILE)
    one, two = data["ports"]
    two["addr"]["trtype"] = "rdma"
    one["subsystems"] = [A, B]
    data["subsystems"][0]["namespaces"][1]["ana_grpid"] = 3
    return data


def test_ana_states() -> None:
    """A group that a port does not list is inaccessible there, and optimized here."""
    data = two_ports()
    data["ports"][0]["ana_groups"] += [{"ana": {"state": "non-optimized"}, "grpid": 2},
                                       {"ana": {"state": "optimized"}, "grpid": 3}]  # fmt: skip
    config, lost = load(json.dumps(data), "config.json")
    assert lost == []
    assert config.subsystems[0].namespaces[1].ana_group == 3
    groups = [[(group.id, group.state) for group in port.ana_groups] for port in config.ports]
    assert groups == [[(2, "non-optimized")], [(3, "inaccessible")]]
    written, lost = dump(config)
    assert lost == []
    assert [{group["grpid"]: group["ana"]["state"] for group in port["ana_groups"]}
            for port in written["ports"]] == [
        {1: "optimized", 2: "non-optimized", 3: "optimized"},
        {1: "optimized", 3: "inaccessible"},
    ]  # fmt: skip
    assert load(json.dumps(written), "config.json") == (config, [])


def test_a_kernel_before_ana() -> None:
    data = two_ports()
    data["subsystems"][0]["namespaces"][1]["ana_grpid"] = 0
    del data["ports"][0]["ana_groups"]
    config, lost = load(json.dumps(data), "config.json")
    assert ([port.ana_groups for port in config.ports], lost) == ([(), ()], [])


def test_referrals() -> None:
    data = two_ports()
    data["ports"][0]["referrals"] = [
        referral(1, "192.0.2.7"),
        referral(2, "192.0.2.8") | {"enable": 0},
        referral(3, "192.0.2.9", trtype="rdma", trsvcid=""),
        referral(4, "0x0002030405060708", trtype="fc", trsvcid="none"),
        referral(5, "somewhere"),
    ]
    data["ports"][1]["referrals"] = [referral(1, "192.0.2.7"), referral(2, "2001:db8::1")]
    config, lost = load(json.dumps(data), "config.json")
    assert [(r.trtype, r.traddr, r.trsvcid) for r in config.referrals] == [
        ("tcp", "192.0.2.7", 8009), ("rdma", "192.0.2.9", 4420), ("tcp", "2001:db8::1", 8009)
    ]  # fmt: skip
    said = ("referral 2 is not enabled", "referred to fc", "referred to tcp somewhere",
            "192.0.2.9:4420: every port reports it here; port 2 did not",
            "2001:db8::1:8009: every port reports it here; port 1 did not")  # fmt: skip
    assert [len([one for one in lost if words in one]) for words in said] == [1] * len(said)
    assert len(lost) == len(said)
    written, lost = dump(config)
    assert lost == []
    first = written["ports"][0]["referrals"]
    assert first == written["ports"][1]["referrals"]
    assert first[0] == referral(1, "192.0.2.7")
    assert first[2]["addr"]["adrfam"] == "ipv6"
    assert load(json.dumps(written), "config.json") == (config, [])


def test_the_nqn_of_a_referral_is_lost() -> None:
    text = f'[[referral]]\ntraddr = "192.0.2.7"\nnqn = "{A}"\n'
    _, lost = dump(loads(text))
    assert lost == ["referral 192.0.2.7:4420: nqn is omitted: the kernel refers to the well-known "
                    "NQN"]  # fmt: skip


def test_more_that_is_lost() -> None:
    """Settings of a port and of a subsystem; and values without an effect."""
    data = two_ports()
    data["ports"][0] |= {"param": {"inline_data_size": "16384", "pi_enable": "1"}}
    data["ports"][0]["addr"] |= {"treq": "required", "tsas": "connected"}
    data["subsystems"][1]["passthru"] = [{"device": {"path": "/dev/nvme0"}, "enable": 1}]
    data["subsystems"][0]["namespaces"][0]["device"]["path"] = "(null)"
    config, lost = load(json.dumps(data), "config.json")
    assert [space.nsid for space in config.subsystems[0].namespaces] == [40]
    said = ("inline_data_size = 16384", "pi_enable = 1", "treq = required", "passthru",
            "no device path")  # fmt: skip
    assert [len([one for one in lost if words in one]) for words in said] == [1] * len(said)
    assert len(lost) == len(said)


def test_no_port_on_rdma() -> None:
    data = {**FILE, "ports": FILE["ports"][1:], "discovery": {"nqn": f"{A}-discovery"}}  # type: ignore[index]
    config, lost = load(json.dumps(data), "config.json")
    assert config.target.discovery_nqn == f"{A}-discovery"
    assert "there is no RDMA port: using the default, 127.0.0.1 port 4420" in lost


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"subsystems": [], "ports": [{"addr": {"trtype": "rdma"}}]}',
     '{"subsystems": [], "ports": [{"addr": {"trtype": "rdma", "traddr": "::", "trsvcid": "x"}}]}',
     '{"subsystems": [], "ports": 4}', '{"subsystems": [], "discovery": 4}',
     "{", "[]", "{}", '{"subsystems": [{}]}', '{"subsystems": [1]}',
     '{"subsystems": [{"nqn": "bad\\nname"}]}'],
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
