# SPDX-License-Identifier: BSD-3-Clause
"""nvmeof pmem bench-replicas: a mirror and a log on real targets."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator

import pytest

from nvmf.cli.main import main
from nvmf.initiator.sync import connect
from nvmf.target.sync import serve as serve_sync
from support.clientlab import config

WHERE = "nvme+rdma://127.0.0.1:1/nqn.2026-01.example:x"


def bench(*args: str) -> int:
    try:
        return main(["pmem", "bench-replicas", *args])
    except SystemExit as ending:
        return int(ending.code or 0)


@contextlib.contextmanager
def three() -> Iterator[list[str]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(serve_sync(ram="4MiB")).url for _ in range(3)]


def test_mirror_and_log(capsys: pytest.CaptureFixture[str]) -> None:
    """The log is smaller than the appended data: it is truncated during the run."""
    words = ["--force", "--runtime", "300ms", "--iodepth", "1,8", "--target-pid", str(os.getpid())]
    with three() as urls:
        assert bench(*words, "--bs", "64,4k", "--rwmixread", "50", *urls, "-o", "json") == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["quorum"], found["read_percent"]) == (2, 50)
        assert [row["system"] for row in found["mirror"]] == [
            *["replica"] * 4,
            *["mirror of 3, quorum 2"] * 4,
        ]
        for row in found["mirror"]:
            if row["size"] == 64:
                assert "it writes blocks of" in row["skipped"]
                continue
            assert row["figures"]["ios"] + row["reads"]["ios"] > 0
            assert row["target_cpu_seconds"] >= 0
        assert [(row["size"], row["appenders"]) for row in found["log"]] == [
            (64, 1), (64, 8), (4096, 1), (4096, 8),
        ]  # fmt: skip
        for row in found["log"]:
            assert row["figures"]["ios"] > 0
            assert row["records_per_frame"] > 0
        assert [(row["size"], row["depth"]) for row in found["resync"]] == [(4096, 1), (4096, 8)]
        for row in found["resync"]:
            assert row["limit"] == 32e6
            assert row["slices"] == 1
            assert row["idle_bytes_per_second"] > 0
            assert row["copy_bytes_per_second"] > 0
        for place in urls:
            with connect(place) as controller:  # this host can use them again
                assert not controller.namespace(1).reservations.report().registrants
                controller.namespace(1).write(0, bytes(512))
        assert bench(*words, "--load", "log", "--bs", "32k", "--quorum", "3", *urls) == 0
        said = capsys.readouterr().out
        assert "log of 3, quorum 3" in said
        assert "mirror" not in said


@pytest.mark.parametrize("load", ["mirror", "log", "resync"])
def test_one_namespace_in_two_ways(capsys: pytest.CaptureFixture[str], load: str) -> None:
    words = ["--force", "--runtime", "100ms", "--iodepth", "1", "--bs", "4k", "--load", load]
    with serve_sync(ram="4MiB") as one, connect(one.url) as controller:
        controller.namespace(1).write(0, b"1" * 512)
        for other in (one.url.replace("127.0.0.1", "localhost"), f"{one.url}?queues=1"):
            assert bench(*words, one.url, other) == 1
            said = capsys.readouterr().err
            assert f"{one.url} and namespace 1 of {other} are the same" in said
            assert "Traceback" not in said
        assert controller.namespace(1).read(0, 1) == b"1" * 512  # not used, and not reserved


@pytest.mark.parametrize(
    ("load", "when"), [("mirror", "replica, 4096"), ("log", "log of"), ("resync", "copies")]
)
def test_targets_that_are_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, load: str, when: str
) -> None:
    """The tasks of the load fail with it; the first error is the reason, as a sentence."""
    words = ["--force", "--runtime", "30s", "--iodepth", "4", "--bs", "4k", "--load", load]
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(serve_sync(ram="4MiB")).url for _ in range(2)]

        def say(what: str) -> None:
            if when in what:
                ending.start()

        ending = threading.Timer(0.3, stack.close)
        monkeypatch.setattr("nvmf.cli.pmem.replicas._say", say)
        assert bench(*words, *urls) == 1
        ending.join()
    said = capsys.readouterr().err
    assert "nvmeof pmem bench-replicas: " in said
    assert "Traceback" not in said


def test_many_writes_of_one_call(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--force", "--runtime", "100ms", "--iodepth", "1,4", "--bs", "4k", "--load", "mirror"]
    with three() as urls:
        assert bench(*words, *urls, "-o", "json") == 0
        assert bench(*words, "--rwmixread", "100", "--quorum", "1", *urls) == 0
        told = capsys.readouterr().out
        assert " read " in told
        assert " write " not in told
        assert bench(*words, *urls, "-o", "json") == 0
    every = json.loads(capsys.readouterr().out)["mirror"]
    wires = [row for row in every if "wire" in row["system"]]
    assert len(wires) == 4
    assert all("it exports no memory" in row["skipped"] for row in wires)
    rows = every[4:]
    assert [(row["system"], row["depth"]) for row in rows] == [
        (system + how, depth)
        for system in ("replica", "mirror of 3, quorum 2")
        for how, depth in (("", 1), ("", 4), (", write_many", 4))
    ]
    assert all(row["figures"]["ios"] and row["times_replica"] for row in rows)
    assert all(row["figures"]["ios"] % 4 == 0 for row in rows if "many" in row["system"])
    assert all(row["of_wire"] is None for row in rows)


HOST = "nqn.2026-11.io.example:bench"
EXPORTED = config(f'store = "ram"\nsize = "4MiB"\nmemory = ["{HOST}"]')


def test_the_wire(capsys: pytest.CaptureFixture[str]) -> None:
    """It is measured again after a run that left reservations, and a lost target ends it."""
    words = ["--force", "--runtime", "100ms", "--iodepth", "1,4", "--bs", "4k", "--load", "mirror"]
    with contextlib.ExitStack() as stack:
        served = [stack.enter_context(serve_sync(EXPORTED)) for _ in range(3)]
        urls = [f"{one.url}?hostnqn={HOST}" for one in served]
        for _ in range(2):
            assert bench(*words, *urls, "-o", "json") == 0
            rows = json.loads(capsys.readouterr().out)["mirror"]
            assert [(row["system"], row["depth"]) for row in rows[:4]] == [
                ("wire of 1", 1), ("wire of 3", 1), ("wire of 1", 4), ("wire of 3", 4),
            ]  # fmt: skip
            assert all(row["figures"]["ios"] for row in rows)
            assert [row["of_wire"] for row in rows[:4]] == [1.0] * 4
            assert all(row["of_wire"] > 0 for row in rows)
            # Beside so many processes on this machine, the host sleeps instead of polling.
            words += ["--target-pid", str(os.getpid())] * 64
        assert bench(*words, *urls) == 0
        assert "of wire" in capsys.readouterr().out
        words += ["--load", "log", "--bs", "64", "--log-methods", "nvme-fua,write-send"]
        assert bench(*words, *urls) == 1
        assert "does not confirm" in capsys.readouterr().err
        assert bench(*words, *urls, "--ignore-assumptions") == 0
        said = capsys.readouterr().out
        assert " write-send* " in said
        assert "* the target does not confirm" in said
        stack.close()
        assert bench(*words, *urls) == 1
        assert "127.0.0.1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "match"),
    [
        ((WHERE,), "give --force"),
        (("--force", WHERE, WHERE), "different replicas"),
        (("--force", "--quorum", "2", WHERE), "--quorum must be 1 to 1"),
        (("--force", "--rwmixread", "101", WHERE), "--rwmixread must be"),
        (("--force", "--runtime", "0", WHERE), "--runtime must be"),
        (("--force", "--load", "x", WHERE), "expected some of mirror, log, resync"),
        (("--force", "127.0.0.1"), "127.0.0.1"),
        (("--force", "--log-methods", "floor", WHERE), "expected some of nvme-fua"),
    ],
)
def test_refused(args: tuple[str, ...], match: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(*args) == 2
    said = capsys.readouterr().err
    assert match in said
    assert "Traceback" not in said


def test_a_target_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--force", WHERE) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "127.0.0.1" in said
