# SPDX-License-Identifier: BSD-3-Clause
"""The guest: boot it, run commands in it, follow its kernel log, and detect its end."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from lab import initramfs, network
from lab.network import CannotRun
from lab.prepare import ROOT, Kernel
from lab.running import GuestError, Result, Running

BOOT_SECONDS = float(os.environ.get("NVMF_LAB_BOOT_SECONDS", "240"))
QEMU = "qemu-system-x86_64"
ACCELERATOR = os.environ.get("NVMF_LAB_ACCEL", "tcg,thread=multi,tb-size=512")
COUNTING = os.environ.get("NVMF_LAB_ICOUNT", "")
"""Nanoseconds of an instruction, as a power of two: the guest's clock then counts instructions, so
that rates repeat within a few percent (with NVMF_LAB_ACCEL=tcg,thread=single)."""
CPU = "max,la57=off,-erms,-fsrm"
"""Emulation executes `rep movsb` byte by byte: with erms or fsrm every copy would be slow."""
RESIDENT = [sys.executable, str(ROOT / "tests" / "lab" / "resident.py")]
COMMAND_LINE = (
    "console=ttyS0 loglevel=8 panic=-1 mitigations=off nokaslr tsc=reliable audit=0 apparmor=0"
    " init_on_alloc=0 no_timer_check"
    " net.ifnames=0 hung_task_panic=0 rdinit=/init"
)

FATAL = re.compile(r"Kernel panic|Oops|general protection fault|BUG: unable to handle")
DIRTY = re.compile(
    r"Kernel panic|Oops|general protection fault|\bBUG\b|WARNING:|Call Trace|blocked for more than"
    r"|rcu.*stall|soft lockup|use-after-free|refcount_t|I/O error|Buffer I/O|lost async page write"
    r"|nvme.*(?:timeout|time out|error|fail|reset|invalid|unexpected|corrupt)"
    r"|nvmet.*(?:error|fail|timeout|expired|invalid|unexpected)"
    r"|(?:siw|rxe|rdma).*(?:error|fail|invalid|unexpected|corrupt)",
    re.IGNORECASE,
)
HARMLESS = re.compile(
    r"taints? kernel|tainting kernel|calibrate_delay_direct|not a bug"
    # A disconnect cancelled a Keep Alive: BLK_STS_TRANSPORT.
    r"|failed nvme_keep_alive_end_io error=4"
    # nvmet answers the event requests of a host that has disconnected; between RTS and the error
    # state siw takes neither the receive nor the Send.
    r"|nvmet_rdma: (?:post_recv cmd|sending cmd response) failed"
)


class Guest:
    """One booted virtual machine."""

    def __init__(
        self,
        kernel: Kernel,
        cable: network.Network,
        *,
        cpus: int = 2,
        memory: str = "2G",
        nvdimm: str | None = None,
        memories: Sequence[Path] = (),
        systemd: bool = False,
        more: str = "",
        boot_seconds: float = BOOT_SECONDS,
    ) -> None:
        """Boot it, with an NVDIMM of this size, others that are files, and further kernel
        parameters.

        GuestError if it does not boot within the given seconds, CannotRun if QEMU cannot run.
        """
        if not shutil.which(QEMU):
            raise CannotRun(f"there is no {QEMU}: ./dev lab installs it.")
        self.kernel = kernel
        self.nvdimm = nvdimm
        self.memories = tuple(memories)
        self.systemd = systemd
        self._folder = Path(tempfile.mkdtemp(prefix="nvmf-lab-"))
        self._console = self._folder / "console"
        self._console.touch()
        self._numbers = itertools.count(1)
        self._running: dict[int, Running] = {}
        self._ready = threading.Event()
        self._sending = threading.Lock()
        self._dead: str | None = None
        if nvdimm:
            subprocess.run(["truncate", "-s", nvdimm, self._folder / "nvdimm"], check=True)
            memories = [self._folder / "nvdimm", *memories]
        command = cable.command(*self._command(cpus, memory, memories, more))
        with (self._folder / "qemu").open("wb") as said:
            self._qemu = subprocess.Popen(
                # The emulator ends with this process, in whichever way that ends.
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        started = time.monotonic()
        self._port = self._connect()
        self._reader = threading.Thread(target=self._read, daemon=True, name="guest")
        self._reader.start()
        self._wake()
        if not self._ready.wait(boot_seconds):
            self._dead = f"did not boot within {boot_seconds:.0f} s"
        if self.dead:
            message = f"the guest {self.dead}; {self._last_words()}"
            self.close()
            raise GuestError(message)
        self.boot_seconds = time.monotonic() - started

    def _command(self, cpus: int, memory: str, memories: Sequence[Path], more: str) -> list[str]:
        """The command line of QEMU."""
        machine = "q35,nvdimm=on,nvdimm-persistence=cpu" if memories else "q35"
        memory += ",slots=4,maxmem=16G" if memories else ""
        nic = f"tap,id=net,ifname={network.TAP},script=no,downscript=no"
        port = f"socket,id=port,path={self._folder}/port,server=on,wait=off"
        command = f"""
            {QEMU} -M {machine} -accel {ACCELERATOR} -cpu {CPU} -smp {cpus} -m {memory}
            -nodefaults -no-user-config -no-reboot -display none
            -device virtio-serial-pci -chardev {port}
            -device virtserialport,chardev=port,name={initramfs.PORT}
            -device virtio-rng-pci -netdev {nic}
            -device virtio-net-pci,netdev=net,mac=52:54:00:77:00:02
            -serial file:{self._console}
        """.split()
        command += self._root()
        if COUNTING:
            command += ["-icount", f"shift={COUNTING}"]
        for number, file in enumerate(memories):
            backing = f"memory-backend-file,id=nv{number},share=on,mem-path={file}"
            backing += f",size={file.stat().st_size}"
            command += ["-object", backing, "-device", f"nvdimm,memdev=nv{number},id=dimm{number}"]
        return [*command, "-kernel", str(self.kernel.image), "-append", f"{COMMAND_LINE} {more}"]

    def _root(self) -> list[str]:
        """Make what the guest boots from; the options of QEMU for it."""
        initrd = self._folder / "initrd"
        initramfs.build(self.kernel, initrd, systemd=self.systemd)
        export = "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"
        device = "virtio-9p-pci,fsdev=root,mount_tag=root"
        return ["-fsdev", export, "-device", device, "-initrd", str(initrd)]

    def _wake(self) -> None:
        """QEMU runs, and its port is connected: see that the guest does, too."""

    def _connect(self) -> socket.socket:
        end = time.monotonic() + 120
        port = socket.socket(socket.AF_UNIX)
        while True:
            try:
                port.connect(str(self._folder / "port"))
                return port
            except OSError:
                if self._qemu.poll() is not None or time.monotonic() > end:
                    port.close()
                    self._dead = "never started"
                    message = f"QEMU did not start; {self._last_words()}"
                    self.close()
                    raise CannotRun(message) from None
                time.sleep(0.02)

    @property
    def dead(self) -> str | None:
        """Why the guest can no longer be used, or None."""
        return self._dead

    @property
    def pid(self) -> int:
        """PID of the emulator."""
        return self._qemu.pid

    # ---- messages of the agent ---------------------------------------------------------------

    def _read(self) -> None:
        rest = b""
        with contextlib.suppress(OSError):
            while piece := self._port.recv(1 << 16):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        self._dead = self._dead or "died"
        for running in list(self._running.values()):
            running.lost(f"the guest {self.dead}; {self._last_words()}")
        self._ready.set()

    def _take(self, message: Mapping[str, Any]) -> None:
        if "ready" in message:
            self._ready.set()
        elif running := self._running.get(message["id"]):
            if "stream" in message:
                running.feed(message["stream"], base64.b64decode(message["data"]))
            elif "failed" in message:
                running.lost(f"the guest's agent failed: {message['failed']}")
            else:
                del self._running[message["id"]]
                running.ended(message["exit"])

    def _send(self, **message: Any) -> None:
        if self.dead:
            raise GuestError(f"the guest {self.dead}; {self._last_words()}")
        with self._sending:
            self._port.sendall(json.dumps(message).encode() + b"\n")

    # ---- running commands -------------------------------------------------------------------

    def _signal_of(self, command: int) -> Callable[[int], None]:
        """The function that sends signals to a command of the guest."""
        return lambda number: self._send(do="signal", id=command, signal=number)

    def start(
        self,
        command: str | Sequence[str],
        *,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        quiet: bool = False,
    ) -> Running:
        """Start a program, or a shell script if it is a string; its output is passed to ours.

        The Python of this tree runs modules and programs by a fork of the resident Python, unless
        it has options.
        """
        argv = ["bash", "-c", command] if isinstance(command, str) else list(command)
        shown = command if isinstance(command, str) else shlex.join(argv)
        number = next(self._numbers)
        request: dict[str, Any] = {"do": "run", "argv": argv}
        if argv[0] == sys.executable and (argv[1] in ("-m", "-") or argv[1][0] != "-"):
            request = {"do": "python", "argv": argv[1:], "cwd": str(ROOT), "resident": RESIDENT}
        running = Running(shown, self._signal_of(number), quiet)
        self._running[number] = running
        if not quiet:
            print(f"guest$ {shown}", file=sys.stderr)
        given = stdin.encode() if isinstance(stdin, str) else stdin
        data = None if given is None else base64.b64encode(given).decode()
        self._send(**request, id=number, stdin=data, env=dict(env or {}))
        return running

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float = 120.0,
        check: bool = True,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        quiet: bool = False,
    ) -> Result:
        """Run a program or a shell script until it ends; with check, its status must be 0."""
        running = self.start(command, stdin=stdin, env=env, quiet=quiet)
        result = running.wait(timeout)
        if check:
            result.check()
        return result

    def write(self, path: str, text: str) -> None:
        """Write a file in the guest, also attributes in /sys and configfs."""
        self.run(["sh", "-c", 'cat > "$1"', "sh", path], stdin=text, quiet=True)

    def spoil(self, why: str) -> None:
        """Do not use the guest again: a test left a state that cannot be undone."""
        self._dead = self._dead or f"is given up, because {why}"

    def healthy(self, timeout: float = 60.0) -> bool:
        """Whether the guest still answers, and its kernel has no fault."""
        if self.dead or FATAL.search(self.kernel_log()):
            return False
        number = next(self._numbers)
        running = self._running[number] = Running("ping", lambda _: None, quiet=True)
        try:
            self._send(do="ping", id=number)
            running.wait(timeout)
        except (GuestError, OSError):
            self._dead = self._dead or f"did not answer for {timeout:.0f} s"
            return False
        return True

    # ---- the kernel's log -------------------------------------------------------------------

    def mark(self, text: str) -> int:
        """Write a line to the kernel's log; return the position after it."""
        line = f"lab: {text} #{next(self._numbers)}"
        self._send(do="log", text=f"<6>{line}\n")
        end = time.monotonic() + 10
        while time.monotonic() < end and not self.dead:
            found = self._console.read_bytes().find(line.encode())
            if found >= 0:
                return found + len(line)
            time.sleep(0.01)
        return self._console.stat().st_size

    def kernel_log(self, since: int = 0) -> str:
        """Return the kernel's log from a position on."""
        return self._console.read_bytes()[since:].decode(errors="replace").replace("\r", "")

    def complaints(self, since: int = 0) -> list[str]:
        """Return the lines of the kernel's log that a clean run does not have."""
        lines = self.kernel_log(since).splitlines()
        return [line for line in lines if DIRTY.search(line) and not HARMLESS.search(line)]

    def _last_words(self) -> str:
        qemu = self._folder / "qemu"
        said = qemu.read_text(errors="replace").strip() if qemu.exists() else ""
        log = self.kernel_log().splitlines()
        panics = [at for at, line in enumerate(log) if "Kernel panic" in line]
        last = log[min([len(log) - 40, *panics[-1:]]) :] if len(log) > 40 else log
        end = "\n".join(f"  | {line}" for line in last)
        return f"QEMU said {said!r}, and the end of its kernel's log is\n{end}"

    # ---- accidents --------------------------------------------------------------------------

    def freeze(self) -> None:
        """Stop the guest's processors; its clock continues."""
        self._qemu.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the processors continue."""
        self._qemu.send_signal(signal.SIGCONT)

    def power_off(self) -> None:
        """Power the guest off: nothing in it ends in order, and no peer is notified."""
        self._dead = self._dead or "was switched off"
        self._qemu.kill()
        self._qemu.wait()

    # ---- the end ----------------------------------------------------------------------------

    def close(self) -> None:
        """Power the guest off, if possible in order."""
        if not self.dead:
            with contextlib.suppress(OSError, GuestError):
                self._send(do="halt")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._qemu.wait(10)
        self._dead = self._dead or "was turned off"
        if self._qemu.poll() is None:
            self._qemu.kill()
        self._qemu.wait()
        if hasattr(self, "_reader"):
            self._reader.join()  # it has reached the end of the port, whose folder is removed next
        if hasattr(self, "_port"):
            self._port.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
