# SPDX-License-Identifier: BSD-3-Clause
"""nvme-cli's commands over the client: log pages, features, properties, ranges of blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nvmf.cli.main import main
from nvmf.initiator.sync import connect
from support.calling import Run
from support.clientlab import NQN, OPTIONS, url
from support.served import Served


@pytest.fixture
def run(target: Served, run: Run) -> Run:
    """Run a command on the target: exit status, stdout, stderr."""
    return lambda command, *args: run(command, url(target.port), *args)


def found(run: Run, command: str, *args: object) -> Any:
    status, out, err = run(command, *args, "-o", "json")
    assert status == 0, err
    return json.loads(out)


def test_smart_log(run: Run, target: Served) -> None:
    with connect(url(target.port), **OPTIONS) as controller:
        before = found(run, "smart-log")["host_read_commands"]
        controller.namespace(1).read(0, 1)
        assert found(run, "smart-log")["host_read_commands"] > before
    assert "composite_temperature" in run("smart-log")[1]


def test_error_log(run: Run) -> None:
    assert run("error-log")[0] == 0
    assert isinstance(found(run, "error-log", "-e", 4)["errors"], list)


def test_ana_log(run: Run) -> None:
    groups = found(run, "ana-log")["groups"]
    assert [group["nsids"] for group in groups if group["nsids"]] == [[1, 2]]
    assert "optimized" in run("ana-log")[1]


def test_changed_namespaces(run: Run) -> None:
    assert run("changed-ns-list-log")[1] == "no namespace changed\n"


def test_get_log(run: Run, target: Served) -> None:
    page = bytes.fromhex(found(run, "get-log", "-i", 2, "-l", 512)["data"])
    assert len(page) == 512
    lines = run("get-log", "--log-id", "0x02", "--log-len", 64, "--lpo", 32)[1].splitlines()
    assert [line[:6] for line in lines] == ["000020", "000030", "000040", "000050"]
    assert run("get-log", "-i", 2, "-l", 3)[0] == 2
    assert run("get-log", "-i", 0x100, "-l", 4)[0] == 2
    status, _, err = run("get-log", "-i", 0xC7, "-l", 512)
    assert status == 1
    assert "Get Log Page (LID C7h) failed" in err


def test_features(run: Run, target: Served) -> None:
    assert found(run, "get-feature", "-f", "0x07")["value"] > 0
    assert "number of queues" in run("get-feature", "-f", 7)[1]
    done = "feature 0x0b (async event configuration): set to 0x00000100\n"
    assert run("set-feature", "-f", "0x0b", "-V", "0x100") == (0, done, "")
    assert found(run, "set-feature", "-f", 11, "--value", 0)["value"] == 0
    status, _, err = run("set-feature", "-f", "0xff", "-V", 1)
    assert status == 1
    assert "Set Features (FFh) failed" in err
    assert run("get-feature", "-f", "0x100")[0] == 2
    stamp = found(run, "get-feature", "-f", 0x0E)
    assert int.from_bytes(bytes.fromhex(stamp["data"])[:6], "little") > 0
    assert "0000: " in run("get-feature", "-f", 0x0E)[1]
    assert run("set-feature", "-f", 6, "-V", 1 << 32)[0] == 2


def test_write_protection_without_a_state_dir(run: Run) -> None:
    status, _, err = run("set-feature", "-f", "0x84", "-N", 1, "-V", 1)
    assert status == 1
    assert "Invalid Field in Command" in err
    assert "does not support write protection (nwpc is 0)" in err
    assert "requires a state_dir, because it must persist" in err


def test_registers(run: Run) -> None:
    values = found(run, "show-regs")
    assert values["csts"] & 1
    assert values["cc"] & 1
    assert "mqes" in run("show-regs")[1]


def test_ranges(run: Run, target: Served) -> None:
    with connect(url(target.port), **OPTIONS) as controller:
        disk = controller.namespace(1)
        disk.write(0, b"x" * 2048)
        assert run("write-zeroes", "-b", 1, "--blocks", 2)[1] == (
            "namespace 1: 2 blocks from 1: set to zeroes\n"
        )
        assert disk.read(0, 4) == b"x" * 512 + bytes(1024) + b"x" * 512
        assert run("dsm", "--ad", "-s", 3)[1] == "namespace 1: 1 block from 3: deallocated\n"
        assert disk.read(0, 4) == b"x" * 512 + bytes(1536)
        disk.write(0, b"x" * 4096)
        done = (
            "namespace 1: 1 block from 0: deallocated\nnamespace 1: 2 blocks from 6: deallocated\n"
        )
        assert run("dsm", "-d", "--slbs", "0,6", "-b", "1,2") == (0, done, "")
        assert disk.read(0, 8) == bytes(512) + b"x" * 2560 + bytes(1024)
        assert found(run, "dsm", "-c", 4, "-s", "3,5", "-b", "1,1")["ranges"][1]["slba"] == 5
        assert run("verify", "-c", 3)[0] == 0
        for command in ("write-zeroes", "verify", "dsm"):
            extra = ("--ad",) if command == "dsm" else ()
            assert run(command, *extra, "--start-block", disk.blocks)[0] == 1
            assert run(command, *extra, "--blocks", 0)[0] == 2
        for words in (
            (),
            ("-d", "-s", "1,2"),
            ("-d", "-s", "1,2", "-b", 1),
            ("-c", 1),
            ("-d", "-s", "x"),
        ):
            assert run("dsm", *words)[0] == (0 if words == ("-d", "-s", "1,2") else 2), words
        assert "there are 2 first blocks and 1 number" in run("dsm", "-d", "-s", "1,2", "-b", 1)[2]


def test_compare(run: Run, target: Served, tmp_path: Path) -> None:
    """Status 1 means that the data differs, and is used for nothing else."""
    content = tmp_path / "content"
    content.write_bytes(b"c" * 1024)
    with connect(url(target.port), **OPTIONS) as controller:
        controller.namespace(1).write(8, b"c" * 1024)
    assert run("compare", "-b", 8, "-d", content)[0] == 0
    status, _, err = run("compare", "-b", 9, "-d", content)
    assert status == 1
    assert "Compare Failure" in err
    assert run("compare", "-b", 8, "-d", tmp_path / "absent")[0] == 2
    assert run("compare", "-b", 8, "-d", content, "-N", 9)[0] == 2
    content.write_bytes(b"c" * 1000)
    status, _, err = run("compare", "-b", 8, "-d", content)
    assert status == 2
    assert "1000 bytes, which are not blocks of 512" in err


@pytest.mark.parametrize("command", ["smart-log", "show-regs", "ana-log"])
def test_the_address_as_flags(
    target: Served, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    flags = ["--traddr", "127.0.0.1", "--trsvcid", str(target.port), "--nqn", NQN]
    assert main([command, *flags]) == 0
    assert capfd.readouterr().out
