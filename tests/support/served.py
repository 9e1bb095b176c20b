# SPDX-License-Identifier: BSD-3-Clause
"""Served: the product's target as a second process, watched through /proc."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SUBNQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-000000000001"
PRIVATE_NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-000000000002"
FRIEND_NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000000f"
MEBIBYTE = 1 << 20
HANDSHAKE_MS = 60_000
TIMEOUT = 60.0
"""Seconds after which a wait counts as a hang."""
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
"""Whether the target runs under ASan, which keeps freed memory: its memory use has no meaning."""
_BAD = (
    *("Traceback", "Sanitizer", "runtime error:", "Assertion"),
    *("never awaited", "never retrieved", "Exception ignored", "Exception in "),
)
"""Text in a target's log that shows an internal error."""
_LISTENING = re.compile(r"listening on (\S+):(\d+) \((?:iwarp|roce|system)\)")


def config(
    stores: Sequence[str] = ('store="ram"\nsize="64MiB"\nblock_size=512',),
    *,
    subnqn: str = SUBNQN,
    port: int = 0,
    reactors: int = 1,
    traddr: str = "127.0.0.1",
) -> str:
    """Return a configuration: one subsystem for any host, with these namespaces, and one for one
    host.
    """
    text = f'[target]\nreactors={reactors}\n\n[[port]]\ntraddr="{traddr}"\ntrsvcid={port}\n'
    text += f'device="iwarp"\n\n[[subsystem]]\nnqn="{subnqn}"\nallow_any_host=true\n'
    for nsid, store in enumerate(stores, 1):
        text += f"\n[[subsystem.namespace]]\nnsid={nsid}\n{store}\n"
    text += f'\n[[subsystem]]\nnqn="{PRIVATE_NQN}"\nhosts=["{FRIEND_NQN}"]\n'
    text += '\n[[subsystem.namespace]]\nnsid=1\nstore="ram"\nsize="1MiB"\nblock_size=512\n'
    return text + f"\n[iwarp]\nhandshake_timeout_ms={HANDSHAKE_MS}\n"


def _watched() -> str:
    """Return a search path with which the target observes its event loop (slow.py)."""
    folder = str(Path(__file__).with_name("watched"))
    return os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))


class Served:
    """One run of ``nvmeof target serve``, or of another program that serves a configuration."""

    program: Sequence[str] = ("-m", "nvmf.cli.main", "target", "serve")
    """Python's arguments before the configuration's path."""
    stdin = subprocess.DEVNULL

    def __init__(self, folder: Path, text: str, *, wrapper: Sequence[str] = ()) -> None:
        self.folder = folder
        self.output = ""
        # The path of a socket must be short, and those of test folders are not.
        self.runtime = tempfile.mkdtemp(prefix="nvmeof-")
        (folder / "target.toml").write_text(text)
        self._log = (folder / "stderr.txt").open("ab")
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, *self.program, str(folder / "target.toml")],
            stdout=subprocess.PIPE, stderr=self._log, stdin=self.stdin,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "RUNTIME_DIRECTORY": self.runtime,
                 "PYTHONPATH": _watched()},
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line.decode(errors="replace")

    def wait_ready(self, timeout: float = TIMEOUT) -> "Served":
        """Wait until it listens."""
        deadline = time.monotonic() + timeout
        while not _LISTENING.search(self.output):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the target does not listen:\n{self.output}{self.log}")
            time.sleep(0.01)
        return self

    @property
    def address(self) -> tuple[str, int]:
        """Its listening address."""
        found = _LISTENING.search(self.output)
        assert found is not None
        return found[1], int(found[2])

    @property
    def port(self) -> int:
        """The service port."""
        return self.address[1]

    @property
    def log(self) -> str:
        """Its standard error output."""
        return (self.folder / "stderr.txt").read_text(errors="replace")

    @property
    def alive(self) -> bool:
        """Whether it is running."""
        return self.process.poll() is None

    @property
    def descriptors(self) -> int:
        """Open file descriptors."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    @property
    def threads(self) -> int:
        """Threads."""
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    @property
    def resident(self) -> int:
        """Bytes of resident memory, without the pages of files."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        lines = re.findall(r"^(?:RssAnon|RssShmem):\s+(\d+) kB", status, re.M)
        return sum(int(line) for line in lines) * 1024

    @property
    def resident_all(self) -> int:
        """Bytes of resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)
        assert found is not None
        return int(found[1]) * 1024

    @property
    def cpu_seconds(self) -> float:
        """Processor time used so far, of user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self, descriptors: int, timeout: float = TIMEOUT) -> None:
        """Wait until at most this many descriptors are open."""
        deadline = time.monotonic() + timeout
        while self.descriptors > descriptors:
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{self.descriptors} descriptors are open, {descriptors} were before"
                )
            time.sleep(0.02)

    def check_log(self) -> None:
        """Check that there was no internal error."""
        log = self.log
        for sign in _BAD:
            if sign in log:
                raise AssertionError(f"{sign} in the target's log:\n{log[-6000:]}")

    def end(self, timeout: float = TIMEOUT) -> int:
        """Send SIGTERM; return its exit status."""
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self._finish()

    def kill(self) -> None:
        """SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self._finish()

    def stop(self) -> None:
        """SIGSTOP, and wait until the last of its threads has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            while (task / "stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.01)

    @property
    def rpc_socket(self) -> Path:
        """The path of its administration socket."""
        return Path(self.runtime) / "target.sock"

    def _finish(self) -> None:
        shutil.rmtree(self.runtime, ignore_errors=True)
        self._reader.join(TIMEOUT)
        self._log.close()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.alive:
            self.end()
        elif not self._log.closed:
            self._finish()
