# SPDX-License-Identifier: BSD-3-Clause
"""The file config.json of nvme-cli 2: its contents, and the messages for faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmf.initiator.hostfiles import configured, read_config_json
from nvmf.initiator.hostfiles.config_json import _lines_of
from nvmf.spec.nqn import DISCOVERY_NQN
from support.etclab import HOST, HOSTID, NQN, OTHER, faults

PORT = {"transport": "rdma", "traddr": "192.0.2.1", "trsvcid": "4420"}


def test_config_json(etc: Path) -> None:
    whole = [
        {
            "hostnqn": OTHER,
            "hostid": HOSTID,
            "dhchap_key": "DHHC-1:00:a:",
            "persistent_discovery_ctrl": True,
            "subsystems": [
                {
                    "nqn": NQN,
                    "ports": [
                        PORT | {"nr_io_queues": 3, "duplicate_connect": True},
                        PORT | {"dhchap_key": "DHHC-1:00:b:", "dhchap_ctrl_key": "c", "new": {}},
                    ],
                },
                {"nqn": DISCOVERY_NQN, "ports": [PORT | {"discovery": True}]},
            ],
        },
        {"subsystems": [{"nqn": NQN}, {"nqn": NQN, "ports": [PORT]}]},
    ]
    (etc / "config.json").write_text(json.dumps(whole))
    first, second, third, fourth = configured(folder=etc)
    assert (first.subnqn, first.discovery, first.hostnqn, first.hostid) == (
        NQN,
        False,
        OTHER,
        HOSTID,
    )
    assert first.parameters == {
        "nr-io-queues": 3,
        "duplicate-connect": True,
        "dhchap-secret": "DHHC-1:00:a:",
    }
    assert second.parameters == {"dhchap-secret": "DHHC-1:00:b:", "dhchap-ctrl-secret": "c"}
    assert (third.discovery, third.persistent) == (True, True)
    assert (fourth.hostnqn, fourth.hostid) == (HOST, HOSTID)
    wrapped = etc / "wrapped.json"
    wrapped.write_text(json.dumps({"hosts": whole}))
    assert len(configured(wrapped, folder=etc)) == 4


def test_faults_of_config_json(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        '[\n {"hostnqn": "",\n  "subsystems": [\n'  # 2
        '   {"ports": []},\n'  # 4
        '   {"nqn": "\\u0000", "ports": [\n'  # 5
        '     {"traddr": "a"},\n'  # 6
        '     {"transport": "rdma",\n      "trsvcid": 4420,\n'  # 8
        '      "nr_io_queues": true}, 3]}]},\n'  # 9
        ' {"subsystems": {}},\n 7\n]\n'
    )
    assert faults(lambda: read_config_json(path)) == [
        "config.json:2: the NQN is empty",
        "config.json:4: a subsystem needs an nqn",
        r"config.json:5: NQN '\x00' contains a control character",
        "config.json:9: ports has objects, not 3",
        "config.json:6: a port needs a transport",
        "config.json:8: trsvcid is text in quotes",
        "config.json:9: nr_io_queues is a whole number",
        "config.json:10: subsystems is a list",
        "config.json:11: a host must be an object, {...}",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[\n{]", "config.json:2: is not JSON"),
        ("", "config.json:1: is not JSON"),
        ("{}", "config.json:1: must be a list of hosts"),
        ("3", "config.json:1: must be a list of hosts"),
        ("[" * 100_000, "config.json: is too deeply nested"),
        ("9" * 5000, "config.json: is not JSON"),
    ],
)
def test_broken_json(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    (found,) = faults(lambda: read_config_json(path))
    assert found.startswith(said)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)


@given(_json, st.sampled_from([None, 1]))
def test_every_json_value_has_a_line(value: object, indent: int | None) -> None:
    """Invariant: in any document, each value is found, on one of its lines."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    lines = _lines_of(text)

    def check(item: object, at: tuple[str | int, ...]) -> None:
        assert 1 <= lines[at] <= text.count("\n") + 1
        if isinstance(item, dict):
            for key, inner in item.items():
                check(inner, (*at, key))
        if isinstance(item, list):
            for index, inner in enumerate(item):
                check(inner, (*at, index))

    check(value, ())
