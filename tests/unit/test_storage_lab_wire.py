# SPDX-License-Identifier: BSD-3-Clause
"""Faults on the wire: a relay between a client and a target, over real sockets."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from nvmf.errors import Error
from nvmf.initiator import TransportId
from nvmf.initiator.sync import connect
from nvmf.initiator.sync.controller import Controller
from nvmf.lab import describe
from nvmf.lab.errors import LabError
from nvmf.lab.model import TargetSystem, WireFault
from nvmf.lab.serving import NQN, Target, configuration
from nvmf.relay.fault import ActiveFault, Fate, fate_of
from nvmf.relay.frames import FpduStream
from nvmf.relay.relays import Relays
from nvmf.relay.udp import free_address
from support.storagelab import READS, lab

SIZE = 64 << 10
SINGLE = ("drop", "duplicate", "reorder", "corrupt")
"""Faults of single frames."""


def fault(**values: object) -> WireFault:
    return WireFault.model_validate(values)


# ---- what happens to a frame ----


def test_the_same_seed_gives_the_same_faults() -> None:
    def hits(seed: int) -> list[bool]:
        one = ActiveFault(fault(kind="drop", rate=0.3, seed=seed))
        return [not fate_of(b"x", [one], "to-host", 0).copies for _ in range(500)]

    assert hits(1) == hits(1) != hits(2)
    assert 100 < sum(hits(1)) < 200


def test_directions_and_counts() -> None:
    one = ActiveFault(fault(kind="duplicate", direction="to-host", count=2))
    assert fate_of(b"x", [one], "to-target", 0) == Fate([b"x"])
    fates = [fate_of(b"x", [one], "to-host", 0).copies for _ in range(4)]
    assert fates == [[b"x", b"x"]] * 2 + [[b"x"]] * 2
    assert one.hits == 2


def test_a_bit_is_inverted_after_the_first_word() -> None:
    frame = bytes(64)
    one = ActiveFault(fault(kind="corrupt"))
    for _ in range(200):
        (made,) = fate_of(frame, [one], "to-host", 0).copies
        assert made[:4] == bytes(4)
        assert sum(byte.bit_count() for byte in made) == 1


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ({}, 0.001, 0.001),
        ({"distribution": "uniform", "spread_us": 500}, 0.0005, 0.0015),
        ({"distribution": "normal", "spread_us": 100}, 0, 0.002),
        ({"distribution": "exponential"}, 0, 0.1),
    ],
)
def test_delays(values: dict[str, object], low: float, high: float) -> None:
    one = ActiveFault(fault(kind="delay", delay_us=1000, **values))
    found = [fate_of(b"x", [one], "to-host", 0).delay for _ in range(4000)]
    assert low <= min(found) <= max(found) <= high
    assert sum(found) / len(found) == pytest.approx(0.001, rel=0.1)


def test_bandwidth_adds_up() -> None:
    one = ActiveFault(fault(kind="delay", bandwidth=1000))
    delays = [fate_of(bytes(100), [one], "to-host", 5.0).delay for _ in range(3)]
    assert delays == pytest.approx([0.1, 0.2, 0.3])
    assert fate_of(bytes(100), [one], "to-target", 5.0).delay == pytest.approx(0.1)
    assert fate_of(bytes(100), [one], "to-host", 9.0).delay == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"kind": "drop", "delay_us": 1}, "has no delay"),
        ({"kind": "delay"}, "needs delay_us or bandwidth"),
        ({"kind": "delay", "delay_us": 1, "distribution": "normal"}, "needs spread_us"),
        ({"kind": "stall", "begin": 1, "rate": 0.5}, "has no rate"),
        ({"kind": "stall"}, "needs begin"),
        ({"kind": "drop", "seconds": 1}, "seconds needs begin"),
        ({"kind": "half-open", "begin": 1, "direction": "to-host"}, "both directions"),
    ],
)
def test_impossible_faults(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        WireFault.model_validate(values)


def test_devices_without_them(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    for device, kind, complaint in (
        ("system", "drop", "no faults on the wire"),
        ("roce", "cut", "RoCEv2 has no reset"),
    ):
        text = f'[[system]]\nname = "a"\nkind = "target"\ndevice = "{device}"\n'
        path.write_text(f'{text}[[system.wire]]\nkind = "{kind}"\nbegin = 1\n{READS}')
        with pytest.raises(LabError, match=complaint):
            describe.load(path)


def test_fpdus_are_told_apart_however_they_arrive() -> None:
    request = b"MPA ID Req Frame" + bytes((0x40, 1)) + (6).to_bytes(2) + b"abcdef"
    fpdus = [len(body).to_bytes(2) + body + bytes(-(2 + len(body)) % 4 + 4) for body in
             (b"x" * 18, b"y" * 1, b"z" * 1400)]  # fmt: skip
    data = request + b"".join(fpdus)
    for step in (1, 7, 100, len(data)):
        stream = FpduStream()
        found = []
        for at in range(0, len(data), step):
            found += stream.receive(data[at : at + step])
        assert found == [(request, False), *((one, True) for one in fpdus)]
        assert stream.receive(b"\0") == []
        assert stream.rest() == b"\0"
    assert FpduStream().receive(b"GET / HTTP/1.0\r\n") == [(b"GET / HTTP/1.0\r\n", False)]


# ---- a target behind a relay ----


@contextmanager
def relayed(folder: Path, device: str) -> Iterator[tuple[Relays, TransportId]]:
    """A target in memory behind a relay, and the relay's address."""
    system = TargetSystem.model_validate(
        {"name": "a", "kind": "target", "size": "16MiB", "device": device}
    )
    config = folder / "target.toml"
    config.write_text(configuration(system, None))
    target = Target("a", config, folder / "log")
    try:
        relay = Relays()
        try:
            host, port = relay.open(device, (target.traddr, int(target.trsvcid)))
            yield relay, TransportId(host, str(port), NQN, {"device": device})
        finally:
            relay.close()
    finally:
        target.close()


