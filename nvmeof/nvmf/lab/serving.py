# SPDX-License-Identifier: BSD-3-Clause
"""Processes and commands of systems: a target of ours as a second process, shell commands, ssh."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from nvmf.children import bound
from nvmf.initiator.base.identity import host_identity
from nvmf.lab.errors import LabError
from nvmf.lab.model import TargetSystem
from nvmf.relay.errors import RelayError
from nvmf.relay.udp import free_address

NQN = "nqn.2026-11.io.nvmeof-rdma:lab"
"""Subsystem of a served target."""
_READY_SECONDS = 120.0


def run_command(command: str, ssh: str | None, log: Path, what: str) -> None:
    """Run a shell command, on another machine if ssh names one; its output goes to log.

    Raises:
        LabError: It failed; with its last line.
    """
    words = ["ssh", "-o", "BatchMode=yes", ssh, command] if ssh else ["/bin/sh", "-c", command]
    with log.open("ab") as output:
        output.write(f"+ {command}\n".encode())
        output.flush()
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    if done.returncode:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        where = f" on {ssh}" if ssh else ""
        raise LabError(
            f"{what} failed{where} with status {done.returncode}: {lines[-1]} (all of its output: "
            f"{log})"
        )


def legs_of(system: TargetSystem) -> list[TargetSystem]:
    """Return the systems of the legs of a mirror: RAM."""
    count = (system.replicas or 3) if system.store == "mirror" else 0
    plain = {"store": "ram", "replicas": None, "quorum": None, "faults": (), "wire": ()}
    return [
        system.model_copy(update={**plain, "name": f"{system.name}-leg{number}", "options": {}})
        for number in range(1, count + 1)
    ]


def configuration(
    system: TargetSystem, cpus: list[int] | None, legs: Sequence[str] = (), *, sleeps: bool = False
) -> str:
    """Return the TOML configuration of a target that serves one namespace on a free port.

    RoCEv2 has one port, and an address belongs to one process: without traddr, it is a free one.

    Args:
        system: The system.
        cpus: Processors of its reactors.
        legs: URLs of the legs of a mirror.
        sleeps: A reactor without work sleeps at once: there are more processes than processors.

    Raises:
        LabError: There is none.
    """
    own = system.device == "roce" and "traddr" not in system.model_fields_set
    try:
        traddr = free_address() if own else system.traddr
    except RelayError as error:
        raise LabError(f"system {system.name}: {error}") from None
    store = system.store or "ram"
    lines = ["[target]", f"reactors = {system.reactors}"]
    if sleeps:
        lines.append("spin_us = 0")
    if cpus:
        lines.append(f"cpus = {json.dumps(cpus)}")
    lines += ["", "[[port]]"]
    lines += [f"traddr = {json.dumps(traddr)}", "trsvcid = 0", f'device = "{system.device}"']
    lines += ["", "[[subsystem]]", f"nqn = {json.dumps(NQN)}", "allow_any_host = true"]
    lines += ["", "[[subsystem.namespace]]", "nsid = 1", f"store = {json.dumps(store)}"]
    lines.append(f"block_size = {system.block_size}")
    if store in ("ram", "null"):
        lines.append(f"size = {system.size or 256 << 20}")
    elif store == "mirror":
        if system.quorum is not None:
            lines.append(f"quorum = {system.quorum}")
        for url in legs:
            lines += ["", "[[subsystem.namespace.leg]]", f"url = {json.dumps(url)}"]
    else:
        lines.append(f"path = {json.dumps(str(system.path))}")
    if store in ("ram", "pmem") and "method" in system.options:  # of the engine: perhaps memory
        lines.append(f"memory = [{json.dumps(host_identity().nqn)}]")
    return "\n".join(lines) + "\n"


class Target:
    """`nvmeof target serve` as a second process; close() ends it."""

    def __init__(self, name: str, config: Path, log: Path, *, faults: bool = False) -> None:
        self._name = name
        self._log = log
        self._folder = tempfile.TemporaryDirectory(prefix="nvmeof-lab-")
        self.socket = Path(self._folder.name) / "rpc"
        """Its administration socket."""
        words = [sys.executable, "-m", "nvmf.cli.main", "target", "serve", "-o", "json"]
        words += [str(config), "--rpc-socket", str(self.socket)]
        words += ["--allow-faults"] if faults else []
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                bound(words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                start_new_session=True,
            )
        try:
            self.traddr, self.trsvcid = self._address()
        except BaseException:
            self.close()
            raise

    def _address(self) -> tuple[str, str]:
        late = threading.Timer(_READY_SECONDS, self._process.kill)
        late.start()
        try:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
        finally:
            late.cancel()
        if not line:
            raise LabError(f"system {self._name}: the target did not start{self._last()}")
        found = json.loads(line)
        if "traddr" not in found:
            said = found.get("error", line.strip())
            raise LabError(f"system {self._name}: the target did not start: {said}")
        return str(found["traddr"]), str(found["trsvcid"])

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def death(self) -> str | None:
        """Return a sentence if the target has ended."""
        status = self._process.poll()
        if status is None:
            return None
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended ({status})"
        return f"the target of system {self._name} {how}{self._last()}"

    def _last(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()[-2:]
        return ": " + "; ".join(lines) if lines else ""

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._folder.cleanup()


def processors(system_reactors: int, pin: bool) -> tuple[list[int] | None, list[int] | None]:
    """Return the processors of the reactors and those of fio; (None, None) without pinning."""
    allowed = sorted(os.sched_getaffinity(0))
    if not pin or len(allowed) <= system_reactors:
        return None, None
    return allowed[-system_reactors:], allowed[:-system_reactors]
