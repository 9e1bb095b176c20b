# SPDX-License-Identifier: BSD-3-Clause
"""Our own host: the command and the fio engine, beside the guest or in it."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from lab.block import Load
from lab.cells import QUICKLY
from lab.guest import Guest
from lab.network import Network
from lab.prepare import ROOT
from lab.running import GuestError, Result

VERIFY = """\
[global]
ioengine=external:{engine}
thread
rw=randwrite
verify=crc32c
verify_fatal=1
verify_dump=0
verify_state_save=0
randrepeat=0
group_reporting
{options}
"""


STATE = (
    "ps -eLo pid,tid,stat,pcpu,wchan:32,comm --sort -pcpu | head -n 40",
    "rdma resource show qp",
    "grep -H . /sys/class/infiniband/*/ports/1/hw_counters/*",
    "dmesg | tail -n 30",
)
"""Shell scripts: threads, queue pairs, counters of the device, and the kernel's log."""


class Place(Protocol):
    """The place where our host runs."""

    def run(self, command: str | Sequence[str], *, timeout: float = 60.0, check: bool = True,
            stdin: str | bytes | None = None) -> Result:  # fmt: skip
        """Run a program or a shell script until it ends."""
        ...


class Outside:
    """The lab's network namespace, on this machine."""

    def __init__(self, cable: Network) -> None:
        self._cable = cable

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float = 60.0,
        check: bool = True,
        stdin: str | bytes | None = None,
    ) -> Result:
        argv = ["bash", "-c", command] if isinstance(command, str) else list(command)
        shown = command if isinstance(command, str) else shlex.join(argv)
        print(f"host$ {shown}", file=sys.stderr)
        given = stdin.encode() if isinstance(stdin, str) else stdin
        try:
            done = subprocess.run(
                self._cable.command(*argv),
                input=given if given is not None else b"",
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"") + (error.stderr or b"")
            raise GuestError(
                f"{shown!r} did not end within {timeout:.0f} s: {said.decode(errors='replace')}"
            ) from None
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        print(out + err, file=sys.stderr)
        result = Result(shown, done.returncode, out, err)
        return result.check() if check else result


class OurHost:
    """Our command, client and fio engine, for one target.

    Its time limits are long: an emulated guest on a loaded machine may stall for seconds.
    """

    def __init__(
        self, place: Guest | Outside, device: str, address: str, nqn: str, service: int = 4420
    ) -> None:
        self._place: Place = place
        self._device = device
        self.address = address
        self.nqn = nqn
        self.service = service

    def url(self, nqn: str = "") -> str:
        """Return the target's address, with connect options."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        path = f"/{nqn}" if nqn else ""
        patience = "connect_timeout=60&io_timeout=120&kato=120&queues=2"
        return f"nvme+rdma://{host}:{self.service}{path}?device={self._device}&{patience}"

    def nvmeof(
        self,
        command: str,
        *arguments: str,
        nqn: str | None = "",
        check: bool = True,
        stdin: bytes | None = None,
        timeout: float = 120.0,
    ) -> Result:
        """Run ``nvmeof COMMAND`` for the target; nqn None is the discovery subsystem."""
        argv = [sys.executable, "-m", "nvmf.cli.main", *command.split()]
        argv += ["-a", self.address, "-s", str(self.service), "--device", self._device]
        if nqn is not None:
            argv += ["-n", nqn or self.nqn]
        return self._place.run([*argv, *arguments], check=check, stdin=stdin, timeout=timeout)

    def python(self, script: str, *arguments: str, timeout: float = 120.0) -> Result:
        """Run a script in the environment of this tree."""
        return self._place.run([sys.executable, "-", *arguments], stdin=script, timeout=timeout)

    def cases(self, timeout: float = 600.0) -> dict[str, Result]:
        """Run `our_cases`, in one process; return the results by name."""
        argv = [sys.executable, str(ROOT / "tests" / "lab" / "our_cases.py")]
        argv += ["--quick"] if QUICKLY else []
        argv += [self.url(self.nqn), self.url(), self.url(self.nqn[:-4] + "dead")]
        done = self._place.run(argv, timeout=timeout, check=False)
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        cases = {one["name"]: Result(one["name"], one["status"], one["out"], one["err"])
                 for one in found}  # fmt: skip
        assert done.status == 0, f"our host ended with {done.status}:\n{done.output}"
        return cases

    def fio_verify(self, nsid: int, loads: Sequence[Load], options: str = "") -> None:
        """Write and verify through our fio engine."""
        engine = os.environ.get("NVMF_FIO_ENGINE") or str(ROOT / "build" / "dev" / "nvmeof-fio.so")
        assert Path(engine).exists(), f"there is no {engine}: ./dev build makes it"
        name = f"traddr={self.address} trsvcid={self.service} subnqn={self.nqn} nsid={nsid}"
        escaped = name.replace(":", "\\:")
        # Threads that poll would occupy the guest's two processors, which the target needs.
        options = f"device={self._device}\nconnect_timeout=60000\nhipri=0\n{options}"
        jobs = VERIFY.format(engine=engine, options=options)
        jobs += "".join(load.section(escaped) for load in loads)
        fio = os.environ.get("NVMF_FIO", "/usr/bin/fio")
        late = threading.Timer(400, self._tell_state)
        late.start()
        try:
            self._place.run([fio, "--output-format=normal", "-"], stdin=jobs, timeout=480)
        finally:
            late.cancel()
            late.join()

    def _tell_state(self) -> None:
        """Print what explains a load that has not ended, while it runs."""
        for command in STATE:
            with contextlib.suppress(GuestError):
                self._place.run(command, timeout=15, check=False)
