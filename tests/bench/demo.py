#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The main job, end to end: serve a file over NVMe-oF/RDMA and let fio verify it: ./dev demo.

No RDMA hardware, no kernel module, no privilege: target and initiator run on the embedded iWARP
device, whose bytes on the wire are those of a real one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.harness import MIB, NQN, Fio, HarnessError, Target, configuration, cpus, machine

FILE_BYTES = 1024 * MIB
VERIFY_BYTES = 256 * MIB
TABLE = (
    ("4 KiB random read", "randread", 4096, 1),
    ("4 KiB random read", "randread", 4096, 32),
    ("4 KiB random write", "randwrite", 4096, 32),
    ("128 KiB sequential read", "read", 131072, 8),
    ("128 KiB sequential write", "write", 131072, 8),
)


def step(text: str) -> None:
    print(f"\n==> {text}", flush=True)


def make_file(path: Path) -> None:
    """A gigabyte whose blocks are really there, so that no figure is one of holes."""
    step(f"Making {path}, {FILE_BYTES // MIB} MiB on disk")
    free = shutil.disk_usage(path.parent).free
    if free < FILE_BYTES + 64 * MIB:
        raise HarnessError(
            f"{path.parent} has {free // MIB} MiB free, and the file needs {FILE_BYTES // MIB}: "
            "name another directory with --dir"
        )
    block = os.urandom(4 * MIB)
    started = time.monotonic()
    with path.open("wb", buffering=0) as file:
        for _ in range(FILE_BYTES // len(block)):
            file.write(block)
        os.fsync(file.fileno())
    took = time.monotonic() - started
    print(f"    written in {took:.1f} s ({FILE_BYTES / took / 1e6:.0f} MB/s)")


def discover(target: Target) -> None:
    """Show the discovery log of the target, as a new user does first."""
    command = ["discover", "-t", "rdma", "-a", target.address, "-s", str(target.port)]
    step(f"nvmeof {' '.join(command)}")
    done = subprocess.run(
        [sys.executable, "-m", "nvmf.cli.main", *command],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    print("".join(f"    {line}\n" for line in done.stdout.splitlines()), end="")
    if done.returncode:
        raise HarnessError(f"discover failed with status {done.returncode}:\n{done.stderr}")
    if NQN not in done.stdout:
        raise HarnessError(f"the discovery log does not name {NQN}")


def verify(fio: Fio, target: Target) -> None:
    """Write and read blocks of mixed sizes at random places, and verify each by its CRC."""
    step(f"fio: random writes and reads of {VERIFY_BYTES // MIB} MiB, every block checked")
    job = fio.run(
        target,
        "--rw=randrw",
        "--bssplit=4k/60:16k/20:64k/20",
        "--iodepth=32",
        f"--size={VERIFY_BYTES}",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--serialize_overlap=1",
        "--end_fsync=1",
        "--verify_state_save=0",
    )
    wrote, read = job["write"]["io_bytes"], job["read"]["io_bytes"]
    print(
        f"    wrote {wrote / MIB:.0f} MiB, read {read / MIB:.0f} MiB, "
        f"{job['read']['total_ios'] + job['write']['total_ios']} commands: every block is right"
    )


def measure(fio: Fio, target: Target, seconds: int) -> None:
    """Print a short table of rates; ./dev bench prints the complete one."""
    step(f"fio: {seconds} s of each, one polling host core and one polling target core")
    print(f"    {'':<26} {'depth':>5} {'IOPS':>9} {'MB/s':>8} {'p50 µs':>9} {'p99 µs':>9}")
    pair = cpus()
    for name, rw, block, depth in TABLE:
        job = fio.run(
            target,
            f"--rw={rw}",
            f"--bs={block}",
            f"--iodepth={depth}",
            f"--runtime={seconds}",
            "--time_based=1",
            "--norandommap=1",
            "--lat_percentiles=1",
            "--percentile_list=50:99",
            *([f"--cpus_allowed={pair[0]}"] if pair else []),
        )
        side: dict[str, Any] = job["write" if rw.endswith("write") else "read"]
        p50, p99 = (side["lat_ns"]["percentile"][k] / 1000 for k in ("50.000000", "99.000000"))
        print(
            f"    {name:<26} {depth:>5} {side['iops']:>9.0f} {side['bw_bytes'] / 1e6:>8.0f} "
            f"{p50:>9.1f} {p99:>9.1f}",
            flush=True,
        )


def run(folder: Path, seconds: int) -> None:
    fio = Fio.find()
    path = folder / "disk.img"
    make_file(path)
    step("nvmeof target serve: that file, over NVMe-oF/RDMA on the embedded iWARP device")
    with Target(folder, configuration("file", FILE_BYTES, path)) as target:
        print(f"    listening on {target.address}:{target.port}, subsystem {NQN}")
        discover(target)
        verify(fio, target)
        measure(fio, target, seconds)
        step("SIGTERM to the target")
        started = time.monotonic()
        status = target.stop()
        print(f"    it ended with status {status} after {time.monotonic() - started:.2f} s")
        if status:
            raise HarnessError(f"the target ended with status {status}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--dir",
        metavar="DIR",
        type=Path,
        default=Path("/var/tmp"),
        help="where the file is made, and removed again (default: /var/tmp)",
    )
    parser.add_argument("--seconds", type=int, default=2, metavar="S", help="of each measurement")
    args = parser.parse_args()
    print(f"Machine: {machine()}")
    try:
        with tempfile.TemporaryDirectory(prefix="nvmeof-demo-", dir=args.dir) as name:
            run(Path(name), args.seconds)
    except (HarnessError, OSError, subprocess.TimeoutExpired) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return 130
    print("\nThe demonstration succeeded.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
