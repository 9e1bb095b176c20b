#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rates of our target and of nvmet-rdma, with the same host in the guest.

Both serve memory (nvmet a RAM disk of brd, ours its ``ram`` store) to the guest's own nvme-rdma
over the same RDMA device, one after the other, in turns.  The guest is emulated: no figure means
anything by itself, only the ratio of two that were taken next to each other does.

Run it by ``./dev lab --bench``.  With NVMF_LAB_ACCEL=tcg,thread=single and NVMF_LAB_ICOUNT=2 the
guest counts instructions, and the ratios of two runs differ by 2 % instead of 20 %; a target that
spins takes the emulator's only thread then, so that depth 1 says nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import bench_rxe, network
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import BlockDevice, KernelHost
from lab.network import CannotRun, Network
from lab.nvmet import SUBNQN, KernelTarget
from lab.ours import served
from lab.prepare import SERIES, prepared, series_of
from lab.running import GuestError

NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000004e"
SERVICE = 4421
DISK_MIB = 128
OURS = f"""
[target]
reactors = 1

[[port]]
traddr = "{network.GUEST}"
trsvcid = {SERVICE}
device = "system"

[[subsystem]]
nqn = "{NQN}"
allow_any_host = true

[[subsystem.namespace]]
nsid = 1
store = "ram"
size = "{DISK_MIB}MiB"
block_size = 4096
"""


@dataclass(frozen=True)
class Workload:
    """One row of the table."""

    rw: str
    block: str
    depth: int

    def __str__(self) -> str:
        return f"{self.block} {self.rw} qd{self.depth}"


WORKLOADS = (
    Workload("randread", "4k", 1),
    Workload("randread", "4k", 32),
    Workload("randwrite", "4k", 1),
    Workload("randwrite", "4k", 32),
    Workload("read", "128k", 8),
    Workload("write", "128k", 8),
)


@dataclass(frozen=True)
class Row:
    """The content of --json: the rates of the rounds, in the order of measurement."""

    kernel: str
    device: str
    workload: str
    nvmet_iops: list[float]
    ours_iops: list[float]

    @property
    def ratios(self) -> list[float]:
        """The ratio of our rate to nvmet's in each round."""
        pairs = zip(self.ours_iops, self.nvmet_iops, strict=True)
        return [ours / nvmet for ours, nvmet in pairs]


@dataclass(frozen=True)
class WayRow:
    """The same for our target over rxe and over the embedded RoCEv2 device, see bench_rxe."""

    kernel: str
    workload: str
    rxe_iops: list[float]
    embedded_iops: list[float]

    @property
    def ratios(self) -> list[float]:
        """The ratio of the rate over the embedded device to that over rxe in each round."""
        pairs = zip(self.embedded_iops, self.rxe_iops, strict=True)
        return [embedded / rxe for embedded, rxe in pairs]


class RamDisk(KernelTarget):
    """nvmet over a RAM disk: brd passes a request to memory with less overhead than null_blk."""

    def _script(self, text: str, *arguments: object) -> None:
        if "nullb$1" in text:
            self.guest.run(
                f"modprobe brd rd_nr=1 rd_size={DISK_MIB << 10}; blockdev --setra 0 /dev/ram0"
                f"; dd if=/dev/zero of=/dev/ram0 bs=1M oflag=direct status=none; true",
                quiet=True,
            )
            return
        super()._script(text.replace("/dev/nullb$disk", "/dev/ram$disk"), *arguments)


@contextmanager
def nvmet(guest: Guest) -> Iterator[KernelHost]:
    """Start the kernel's target; yield the host that is connected to it."""
    with RamDisk(guest, network.GUEST, service=SERVICE, block_sizes=(4096,)) as target:
        host = KernelHost(guest, target.address, SERVICE)
        with host.connected(target.nqn, "-i", "1", "-Q", "128"):
            yield host


@contextmanager
def ours(guest: Guest) -> Iterator[KernelHost]:
    """Start our target on the guest's RDMA device; yield the host that is connected to it."""
    with served(guest, OURS):
        host = KernelHost(guest, network.GUEST, SERVICE)
        with host.connected(NQN, "-i", "1", "-Q", "128"):
            yield host


def measure(guest: Guest, device: BlockDevice, workload: Workload, seconds: int) -> float:
    """Return the commands per second."""
    done = guest.run(
        f"fio --name=rate --filename={device.path} --ioengine=libaio --direct=1 --thread"
        f" --rw={workload.rw} --bs={workload.block} --iodepth={workload.depth} --norandommap"
        f" --time_based --ramp_time=1 --runtime={seconds} --output-format=json",
        timeout=60 + 10 * seconds,
        quiet=True,
    )
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return float(job["read"]["iops"] + job["write"]["iops"])