@contextmanager
def connected(where: TransportId) -> Iterator[Controller]:
    with connect(
        where, queues=1, reconnect_delay=0.1, ctrl_loss_tmo=120.0, io_timeout=5.0, kato=5.0
    ) as controller:
        yield controller


def exchange(controller: Controller, rounds: int = 8) -> None:
    """Write and read; a lost connection is replaced, and the data is that which was written."""
    disk = controller.namespace(1)
    late = time.monotonic() + 120
    for number in range(rounds):
        data = os.urandom(SIZE)
        while True:
            try:
                disk.pwrite(data, number * SIZE)
                assert disk.pread(SIZE, number * SIZE) == data
                break
            except (Error, OSError):
                assert time.monotonic() < late
                time.sleep(0.05)


@pytest.mark.parametrize("device", ["iwarp", "roce"])
def test_a_relay_without_faults_changes_nothing(tmp_path: Path, device: str) -> None:
    with relayed(tmp_path, device) as (_, where), connected(where) as controller:
        exchange(controller)
        assert controller.reconnects == 0


def test_roce_targets_have_addresses_of_their_own(tmp_path: Path) -> None:
    """A relay and a target each have one that no other process has."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        relayed(tmp_path / "one", "roce") as (_, first),
        relayed(tmp_path / "two", "roce") as (_, where),
    ):
        assert first.traddr != where.traddr
        with connected(where) as controller:
            exchange(controller, 1)


def test_a_target_that_does_not_start_is_a_sentence(tmp_path: Path) -> None:
    """The address of RoCEv2 belongs to a different program."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        address = free_address()
        other.bind((address, 4791))
        taken = {"name": "b", "kind": "target", "device": "roce", "traddr": address}
        config = tmp_path / "taken.toml"
        config.write_text(configuration(TargetSystem.model_validate(taken), None))
        with pytest.raises(LabError, match=r"system b: the target did not start: .*in use"):
            Target("b", config, tmp_path / "log").close()


@pytest.mark.parametrize("kind", SINGLE)
def test_roce_repairs_single_faults(tmp_path: Path, kind: str) -> None:
    with relayed(tmp_path, "roce") as (relay, where), connected(where) as controller:
        one = relay.begin(fault(kind=kind, rate=0.05, seed=3, count=20))
        exchange(controller)
        relay.end(one)
        assert one.hits >= 3
        assert controller.reconnects == 0


