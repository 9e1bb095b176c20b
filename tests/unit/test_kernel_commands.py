# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof list`, `list-subsys`, `disconnect`, `connect`, `connect-all` on a fake kernel."""

from __future__ import annotations

import json

import pytest

from nvmf.cli.app import run
from nvmf.cli.kernel import connect, connect_all, disconnect, listing
from support.fakekernel import HOSTID, HOSTNQN, NQN, FakeKernel


@pytest.fixture
def kernel(kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    for module in (connect, connect_all, disconnect, listing):
        monkeypatch.setattr(module, "System", lambda: kernel.system)
    return kernel


def call(capfd: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Run a command; return exit status, stdout and stderr."""
    try:
        status = run(args)
    except SystemExit as end:
        status = int(str(end.code))
    out, err = capfd.readouterr()
    return status, out, err


def test_list(kernel: FakeKernel, capfd: pytest.CaptureFixture[str]) -> None:
    kernel.controller(0)
    block = kernel.namespace(3)
    status, out, _ = call(capfd, "list")
    assert status == 0
    assert f"{kernel.dev}/{block}" in out
    assert "50.00 KiB / 8.00 MiB" in out
    assert "512 B + 0 B" in out
    status, out, _ = call(capfd, "list", "-o", "json")
    (device,) = json.loads(out)["Devices"]
    assert (device["NameSpace"], device["UsedBytes"], device["PhysicalSize"]) == (3, 51200, 8 << 20)
    assert (device["SerialNumber"], device["MaximumLBA"], device["SectorSize"]) == (
        "S1",
        16384,
        512,
    )


def test_list_subsys(kernel: FakeKernel, capfd: pytest.CaptureFixture[str]) -> None:
    kernel.controller(0)
    kernel.controller(1, state="connecting")
    kernel.controller(2, subsystem=1, subsysnqn=NQN + "2")
    kernel.namespace(1)
    status, out, _ = call(capfd, "list-subsys")
    assert status == 0
    assert f"nvme-subsys0 - NQN={NQN}\n" in out
    assert " +- nvme0 rdma traddr=192.0.2.1,trsvcid=4420 live, 2 I/O queues\n" in out
    assert " +- nvme1 rdma traddr=192.0.2.1,trsvcid=4420 connecting" in out
    (host,) = json.loads(call(capfd, "list-subsys", "-o", "json", "-n", NQN)[1])
    assert (host["HostNQN"], host["HostID"]) == (HOSTNQN, HOSTID)
    (subsystem,) = host["Subsystems"]
    assert [path["State"] for path in subsystem["Paths"]] == ["live", "connecting"]
    assert subsystem["Namespaces"][0]["PhysicalSize"] == 8 << 20


def test_disconnect(kernel: FakeKernel, capfd: pytest.CaptureFixture[str]) -> None:
    kernel.controller(0)
    kernel.controller(1)
    kernel.controller(2, subsystem=1, transport="pcie", subsysnqn=NQN)
    status, out, _ = call(capfd, "disconnect", "-n", NQN)
    assert (status, out.count("disconnected ")) == (0, 2)
    status, out, _ = call(capfd, "disconnect", "-d", f"{kernel.dev}/nvme1", "-o", "json")
    assert json.loads(out) == {"disconnected": [{"device": "nvme1", "subsysnqn": NQN}]}
    status, out, _ = call(capfd, "disconnect-all")
    assert (status, out.count("disconnected ")) == (0, 2)
    assert call(capfd, "disconnect-all", "-t", "tcp")[1] == "nothing is connected\n"


def test_reset(kernel: FakeKernel, capfd: pytest.CaptureFixture[str]) -> None:
    for number in (0, 1):
        kernel.controller(number)
    written = [kernel.sysfs / f"class/nvme/nvme{number}/reset_controller" for number in (0, 1)]
    status, out, _ = call(capfd, "reset", f"{kernel.dev}/nvme1")
    assert (status, out) == (0, f"reset {kernel.dev}/nvme1, connected to {NQN}\n")
    assert [path.read_text().startswith("1") for path in written] == [False, True]
    status, out, _ = call(capfd, "reset", "nvme0", "-o", "json")
    assert json.loads(out) == {"reset": {"device": "nvme0", "subsysnqn": NQN}}
    assert written[0].read_text().startswith("1")
    written[0].unlink()
    status, _, err = call(capfd, "reset", "nvme0")
    assert (status, f"cannot reset nvme0 ({NQN}): it no longer exists" in err) == (1, True)


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["reset", "nvme9"], 1, "there is no controller 'nvme9'"),
        (["reset", "nvme2"], 1, "is not connected over a fabric: pcie"),
        (["reset"], 2, "specify the controller: /dev/nvme0, a URL"),
        (["disconnect"], 2, "specify the subsystem with -n, or the controller with -d"),
        (["disconnect", "-n", NQN + "x"], 1, "is not connected to"),
        (
            ["disconnect", "-d", "nvme9"],
            1,
            "there is no controller 'nvme9'; see nvmeof list",
        ),
        (["disconnect", "-d", "nvme2"], 1, "is not connected over a fabric: pcie"),
        (["connect", "-a", "192.0.2.1"], 2, "specify the NQN of the subsystem with -n"),
        (["connect", "-a", "192.0.2.1", "-n", NQN, "-Q", "9"], 2, "--queue-size is 16 to 1024"),
        (
            ["connect", "-a", "192.0.2.1", "-n", NQN, "-S", "x"],
            2,
            "--dhchap-secret: a DH-HMAC-CHAP key",
        ),
        (["connect", f"nvme+rdma://192.0.2.1/{NQN}?device=iwarp"], 2, "an option of the client"),
        (
            ["connect", f"nvme+rdma://192.0.2.1/{NQN}?nr_io_queues=4"],
            2,
            "there is no option 'nr_io",
        ),
        (["connect", f"nvme+rdma://192.0.2.1/{NQN}?traddr=x"], 2, "there is no option 'traddr'"),
        (["connect", "-a", "a" * 300, "-n", NQN], 1, "the name is invalid; check the name"),
        (["connect", f"nvme+rdma://192.0.2.1/{NQN}?backend=client"], 2, "backend=client in the"),
        (["connect-all", "nvme+rdma://192.0.2.1/?backend=client"], 2, "backend=client in the URL"),
        (["connect", "-t", "tcp", "-a", "192.0.2.1", "-n", NQN], 2, "invalid choice: 'tcp'"),
        (["connect-all"], 2, "no RDMA controller in"),
    ],
)
def test_usage(
    kernel: FakeKernel,
    capfd: pytest.CaptureFixture[str],
    args: list[str],
    status: int,
    words: str,
) -> None:
    kernel.controller(2, subsystem=1, transport="pcie")
    found, out, err = call(capfd, *args)
    assert (found, out) == (status, "")
    assert words in err


def test_connect_fails(kernel: FakeKernel, capfd: pytest.CaptureFixture[str]) -> None:
    kernel.fails = 114
    status, out, err = call(capfd, "connect", "-a", "192.0.2.1", "-n", NQN)
    assert (status, out) == (1, "")
    assert err.startswith("nvmeof connect: the kernel cannot connect to")
    assert "EALREADY" in err
    status, out, err = call(capfd, "connect-all", "-a", "192.0.2.1")
    assert (status, out) == (1, "")
    assert err.count("\n") == 1


def test_host_files(kernel: FakeKernel, capfd: pytest.CaptureFixture[str]) -> None:
    """Each line of the file is tried with its options; flags have precedence."""
    (kernel.etc / "discovery.conf").write_text(
        "-t tcp -a 192.0.2.7\n-t rdma -a 192.0.2.1 -q nqn.2014-08.org.example:host -T 3\n"
    )
    kernel.fails = 114
    status, _, err = call(capfd, "connect-all")
    assert status == 1
    assert "at 192.0.2.1:4420" in err
    assert "192.0.2.7" not in err
    (kernel.etc / "discovery.conf").write_text("-t rdma -a 192.0.2.1 -T 900\n")
    status, _, err = call(capfd, "connect-all")
    assert status == 1
    assert "discovery.conf:1: tos is 0 to 255" in err
