# SPDX-License-Identifier: BSD-3-Clause
"""Parts of the benchmarks and the demonstration: a target as a process, fio, the floor."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NQN = "nqn.2026-11.io.example:disk"
IN_CAPSULE = 4096
"""Bytes of data that a command capsule may carry."""
MIB = 1 << 20
_LISTENING = re.compile(r"listening on (\S+):(\d+) \(\S+\)")
_READY_SECONDS = 60.0


class HarnessError(Exception):
    """A measurement is impossible; the message says why."""


def build_directory() -> Path:
    """Return the folder with the programs of this folder, built by ./dev."""
    named = os.environ.get("NVMF_BUILD_DIR")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "build" / "dev"


def cpus() -> tuple[int, int] | None:
    """Return a CPU for the host and one for the target; None if there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else None


def configuration(store: str, size: int, path: Path | None, device: str = "iwarp") -> str:
    """Return the configuration of a target with one namespace on a free port of loopback.

    It has no administration socket: commands for the machine's own target would change this one.
    """
    pair = cpus()
    lines = ["[target]", "reactors = 1"]
    if pair:
        lines.append(f"cpus = [{pair[1]}]")
    lines += ["", "[rpc]", "enabled = false"]
    lines += ["", "[[port]]", 'traddr = "127.0.0.1"', "trsvcid = 0", f'device = "{device}"', ""]
    lines += ["[[subsystem]]", f"nqn = {json.dumps(NQN)}", "allow_any_host = true"]
    lines += [f"in_capsule = {IN_CAPSULE}", "", "[[subsystem.namespace]]", "nsid = 1"]
    lines += [f"store = {json.dumps(store)}", f"size = {size}"]
    if path is not None:
        lines.append(f"path = {json.dumps(str(path))}")
    return "\n".join(lines) + "\n"


class Target:
    """`nvmeof target serve` as a second process; a context manager that ends it.

    An OSError or HarnessError that leaves it becomes a HarnessError with the target's log.
    """

    def __init__(
        self,
        folder: Path,
        text: str,
        *,
        python: str = sys.executable,
        before: Sequence[str] = (),
    ) -> None:
        """before: The words of a command that runs it, as ``ip netns exec NAME``."""
        self.log = folder / "target.log"
        config = folder / "target.toml"
        config.write_text(text)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*before, python, "-m", "nvmf.cli.main", "target", "serve", str(config)],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        self.address, self.port = self._wait_ready()

    def _wait_ready(self) -> tuple[str, int]:
        late = threading.Timer(_READY_SECONDS, self._process.kill)
        late.start()
        try:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                found = _LISTENING.search(line)
                if found:
                    return found[1], int(found[2])
        finally:
            late.cancel()
        self._process.wait()
        raise HarnessError(f"the target did not start:\n{self.log.read_text(errors='replace')}")

    @property
    def pid(self) -> int:
        """Process identifier of the target."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Return the processor time that its threads have used so far."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total * 1e-9

    def stop(self) -> int:
        """End the target by SIGTERM, and return its exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return self._process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if isinstance(value, (HarnessError, OSError)):
            log = self.log.read_text(errors="replace").rstrip()
            raise HarnessError(f"{value}\nThe target's log:\n{log}") from value


@dataclass(frozen=True)
class Fio:
    """fio with our I/O engine."""

    program: str
    engine: str

    @classmethod
    def find(cls) -> Fio:
        """As ./dev names them, or as it would have built them."""
        engine = os.environ.get("NVMF_FIO_ENGINE") or str(build_directory() / "nvmeof-fio.so")
        if not Path(engine).exists():
            raise HarnessError(f"there is no fio engine at {engine}: run ./dev build first")
        return cls(os.environ.get("NVMF_FIO") or "fio", engine)

    def run(self, target: Target, *options: str) -> dict[str, Any]:
        """Run one job, and return its part of fio's JSON; raise HarnessError with fio's message."""
        # fio takes ':' for the end of a file name
        name = f"traddr={target.address} trsvcid={target.port} subnqn={NQN} nsid=1"
        command = [
            self.program,
            f"--ioengine=external:{self.engine}",
            "--filename=" + name.replace(":", "\\:"),
            "--output-format=json",
            "--name=job",
            *options,
        ]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        begin = done.stdout.find("{")
        if done.returncode or begin < 0:
            words = (done.stdout[: max(begin, 0)] + done.stderr).strip() or done.stdout.strip()
            raise HarnessError(f"fio failed with status {done.returncode}:\n{words}")
        job: dict[str, Any] = json.loads(done.stdout[begin:])["jobs"][0]
        if job["error"]:
            raise HarnessError(f"fio: the job ended with error {job['error']}:\n{done.stderr}")
        return job


def floor(
    write: bool, block_size: int, depth: int, seconds: float, random: bool, whole: bool = False
) -> dict[str, Any]:
    """Run the bare exchange of the same bytes: iops, bytes_per_second, p50_us, p99_us.

    whole: with the copy of a write that has arrived into the store.
    """
    words = ["write" if write else "read", block_size, depth, seconds, IN_CAPSULE]
    words += ["random" if random else "sequential", *(["whole"] if whole else [])]
    return _floor("floor", words, seconds)


def floor_many(connections: int, depth: int, seconds: float, store_bytes: int) -> dict[str, Any]:
    """Run the bare exchange of the bytes of 4 KiB reads on many connections: iops, that of
    the slowest and fastest (queue_min_iops, queue_max_iops), p50_us, p99_us.

    depth: reads outstanding on each connection, 16 at most.
    """
    return _floor("floor_many", [connections, depth, seconds, store_bytes], seconds)


def floor_udp(block_size: int, depth: int, seconds: float, icrc: bool = False) -> dict[str, Any]:
    """Run the bare exchange over UDP of the bytes of reads, with the result of floor().

    icrc: with the CRC of the data, which every packet of RoCE has.
    """
    words = [block_size, depth, seconds, *(["icrc"] if icrc else [])]
    return _floor("floor_udp", words, seconds)


def _floor(name: str, words: list[Any], seconds: float) -> dict[str, Any]:
    program = build_directory() / "tests" / "bench" / name
    if not program.exists():
        raise HarnessError(f"there is no {program}: run ./dev build first")
    done = subprocess.run(
        [str(program), *map(str, words)], capture_output=True, text=True, timeout=60 + 3 * seconds
    )
    if done.returncode:
        raise HarnessError(f"the floor failed: {done.stderr.strip()}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def machine() -> str:
    """Return a description of the machine, to be printed with every figure."""
    model = "unknown CPU"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    hypervisor = " hypervisor " in Path("/proc/cpuinfo").read_text()
    count = len(os.sched_getaffinity(0))
    kind = "shared vCPU" if hypervisor else "core"
    return (
        f"{model}, {count} {kind}{'' if count == 1 else 's'}, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )
