# SPDX-License-Identifier: BSD-3-Clause
"""The error log and the SMART log, as read by a host, and their contents after the target was
killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nvmf.cli.main import main
from nvmf.spec.logs import ErrorEntry, SmartLog
from support.served import SUBNQN, TIMEOUT, Served, config
from wire.host import NvmeHost, expect, lba_words
from wire.nvme import Admin, Cqe, Io, Status

Serve = Callable[..., Served]
ERRORS, SMART, ALL = 1, 2, 0xFFFFFFFF
MORE = 0x4000
"""More, in the status field of the CQE."""


def log_page(host: NvmeHost, lid: int, size: int, nsid: int = ALL) -> bytes:
    words = (lid | (size // 4 - 1) << 16,)
    cqe, data = host.admin.call_read(Admin.GET_LOG_PAGE, size, nsid=nsid, cdw=words)
    expect(cqe)
    return data


def errors(host: NvmeHost) -> list[ErrorEntry]:
    """Return the entries, the newest first; at most as many as ELPE says."""
    most = host.identify(1)[262] + 1
    data = log_page(host, ERRORS, most * 64)
    found = [ErrorEntry.decode(data[at : at + 64]) for at in range(0, len(data), 64)]
    return [entry for entry in found if entry.error_count]


def smart(host: NvmeHost, nsid: int = ALL) -> SmartLog:
    return SmartLog.decode(log_page(host, SMART, 512, nsid))


def with_state(state: Path) -> str:
    return config().replace("[target]\n", f'[target]\nstate_dir="{state}"\n', 1)


def has_more(cqe: Cqe) -> bool:
    """Whether the completion says that the error log has an entry for it."""
    return bool(cqe.raw_status & MORE)


# ---- the error log ----


@pytest.mark.feature("error-log")
def test_what_the_engine_refused(serve: Serve) -> None:
    target = serve(config(reactors=2))
    with (
        NvmeHost(target.address, SUBNQN).connect(io_queues=2) as host,
        NvmeHost(target.address, SUBNQN).connect() as other,
    ):
        one, two = host.queues[1], host.queues[2]
        far = 1 << 40
        beyond, _ = one.call_read(Io.READ, 512, nsid=1, cdw=lba_words(far, 1))
        absent, _ = two.call_read(Io.READ, 512, nsid=7, cdw=lba_words(5, 1))
        longer = one.call_write(Io.WRITE, bytes(1024), nsid=1, cdw=lba_words(5, 1))
        handled, _ = one.call_read(0x86, 512, nsid=1)
        unknown, _ = host.admin.call_read(Admin.IDENTIFY, 4096, cdw=(0xFF,))
        refused = [beyond, absent, longer, handled, unknown]
        found = errors(host)[::-1]
        assert [(entry.sqid, entry.cid) for entry in found] == [
            (1, beyond.cid), (2, absent.cid), (1, longer.cid), (1, handled.cid), (0, unknown.cid)
        ]  # fmt: skip
        assert [entry.error_count for entry in found] == [1, 2, 3, 4, 5]
        assert all(has_more(cqe) for cqe in refused)
        assert [entry.status_field for entry in found] == [c.raw_status & ~MORE for c in refused]
        assert [entry.nsid for entry in found] == [1, 7, 1, 1, 0]
        assert [entry.lba for entry in found] == [far, 5, 5, 0, 0]
        assert [entry.parameter_error_location for entry in found[:3]] == [40, 4, 24]
        assert [entry.opcode for entry in found] == [2, 2, 1, 0x86, 6]
        assert smart(host).error_log_entries == 5

        different = one.call_write(Io.COMPARE, b"x" * 512, nsid=1, cdw=lba_words(5, 1))
        assert different.status == Status.COMPARE_FAILURE
        assert not has_more(different), "a miscompare is an answer"
        assert smart(host).error_log_entries == 5
        assert errors(other) == []
        assert smart(other).error_log_entries == 0


def test_more_errors_than_entries(serve: Serve) -> None:
    target = serve()
    with NvmeHost(target.address, SUBNQN).connect() as host:
        for number in range(100):
            host.queues[1].call_read(Io.READ, 512, nsid=1, cdw=lba_words((1 << 40) + number, 1))
        found = errors(host)
        assert [entry.error_count for entry in found] == list(range(100, 84, -1))
        assert [entry.lba & 0xFF for entry in found] == list(range(99, 83, -1))
        assert smart(host).error_log_entries == 100


# ---- the SMART log over runs of the target ----


def traffic(host: NvmeHost) -> None:
    """2 Writes, 3 Reads and a Compare: 7 data units written, and 11 read with a Verify."""
    queue, block = host.queues[1], bytes(512 * 1000)
    for lba in (0, 1000):
        expect(queue.call_write(Io.WRITE, block * (1 + (lba > 0)), nsid=1,
                                cdw=lba_words(lba, 1000 * (1 + (lba > 0)))))  # fmt: skip
    for _ in range(3):
        host.read(0, 1000)
    expect(queue.call_write(Io.COMPARE, block, nsid=1, cdw=lba_words(0, 1000)))


def units(log: SmartLog) -> tuple[int, ...]:
    return (log.data_units_written, log.data_units_read, log.host_write_commands,
            log.host_read_commands)  # fmt: skip


@pytest.mark.feature("smart", "smart-kept")
def test_counters_outlive_the_target(serve: Serve, tmp_path: Path) -> None:
    text = with_state(tmp_path / "state")
    for run in (1, 2):
        target = serve(text)
        with NvmeHost(target.address, SUBNQN).connect() as host:
            traffic(host)
            found = smart(host)
            assert units(found) == (3 * run, 4 * run, 2 * run, 4 * run)
            assert units(smart(host, 1)) == units(found), "it is the only namespace"
            assert (found.power_cycles, found.unsafe_shutdowns) == (run, 0)
        assert target.end() == 0
    target = serve(text)
    target.kill()
    target = serve(text)
    with NvmeHost(target.address, SUBNQN).connect() as host:
        found = smart(host)
        assert (found.power_cycles, found.unsafe_shutdowns) == (4, 1)
        assert units(found) == (6, 8, 4, 8), "what was kept before the crash is there"
    assert target.end() == 0


def test_a_damaged_file(serve: Serve, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    damaged = b'{"crc32": 5, "health": {'
    (state / "health.json").write_bytes(damaged)
    (state / "discovery-generation").write_bytes(b"rubbish")
    target = serve(with_state(state))
    with NvmeHost(target.address, SUBNQN).connect() as host:
        assert (smart(host).power_cycles, host.read(0, 1)) == (1, bytes(512))
    for name in ("health.json", "discovery-generation"):
        assert f"{state / name} is damaged" in target.log
        assert (state / f"{name}.damaged-1").exists()
    assert (state / "health.json.damaged-1").read_bytes() == damaged
    assert target.end() == 0


def test_a_full_disk(serve: Serve, tmp_path: Path) -> None:
    """The state folder is on a file system with room for one page, and later for more."""
    if os.geteuid() or not shutil.which("nsenter"):
        pytest.skip("root and nsenter(1) are needed to have a file system that is full")
    state = tmp_path / "state"
    state.mkdir()
    room = f'mount -t tmpfs -o size=4k tmpfs "{state}" && exec "$@"'
    probe = subprocess.run(["unshare", "--mount", "--", "sh", "-c", room, "sh", "true"],
                           capture_output=True, timeout=TIMEOUT, check=False)  # fmt: skip
    if probe.returncode:
        pytest.skip(f"no file system can be mounted: {probe.stderr.decode()}")
    target = serve(with_state(state), wrapper=("unshare", "--mount", "--", "sh", "-c", room, "sh"))
    sentence = "health.json cannot be written (No space left on device)"

    def add(number: int) -> None:
        words = ["target", "subsystem", "add", f"nqn.2026-11.io.example:{number}"]
        assert main([*words, "--rpc-socket", str(target.rpc_socket), "-o", "json"]) == 0

    with NvmeHost(target.address, SUBNQN).connect() as host:
        for number in range(3):
            add(number)
        assert target.log.count(sentence) == 1, target.log
        host.write(0, b"w" * 512)
        assert host.read(0, 1) == b"w" * 512
        subprocess.run(["nsenter", "-t", str(target.process.pid), "-m", "mount", "-o",
                        "remount,size=1m", str(state)], timeout=TIMEOUT, check=True)  # fmt: skip
        add(3)
        deadline = time.monotonic() + TIMEOUT
        while "health.json can be written again" not in target.log:
            assert time.monotonic() < deadline, target.log
            time.sleep(0.02)
        assert target.log.count(sentence) == 1
    assert target.end() == 0


# ---- a kill directly after an answer ----


def test_an_answered_reservation_outlives_a_kill(serve: Serve, tmp_path: Path) -> None:
    text = with_state(tmp_path / "state")
    hostid, key, report = b"h" * 16, (77).to_bytes(8, "little"), 0x0E
    steps: list[tuple[int, int, bytes]] = [
        (Io.RESERVATION_REGISTER, 3 << 30, bytes(8) + key),
        (0x11, 1 << 8, key + bytes(8)),
        (0x15, 1 << 8, key),
    ]
    for number, (opcode, word, data) in enumerate(steps):
        target = serve(text)
        with NvmeHost(target.address, SUBNQN, hostid=hostid).connect() as host:
            expect(host.queues[1].call_write(opcode, data, nsid=1, cdw=(word,)))
            target.kill()
        target = serve(text)
        with NvmeHost(target.address, SUBNQN, hostid=hostid).connect() as host:
            cqe, found = host.queues[1].call_read(report, 128, nsid=1, cdw=(31, 1))
            expect(cqe)
            registrants = int.from_bytes(found[5:7], "little")
            assert (registrants, found[4], found[9]) == (1, int(number == 1), 1)
        assert target.end() == 0
