# SPDX-License-Identifier: BSD-3-Clause
"""The message for every failure of a connect through the kernel."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nvmf.auth.key import Key
from nvmf.initiator.kernel import words
from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.fabrics import create
from nvmf.initiator.kernel.klog import KernelLog
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.kernel.route import Route
from nvmf.initiator.kernel.tcp_probe import Answer, ask_tcp
from nvmf.spec.cm import CmStatus
from nvmf.spec.status import Status
from support.clientlab import free_port
from support.fakekernel import HOSTNQN, NQN, FakeKernel

WANTED = FabricsOptions(traddr="192.0.2.1", nqn=NQN, hostnqn=HOSTNQN)
HERE = Route("192.0.2.9", "eth0", ("siw0",), frozenset({"eth0"}))


def explained(
    kernel: FakeKernel, number: int, *lines: str, options: FabricsOptions = WANTED
) -> KernelError:
    """Return the error of a connect that fails with an errno and these lines in the log."""
    kernel.fails, kernel.log.lines = number, list(lines)
    with pytest.raises(KernelError) as raised:
        create(options, kernel.system)
    error = raised.value
    assert str(error).startswith(f"the kernel cannot connect to {NQN} at 192.0.2.1:4420: ")
    assert "\n" not in str(error)
    assert error.errno == number
    return error


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        (
            'Connect Invalid Data Parameter, subsysnqn "nqn.x"',
            Status.CONNECT_INVALID_PARAMETERS,
            ["Connect Invalid Parameters (0x182), about SUBNQN", "nvmeof discover -a 192.0.2.1"],
        ),
        (
            'Connect Invalid Data Parameter, hostnqn "nqn.x"',
            Status.CONNECT_INVALID_PARAMETERS,
            ["about HOSTNQN", "-q", "/etc/nvme/hostnqn"],
        ),
        (
            "Connect Invalid Data Parameter, cntlid: 9",
            Status.CONNECT_INVALID_PARAMETERS,
            ["about cntlid: 9"],
        ),
        (
            "Connect Invalid SQE Parameter, qid 5",
            Status.CONNECT_INVALID_PARAMETERS,
            ["about qid 5", "fewer queues with -i"],
        ),
        (
            f"Connect for subsystem {NQN} is not allowed, hostnqn: {HOSTNQN}",
            Status.CONNECT_INVALID_HOST,
            ["Connect Invalid Host (0x184)", f"does not admit the host {HOSTNQN}", "-q"],
        ),
        (
            "Connect command failed: controller is busy or not available",
            Status.CONTROLLER_BUSY,
            ["Connect Controller Busy (0x181)", "try again later"],
        ),
        (
            "Connect command failed: authentication required",
            Status.AUTHENTICATION_REQUIRED,
            ["Authentication Required (0x191)", "-S"],
        ),
        ("Connect incompatible format: 0", Status.INCOMPATIBLE_FORMAT, ["Incompatible Format"]),
        (
            "Connect command failed, error wo/DNR bit: 6",
            Status.INTERNAL_ERROR,
            ["Internal Error (0x006)"],
        ),
    ],
)
def test_status(kernel: FakeKernel, line: str, status: Status, said: list[str]) -> None:
    """The target answered Connect with a status; the log line about the queue is less specific."""
    error = explained(
        kernel, errno.EIO, f"nvme nvme0: {line}", "nvme nvme0: failed to connect queue: 0 ret=386"
    )
    assert error.status == status
    assert all(one in str(error) for one in said), error


@pytest.mark.parametrize(
    ("sts", "advice"),
    [
        (CmStatus.NO_RESOURCES, "fewer with -i or smaller ones with -Q"),
        (CmStatus.INVALID_QID, "fewer queues with -i"),
        (CmStatus.INVALID_HSQSIZE, "smaller queues with -Q"),
        (CmStatus.INVALID_HRQSIZE, "smaller queues with -Q"),
    ],
)
def test_cm_reject(kernel: FakeKernel, sts: CmStatus, advice: str) -> None:
    line = f"Connect rejected: status 28 (consumer defined) nvme status {sts:d} (some words)."
    error = explained(
        kernel,
        errno.ECONNRESET,
        f"nvme nvme0: {line}",
        "nvme nvme0: rdma connection establishment failed (-104)",
    )
    assert error.cm_status == sts
    assert f"{sts.title} ({sts:#x})" in str(error)
    assert advice in str(error)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nvme nvme0: qid 0: authentication failed, error 385", ["authentication failed", "-S"]),
        (
            "nvme_fabrics: found same hostnqn A but different hostid B",
            ["A but different hostid B", "-I"],
        ),
        ("nvme_fabrics: invalid parameter 'host_iface=%s'", ["the option host_iface"]),
        (
            "nvme_fabrics: unknown parameter or missing value 'tos=1' in ctrl creation request",
            ["the option tos"],
        ),
        ("nvme_fabrics: no handler found for transport rdma.", ["modprobe nvme-rdma"]),
        ("nvme_rdma: malformed address passed: a:b", ["numeric IPv4 or IPv6 address"]),
        ("nvme nvme0: unable to set any I/O queues", ["unable to set any I/O queues"]),
        ("nvme nvme0: Mandatory keyed sgls are not supported!", ["does not conform"]),
        ("nvme nvme0: Memory registrations not supported.", ["nvmeof devices"]),
        ("nvme_fabrics: Invalid queue_size 7", ["Invalid queue_size 7"]),
        (
            "nvme nvme0: Duplicate cntlid 1 with nvme3, subsys x, rejecting",
            ["Duplicate cntlid 1 with nvme3"],
        ),
    ],
)
def test_other_lines(kernel: FakeKernel, line: str, said: list[str]) -> None:
    error = explained(kernel, errno.EINVAL, line)
    assert all(one in str(error) for one in said), error
    assert error.log == [line]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EALREADY, ["connected to it already (EALREADY)", "-D"]),
        (errno.EPERM, ["requires root"]),
        (errno.EACCES, ["requires root"]),
        (errno.EKEYREJECTED, ["authentication failed (EKEYREJECTED)"]),
        (errno.EINVAL, ["refuses an option", f"nqn={NQN}"]),
        (errno.ENOMEM, ["no memory", "-Q"]),
        (errno.EIO, ["error status", "see dmesg"]),
        (errno.EBUSY, ["EBUSY", "see dmesg"]),
    ],
)
def test_errno_alone(kernel: FakeKernel, number: int, said: list[str]) -> None:
    """The log cannot be read."""
    error = explained(kernel, number)
    assert all(one in str(error) for one in said), error


def test_source_address(kernel: FakeKernel) -> None:
    options = FabricsOptions(traddr="192.0.2.1", nqn=NQN, host_traddr="192.0.2.77")
    error = explained(kernel, errno.EADDRNOTAVAIL, options=options)
    assert "192.0.2.77 (-w) is not an address of this host" in str(error)


def test_secrets_stay_secret(kernel: FakeKernel) -> None:
    """The kernel logs keys that it cannot parse."""
    key = Key(b"k" * 32)
    secret = key.text()
    kernel.known = None
    options = FabricsOptions(traddr="192.0.2.1", nqn=NQN, dhchap_secret=key)
    line = f"nvme_fabrics: Invalid DH-CHAP secret {secret}"
    error = explained(kernel, errno.EINVAL, line, options=options)
    assert "Invalid DH-CHAP secret ..." in str(error)
    assert secret not in str(error) + str(error.log) + str(options)


# ---- no target ----

REJECTED = "nvme nvme0: Connect rejected: status -111 (refused by remote application)."
UNREACHED = "nvme nvme0: rdma connection establishment failed (-104)"


@pytest.mark.parametrize(
    ("line", "answer", "said"),
    [
        (REJECTED, Answer.REFUSED, ["refused (refused by remote application, -111)", "no NVMe-oF"]),
        (REJECTED, Answer.OPEN, ["iWARP does not reach RoCE"]),
        (REJECTED, Answer.NVME_TCP, ["answers as NVMe over TCP", "nvme connect -t tcp"]),
        (UNREACHED, Answer.REFUSED, ["found no listener there (ECONNRESET)", "no NVMe-oF target"]),
        (UNREACHED, Answer.SILENT, ["192.0.2.1 does not answer", "the network are up"]),
    ],
)
def test_nobody(
    kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch, line: str, answer: Answer, said: list[str]
) -> None:
    monkeypatch.setattr(words, "find_route", lambda *_: HERE)
    monkeypatch.setattr(words, "ask_tcp", lambda *_: answer)
    error = explained(kernel, errno.ECONNRESET, line)
    assert all(one in str(error) for one in said), error


@pytest.mark.parametrize(
    ("count", "line", "said"),
    [
        (
            4,
            "nvme nvme0: Connect rejected: status -104 (reset by remote host).",
            "then one of 4 I/O queues was refused (reset by remote host, -104); the target may",
        ),
        (1, UNREACHED, "then the I/O queue was not connected (ECONNRESET); the target may"),
    ],
)
def test_one_queue(kernel: FakeKernel, count: int, line: str, said: str) -> None:
    """The target exists, because it accepted the admin queue: its port is not checked."""
    error = explained(
        kernel, errno.ECONNRESET, f"nvme nvme0: creating {count} I/O queues.", line, UNREACHED
    )
    assert f"the admin queue was connected, and {said}" in str(error), error
    assert "ask for fewer with -i" in str(error)


@pytest.mark.parametrize(
    ("route", "said"),
    [
        (
            Route("192.0.2.9", "eth0", (), frozenset()),
            ["this host has no RDMA device", "rdma link add siw0 type siw netdev eth0"],
        ),
        (Route(None, None, ("siw0",), frozenset()), ["no route to 192.0.2.1", "ip route"]),
        (
            Route("192.0.2.9", "eth1", ("siw0",), frozenset({"eth0"})),
            ["uses eth1, which is not an RDMA device", "netdev eth1"],
        ),
    ],
)
def test_no_way(
    kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch, route: Route, said: list[str]
) -> None:
    monkeypatch.setattr(words, "find_route", lambda *_: route)
    error = explained(kernel, errno.ECONNRESET, UNREACHED)
    assert all(one in str(error) for one in said), error
    assert all(one in str(explained(kernel, errno.ENODEV)) for one in said)


# ---- the owner of a TCP port ----


@contextmanager
def _answering(answer: bytes | None) -> Iterator[str]:
    """A TCP port whose owner reads 128 bytes, sends this answer, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                got = peer.recv(128, socket.MSG_WAITALL)
                assert got[:8] == bytes([0, 0, 128, 0, 128, 0, 0, 0])
                if answer:
                    peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield str(listener.getsockname()[1])
        thread.join()