def compare(guest: Guest, kind: str, rounds: int, seconds: int) -> list[Row]:
    """Measure every workload on one device, with both targets in turn."""
    use_device(guest, kind)
    rates: dict[str, dict[Workload, list[float]]] = {
        name: {workload: [] for workload in WORKLOADS} for name in ("nvmet", "ours")
    }
    for number in range(1, rounds + 1):
        for name, serving, nqn in (("nvmet", nvmet, SUBNQN), ("ours", ours, NQN)):
            with serving(guest) as host:
                device = host.devices(nqn)[0]
                for workload in WORKLOADS:
                    rate = measure(guest, device, workload, seconds)
                    rates[name][workload].append(rate)
                    print(f"  round {number} of {rounds}, {kind}, {name}: {workload}: {rate:.0f}",
                          file=sys.stderr, flush=True)  # fmt: skip
    return [
        Row(guest.kernel.release, kind, str(w), rates["nvmet"][w], rates["ours"][w])
        for w in WORKLOADS
    ]


def compare_ways(guest: Guest, cable: Network, rounds: int, seconds: int) -> list[WayRow]:
    """Measure our target in the guest on rxe and on the embedded device, in turn."""
    rates: dict[str, dict[Workload, list[float]]] = {
        way: {workload: [] for workload in WORKLOADS} for way in bench_rxe.DEVICES
    }
    for number in range(1, rounds + 1):
        for way, found in rates.items():
            with bench_rxe.serving(guest, way):
                for w in WORKLOADS:
                    rate = bench_rxe.rate(cable, w.rw, w.block, w.depth, seconds)
                    found[w].append(rate)
                    print(f"  round {number} of {rounds}, {way}: {w}: {rate:.0f}",
                          file=sys.stderr, flush=True)  # fmt: skip
    release = guest.kernel.release
    return [WayRow(release, str(w), rates["rxe"][w], rates["embedded"][w]) for w in WORKLOADS]


def table_of_ways(rows: Sequence[WayRow]) -> str:
    """Return the table of compare_ways()."""
    lines = [
        "| kernel | workload | rxe: IOPS | embedded: IOPS | embedded to rxe: median (each) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        each = ", ".join(f"{ratio:.2f}" for ratio in row.ratios)
        rates = [f"{statistics.median(x):,.0f}" for x in (row.rxe_iops, row.embedded_iops)]
        middle = f"{statistics.median(row.ratios):.2f} ({each})"
        lines.append("| " + " | ".join((row.kernel, row.workload, *rates, middle)) + " |")
    return "\n".join(lines)


def table(rows: Sequence[Row]) -> str:
    """Return the table for the terminal and the README."""
    lines = [
        "| kernel | device | workload | nvmet: IOPS | ours: IOPS | ours to nvmet: median (each) |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        each = ", ".join(f"{ratio:.2f}" for ratio in row.ratios)
        middle = statistics.median(row.ratios)
        cells = (row.kernel, row.device, row.workload,
                 f"{statistics.median(row.nvmet_iops):,.0f}",
                 f"{statistics.median(row.ours_iops):,.0f}", f"{middle:.2f} ({each})")  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="./dev lab --bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="times each is measured (3)")
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement (3)")
    parser.add_argument("--device", choices=("rxe", "siw"), help="only this one")
    parser.add_argument(
        "--embedded", action="store_true",
        help="instead, our target in the guest on the embedded RoCEv2 device beside rxe",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there too")
    parser.add_argument("-o", "--output-format", choices=("normal", "json"), default="normal")
    args = parser.parse_args()
    series = (os.environ.get("NVMF_LAB_KERNELS") or SERIES[0]).split()
    rows: list[Row] = []
    ways: list[WayRow] = []
    try:
        cable = Network()
    except CannotRun as error:
        print(f"lab --bench: {error}", file=sys.stderr)
        return 1
    try:
        for name in series:
            kernel = prepared(series_of(name))
            if kernel is None:
                raise CannotRun(f"kernel {name} is not prepared: ./dev lab does that.")
            with Guest(kernel, cable) as guest:
                if args.embedded:
                    ways += compare_ways(guest, cable, args.rounds, args.seconds)
                    continue
                for kind in (args.device,) if args.device else ("rxe", "siw"):
                    rows += compare(guest, kind, args.rounds, args.seconds)
    except (CannotRun, GuestError) as error:
        print(f"lab --bench: {error}", file=sys.stderr)
        return 1
    finally:
        cable.close()
    found: list[Row | WayRow] = [*rows, *ways]
    figures = json.dumps([asdict(row) | {"ratios": row.ratios} for row in found], indent=2)
    if args.json:
        args.json.write_text(figures + "\n")
    text = table_of_ways(ways) if args.embedded else table(rows)
    print(figures if args.output_format == "json" else text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
