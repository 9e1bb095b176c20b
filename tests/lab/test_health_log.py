# SPDX-License-Identifier: BSD-3-Clause
"""nvme-cli reads our error log and SMART log, before the target ends and after it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import block, network
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import Controller, KernelHost
from lab.network import Network
from lab.ours import OursOutside
from lab.waiting import until

LASTING = ("-i", "2", "--reconnect-delay=1", "--ctrl-loss-tmo=600")
FAR = 1 << 40
LBA_OUT_OF_RANGE = 0x4080
"""The status, with Do Not Retry."""
SLBA = 40
"""The byte of a command at which its LBA begins."""
UNIT = 512_000
"""Bytes of a data unit."""

TRAFFIC = ("data_units_written", "data_units_read", "host_write_commands", "host_read_commands")
COUNTS = (*TRAFFIC, "power_cycles", "unsafe_shutdowns", "num_err_log_entries")

Log = dict[str, int]


@pytest.fixture
def target(
    vm: Guest, cable: Network, tmp_path: Path, need_product: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OursOutside]:
    use_device(vm, "siw")
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    one = OursOutside(cable, tmp_path, network.HOST)
    yield one
    one.close()


def smart_log(guest: Guest, controller: Controller, reached: Callable[[Log], bool]) -> Log:
    """Return the SMART log as soon as it satisfies the condition, after connecting."""
    found: list[Log] = []

    def read() -> bool:
        done = guest.run(f"nvme smart-log {controller.path} -o json", check=False)
        if done.status == 0:
            log = done.json()  # in its JSON, numbers of 16 bytes are strings
            found.append({count: int(log[count]) for count in COUNTS})
        return done.status == 0 and reached(found[-1])

    until(read, "the SMART log of another run of the target", state=lambda: found[-1:])
    return found[-1]


def refused_read(guest: Guest, controller: Controller, host: KernelHost) -> int:
    """Send a Read that the engine refuses, check its entry in the error log, and return its
    count.
    """
    device = host.devices(controller.nqn)[0]
    read = f"nvme read {device.path} -s {FAR} -c 0 -z {device.block_size}"
    assert guest.run(read, check=False).status
    entries = guest.run(f"nvme error-log {controller.path} -e 16 -o json").json()["errors"]
    [mine] = [entry for entry in entries if entry["error_count"] and entry["lba"] == FAR]
    assert (mine["status_field"], mine["nsid"]) == (LBA_OUT_OF_RANGE, device.nsid)
    assert mine["sqid"] in (1, 2)
    assert mine["parm_error_location"] == SLBA
    return max(int(entry["error_count"]) for entry in entries)


@pytest.mark.feature("error-log", "smart", "smart-kept")
@pytest.mark.unclean(r"nvme nvme\d+: ")
def test_health_log(target: OursOutside, guest: Guest) -> None:
    """A refused command has an entry; counters survive an orderly end, and SIGKILL."""
    host, nqn = KernelHost(guest, target.address, target.service), target.nqn
    with host.connected(nqn, *LASTING, namespaces=3) as controller:
        device = host.devices(nqn)[2]
        block.pattern(guest, device, 0x5A, 0, 4 * block.MIB)
        block.expect(guest, device, 0x5A, 0, 4 * block.MIB)
        errors = refused_read(guest, controller, host)

        before = smart_log(guest, controller, lambda log: True)
        assert (before["power_cycles"], before["unsafe_shutdowns"]) == (1, 0)
        assert before["num_err_log_entries"] == errors
        for count in ("data_units_written", "data_units_read"):
            assert before[count] * UNIT >= 4 * block.MIB, count

        target.restart(kill=False)
        after = smart_log(guest, controller, lambda log: log["power_cycles"] == 2)
        assert after["unsafe_shutdowns"] == 0
        for count in TRAFFIC:
            assert after[count] >= before[count], count

        target.restart()
        crashed = smart_log(guest, controller, lambda log: log["power_cycles"] == 3)
        assert crashed["unsafe_shutdowns"] == 1
        for count in TRAFFIC:
            assert crashed[count] >= before[count], count
        block.expect(guest, device, 0x5A, 0, 4 * block.MIB)
    target.check()