def test_probe() -> None:
    with _answering(bytes([1, 0, 128, 0, 128, 0, 0, 0]).ljust(128, b"\0")) as port:
        assert ask_tcp("127.0.0.1", port, within=30) is Answer.NVME_TCP
    with _answering(None) as port:
        assert ask_tcp("127.0.0.1", port, within=30) is Answer.OPEN
    with _answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert ask_tcp("127.0.0.1", port, within=30) is Answer.OPEN
    assert ask_tcp("127.0.0.1", str(free_port()), within=30) is Answer.REFUSED


# ---- the log ----


def test_log(tmp_path: Path) -> None:
    """Records of the NVMe drivers, except those of other controllers."""
    import os

    path = tmp_path / "kmsg"
    os.mkfifo(path)
    log = KernelLog(path)
    assert log.since() == []
    log.mark()
    with path.open("wb", buffering=0) as writer:
        writer.write(b"3,812,5140900,-;nvme nvme1: Connect rejected\n SUBSYSTEM=nvme\n")
        assert log.since() == ["nvme nvme1: Connect rejected"]
    for record in (b"6,813,5140900,-;eth0: link up\n", b"3,814,5140900,-;nvme nvme1: it\n"):
        log.mark()
        with path.open("wb", buffering=0) as writer:
            writer.write(record)
            assert log.since(passing_over={"nvme1"}) == []
    assert KernelLog(tmp_path / "none").since() == []
