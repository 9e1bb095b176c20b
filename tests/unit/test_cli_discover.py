# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof discover`: referrals, host files, changes, invalid data, and the messages for each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from nvmf.cli.base import printable
from nvmf.cli.records import line, record
from nvmf.spec.fabrics import DiscoveryEntry, decode_discovery_log
from nvmf.spec.nqn import DISCOVERY_NQN
from support.calling import Run
from support.clientlab import NQN, RAM, config, free_port
from support.served import Served

UNIQUE = "nqn.2014-08.org.example:discovery"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    text = f'[target]\ndiscovery_nqn = "{UNIQUE}"\n' + config(RAM)
    served = Served(tmp_path_factory.mktemp("other"), text).wait_ready()
    yield served
    assert served.end() == 0


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, other: Served) -> Iterator[Served]:
    """A target that refers to the other, to an address without a listener, and to another
    transport.
    """
    referrals = "".join(
        f'[[referral]]\ntraddr = "127.0.0.1"\ntrsvcid = {port}\ntrtype = "{kind}"\n'
        for port, kind in ((other.port, "rdma"), (free_port(), "rdma"), (8009, "tcp"))
    )
    served = Served(tmp_path_factory.mktemp("target"), config(RAM) + referrals).wait_ready()
    yield served
    assert served.end() == 0


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "discover")


def at(served: Served) -> tuple[str, ...]:
    return "-a", "127.0.0.1", "-s", str(served.port), "--device", "iwarp"


@pytest.mark.feature("referrals")
def test_referrals(run: Run, target: Served, other: Served) -> None:
    status, out, err = run(*at(target))
    assert status == 0
    assert f"Discovery log of 127.0.0.1:{other.port}: 2 records" in out
    assert out.count("discovery subsystem referral") == 3
    assert "refused: no target listens there" in err
    status, out, _ = run(*at(target), "-o", "json")
    found = json.loads(out)
    assert [r["subtype"] for r in found["records"]][-1] == "discovery subsystem referral"
    assert found["records"][-1]["trtype"] == "tcp"
    good, bad = found["referrals"]
    assert (good["trsvcid"], good["depth"], len(good["records"])) == (str(other.port), 1, 2)
    assert good["records"][0]["subnqn"] == UNIQUE
    assert "refused" in bad["error"]
    status, out, _ = run(*at(target), "-o", "json", "--depth", "0")
    assert json.loads(out)["referrals"] == []


@pytest.mark.feature("discovery-nqn")
def test_unique_discovery_nqn(run: Run, other: Served, target: Served) -> None:
    assert run(*at(other), "-n", UNIQUE)[0] == 0
    status, _, err = run(*at(target), "-n", UNIQUE)
    assert status == 1
    assert "SUBNQN" in err
    status, _, err = run(*at(target), "-n", "x\n")
    assert (status, "--nqn: NQN 'x\\n' contains a control" in err) == (2, True)


def test_raw(run: Run, target: Served, tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert run(*at(target), "--raw", path)[0] == 0
    _, entries = decode_discovery_log(path.read_bytes())
    assert [entry.subtype for entry in entries] == [3, 2, 1, 1, 1]


def test_host_files(run: Run, target: Served, other: Served, tmp_path: Path) -> None:
    path = tmp_path / "fabrics.conf"
    lines = "".join(
        f"controller = transport={kind};traddr=127.0.0.1;trsvcid={port}\n"
        for kind, port in (("rdma", other.port), ("tcp", 1), ("rdma", target.port))
    )
    path.write_text(f"[Discovery Controller]\n{lines}[Subsystem]\nnqn={NQN}\n{lines}")
    status, out, _ = run("-J", path, "--device", "iwarp", "--depth", 0, "-o", "json")
    assert status == 0
    logs = json.loads(out)["logs"]
    assert [log["trsvcid"] for log in logs] == [str(other.port), str(target.port)]
    path.write_text(f"[Discovery Controller]\ncontroller = transport=rdma;traddr=127.0.0.1;"
                    f"trsvcid={free_port()}\n")  # fmt: skip
    status, out, err = run("-J", path, "--device", "iwarp")
    assert (status, out) == (1, "")
    assert "no target listens there" in err
    path.write_text("[Nonsense\n")
    status, _, err = run("-J", path)
    assert status == 1
    assert f"cannot use the host files:\n{path}:1: " in err
    path.write_text("")
    status, _, err = run("-J", path)
    assert status == 2
    assert "specify the target: a URL, or -a ADDRESS" in err
    assert "no RDMA discovery controller" in err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--mdns", "-a", "127.0.0.1"], "--mdns searches the network"),
        (["--mdns", "--wait=-3"], "--wait must be more than 0 seconds, not -3"),
        (["-a", "127.0.0.1", "-p", "-r", "x"], "--raw writes one log"),
        (["-a", "127.0.0.1", "-p", "-k", "0"], "-k must be more than 0"),
        (["-a", "127.0.0.1", "--depth", "-1"], "-1 is negative"),
    ],
)
def test_usage(run: Run, args: list[str], words: str) -> None:
    status, out, err = run(*args)
    assert (status, out) == (2, "")
    assert words in err


@pytest.mark.feature("discovery-events")
@pytest.mark.parametrize("form", ["normal", "json"])
def test_persistent(target: Served, form: str) -> None:
    """The command prints the log, and ends when it gets a signal."""
    argv = [sys.executable, "-m", "nvmf.cli.main", "discover", *at(target), "-p", "-o", form]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        first = one.stdout.readline()
        if form == "json":
            fields = json.loads(first)
            assert [r["subnqn"] for r in fields["added"]][:2] == [DISCOVERY_NQN, NQN]
            assert (fields["removed"], fields["records"]) == ([], 5)
        else:
            assert f"Discovery log of 127.0.0.1:{target.port}: 5 records" in first
        one.send_signal(signal.SIGTERM)
        _, err = one.communicate(timeout=60)
        assert (one.returncode, err) == (0, "")


def test_persistent_without_a_target(run: Run) -> None:
    place = ("-a", "127.0.0.1", "-s", str(free_port()), "--device", "iwarp", "-p")
    status, out, err = run(*place)
    assert (status, out) == (1, "")
    assert "no target listens there" in err
    status, out, err = run(*place, "-o", "json")
    said = json.loads(out)
    assert (status, said["status"], said["traddr"], said["trsvcid"]) == (1, 1, place[1], place[3])
    assert "no target listens there" in said["error"]
    assert said["error"] in err


def test_rubbish_is_shown_as_such() -> None:
    """Text from a target cannot control the terminal."""
    raw = bytearray(
        DiscoveryEntry(trtype=99, adrfam=99, subtype=99, treq=3, eflags=0xFFFF).encode()
    )
    raw[32:64] = b"\x1b[2J\xff\n" + bytes(26)
    raw[256:512] = b"\x1b]0;x\x07\xc3\x28" + bytes(248)
    raw[512:768] = b"\r\n" * 128
    entry = DiscoveryEntry.decode(bytes(raw))
    fields = record(entry)
    assert (fields["trtype"], fields["adrfam"], fields["subtype"]) == ("type 99", "99", "99")
    assert fields["treq"] == "reserved"
    assert "no cdc connectivity" in str(fields["eflags"])
    assert "rdma_cms" not in fields
    assert all(str(value).isprintable() for value in fields.values())
    assert line(entry).isprintable()
    assert printable("nqn.é\x1b") == "nqn.é\\x1b"