@pytest.mark.parametrize("kind", ["drop", "duplicate", "reorder", "cut"])
def test_iwarp_ends_the_connection_and_the_client_makes_a_new_one(
    tmp_path: Path, kind: str
) -> None:
    """TCP repairs what is lost on a real wire: a frame that is missing is an error.

    The frame may be one of the admin queue, which only the keep-alive notices.
    """
    with relayed(tmp_path, "iwarp") as (relay, where), connected(where) as controller:
        one = relay.begin(fault(kind=kind, begin=0, count=1, direction="to-target"))
        exchange(controller)
        assert one.hits == 1
        if kind != "reorder":  # a frame that no other frame follows is only late
            late = time.monotonic() + 120
            while controller.reconnects < 1:
                assert time.monotonic() < late
                time.sleep(0.05)


@pytest.mark.parametrize("device", ["iwarp", "roce"])
def test_a_delay_and_a_bandwidth_slow_the_exchange(tmp_path: Path, device: str) -> None:
    with relayed(tmp_path, device) as (relay, where), connected(where) as controller:
        one = relay.begin(fault(kind="delay", delay_us=20000, direction="to-host"))
        began = time.monotonic()
        controller.namespace(1).pread(512, 0)
        assert time.monotonic() - began >= 0.02  # never less than asked for
        relay.end(one)
        relay.begin(fault(kind="delay", bandwidth=1 << 20))
        began = time.monotonic()
        controller.namespace(1).pread(SIZE, 0)
        assert time.monotonic() - began >= SIZE / (1 << 20)
        assert controller.reconnects == 0


@pytest.mark.parametrize("device", ["iwarp", "roce"])
@pytest.mark.parametrize("way", ["to-target", "to-host"])
def test_a_direction_that_stalls_goes_on(tmp_path: Path, device: str, way: str) -> None:
    with relayed(tmp_path, device) as (relay, where), connected(where) as controller:
        began = time.monotonic()  # earlier than the fault: a machine that stalls makes it longer
        relay.begin(fault(kind="stall", direction=way, begin=0, seconds=0.5))
        controller.namespace(1).pread(512, 0)
        assert time.monotonic() - began >= 0.3
        exchange(controller)


@pytest.mark.parametrize("device", ["iwarp", "roce"])
def test_a_half_open_connection_is_noticed_and_replaced(tmp_path: Path, device: str) -> None:
    """The relay neither answers nor ends: the client's own time limits detect it."""
    with relayed(tmp_path, device) as (relay, where), connected(where) as controller:
        exchange(controller, 1)
        relay.begin(fault(kind="half-open", begin=0, seconds=1))
        exchange(controller, 2)
        if device == "iwarp":
            assert controller.reconnects >= 1


# ---- in a description ----


@pytest.mark.usefixtures("fio", "fio_engine")
def test_a_run_marks_faults_on_the_wire(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(
        '[[system]]\nname = "ram"\nkind = "target"\nsize = "16MiB"\n'
        '[[system.wire]]\nkind = "delay"\ndelay_us = 500\n'
        '[[system.wire]]\nkind = "stall"\ndirection = "to-host"\nbegin = 0.3\nseconds = 0.3\n'
        '[[workload]]\nname = "reads"\niodepth = 4\n'
        "[method]\nruntime = 1.5\nrounds = 2\ntimeout = 120\n"
    )
    out = tmp_path / "out"
    done = lab("run", path, "-d", out)
    assert done.returncode == 0, done.stderr
    database = sqlite3.connect(out / "results.sqlite")
    events = database.execute("SELECT said, begin_ms, end_ms FROM event").fetchall()
    (least,) = database.execute("SELECT min(mean_ns) FROM round").fetchone()
    database.close()
    assert [said for said, _, _ in events] == [
        "on the wire: frames wait for the end of the fault, to the host"
    ] * 2
    assert all(begin >= 300 and end == begin + 300 for _, begin, end in events)
    assert least >= 1_000_000  # 0.5 ms in each direction
    pytest.importorskip("matplotlib")
    done = lab("report", out)
    assert done.returncode == 0, done.stderr
    text = (out / "report.html").read_text()
    assert "fault: on the wire: frames wait" in text
    assert "behind a relay" in text
    assert "Fault on purpose, system ram: on the wire: frames are delayed, by 500 us." in text
