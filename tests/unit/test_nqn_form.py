# SPDX-License-Identifier: BSD-3-Clause
"""NQNs without a form of the specification, which Linux accepts: everywhere, with a warning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nvmf.cli.main import main
from nvmf.config import Config, ConfigError, advice, loads
from nvmf.config.nvmetcli import load
from nvmf.initiator import ConnectOptions, NvmeError, connect, discover
from nvmf.spec.nqn import nqn_advice
from nvmf.spec.status import Status
from nvmf.target.client import connect_sync
from support.clientlab import NQN, RAM, config
from support.served import Served

UNUSUAL = "testnqn"
WARNING = f"warning: NQN '{UNUSUAL}' is not of the form nqn.YYYY-MM.DOMAIN:NAME or "
TARGET_CONFIG = (
    config(RAM).replace(NQN, UNUSUAL).replace("allow_any_host = true", 'hosts = ["laptop"]')
)
"""The subsystem testnqn, for one host."""


def url(target: Served, nqn: str = UNUSUAL) -> str:
    return f"nvme+rdma://127.0.0.1:{target.port}/{nqn}?device=iwarp"


@pytest.mark.parametrize(
    ("nqn", "usual"),
    [
        ("nqn.2014-08.org.nvmexpress.discovery", True),
        ("nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6", True),
        ("nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765", False),
        ("nqn.2014-08.com.example:x y", True),
        ("nqn.2014-13.com.example:x", False),
        ("nqn.2014-08.com.example:", False),
        ("iqn.2014-08.com.example:x", False),
        (UNUSUAL, False),
    ],
)
def test_the_form(nqn: str, usual: bool) -> None:
    assert (nqn_advice(nqn) is None) is usual


def test_configuration(target: Served) -> None:
    text = (target.folder / "target.toml").read_text()
    text += f'[[subsystem.namespace]]\nstore = "null"\nsize = 4096\nhosts = ["{UNUSUAL}"]\n'
    text += '[[referral]]\ntraddr = "192.0.2.1"\nnqn = "elsewhere"\n'
    said = "\n".join(advice(loads(text)))
    for name in (UNUSUAL, "laptop", "elsewhere"):
        assert said.count(f"NQN '{name}' is not of the form") == 1
    assert target.log.count(f"NQN '{UNUSUAL}' is not of the form") == 1
    for bad, words in (("", "is empty"), ("a\\u0000b", "control character"), ("x" * 224, "224")):
        with pytest.raises(ConfigError, match=words):
            loads(f'[[subsystem]]\nnqn = "{bad}"\n')


async def test_connect_and_discover(target: Served) -> None:
    async with connect(url(target), ConnectOptions(hostnqn="laptop")) as controller:
        namespace = controller.namespace(1)
        await namespace.write(0, b"x" * 512)
        assert bytes(await namespace.read(0, 1)) == b"x" * 512
    entries = await discover(url(target, ""), ConnectOptions(hostnqn="laptop"))
    assert UNUSUAL in [entry.subnqn for entry in entries]
    with pytest.raises(NvmeError) as caught:
        await connect(url(target), ConnectOptions(hostnqn="desktop"))
    assert caught.value.status == Status.CONNECT_INVALID_HOST


def test_command_line(target: Served, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["list-ns", url(target), "-q", "laptop"]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert [line.startswith(WARNING) for line in lines] == [True, False]
    assert lines[1].startswith("warning: NQN 'laptop' is not of the form")
    assert main(["discover", "-a", "127.0.0.1", "-s", str(target.port), "-q", UNUSUAL]) == 0
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(WARNING)


def test_administration(target: Served, capfd: pytest.CaptureFixture[str]) -> None:
    path = str(target.rpc_socket)
    with connect_sync(path) as rpc:
        rpc.add_subsystem({"nqn": "scratch", "hosts": ["laptop"]})
        assert "scratch" in [one["nqn"] for one in rpc.subsystems()]
    assert main(["target", "host", "allow", "scratch", UNUSUAL, "--rpc-socket", path]) == 0
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(WARNING)
    assert main(["target", "subsystem", "remove", "scratch", "--rpc-socket", path]) == 0
    assert main(["target", "subsystem", "add", UNUSUAL + "2", "--rpc-socket", path]) == 0
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"warning: NQN '{UNUSUAL}2'")
    assert main(["target", "subsystem", "add", "", "--rpc-socket", path]) == 1
    assert "the NQN is empty" in capfd.readouterr().err


def test_import_of_nvmetcli(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.json"
    subsystem = {"nqn": UNUSUAL, "allowed_hosts": ["laptop"], "namespaces": [], "attr": {}}
    address = {"adrfam": "ipv4", "traddr": "192.0.2.1", "trsvcid": "4420", "trtype": "rdma"}
    text = json.dumps(
        {
            "hosts": [{"nqn": "laptop"}],
            "ports": [{"addr": address, "portid": 1, "subsystems": [UNUSUAL]}],
            "subsystems": [subsystem],
        }
    )
    file.write_text(text)
    made: Config = load(text, "config.json")[0]
    assert (made.subsystems[0].nqn, made.subsystems[0].hosts) == (UNUSUAL, ("laptop",))
    assert main(["config", "import", str(file)]) == 0
    out, err = capfd.readouterr()
    assert loads(out).subsystems[0].nqn == UNUSUAL
    assert f"config.json: {WARNING}" in err
