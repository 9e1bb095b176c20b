# SPDX-License-Identifier: BSD-3-Clause
"""Witness: a well-behaved host that writes and verifies its own blocks all the time."""

import secrets
import threading
import time

from wire.host import NvmeHost
from wire.peer import TIMEOUT

BLOCKS = 16
FIRST_LBA = 100_000
"""The witness's blocks; other hosts keep below."""


class Witness:
    """Runs in a thread from its creation to close(), and keeps its first error."""

    def __init__(self, address: tuple[str, int], subnqn: str, *, slot: int = 0) -> None:
        self.lba = FIRST_LBA + slot * BLOCKS
        self.address, self.subnqn = address, subnqn
        self._begin()

    def _begin(self) -> None:
        self.rounds = 0
        self.error: BaseException | None = None
        self.host = NvmeHost(self.address, self.subnqn).connect()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                data = secrets.token_bytes(BLOCKS * 512)
                self.host.write(self.lba, data)
                if self.host.read(self.lba, BLOCKS) != data:
                    raise AssertionError("the witness does not read what it wrote")
                self.rounds += 1
                self._stop.wait(0.01)
        except BaseException as error:
            self.error = error

    def check(self, timeout: float = TIMEOUT) -> None:
        """Wait for two whole rounds from now on."""
        goal, deadline = self.rounds + 2, time.monotonic() + timeout
        while self.rounds < goal and self.error is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"the witness waits: {self.rounds} rounds")
            time.sleep(0.005)
        if self.error is not None:
            raise AssertionError("another host's misbehaviour reached the witness") from self.error

    def revive(self) -> None:
        """Restart after an earlier test ended it, so that one failure does not cause others."""
        if self.error is not None:
            self.close()
            self._begin()

    def close(self) -> None:
        """Stop it."""
        self._stop.set()
        self._thread.join(TIMEOUT)
        self.host.close()
