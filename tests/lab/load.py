# SPDX-License-Identifier: BSD-3-Clause
"""fio in the guest that writes and verifies, repeatedly, while a test causes events."""

from __future__ import annotations

import contextlib
import itertools
from types import TracebackType
from typing import Self

from lab.block import KIB, MIB
from lab.guest import Guest
from lab.kernel_host import BlockDevice
from lab.running import GuestError
from lab.waiting import PATIENCE, until

AREA = 8 * MIB
"""The range of its device that a load writes, from offset 0 on."""
_NUMBERS = itertools.count(1)

# A pass is short, so that one fits between two events, and has both reads and writes.
_JOB = f"""\
[global]
ioengine=libaio
direct=1
thread
rw=randwrite
bsrange=4k-64k
iodepth=16
size={AREA // 2}
offset_increment={AREA // 2}
numjobs=2
verify=crc32c
verify_backlog=32
verify_fatal=1
verify_dump=0
verify_state_save=0
randrepeat=0
group_reporting
"""

# $1 job, $2 the file whose existence ends it
_SCRIPT = """
while [ ! -e $2 ]; do
    fio --output-format=normal $1 > $1.out 2>&1 || { cat $1.out; exit 1; }
    echo passed
done
"""


class VerifyingLoad:
    """Passes of fio: each one writes its range of the device in random order, and verifies it."""

    def __init__(self, guest: Guest, device: BlockDevice) -> None:
        name = f"/run/lab/load{next(_NUMBERS)}"
        self._guest = guest
        self._stop = f"{name}.stop"
        guest.write(f"{name}.fio", f"{_JOB}[load]\nfilename={device.path}\n")
        self._running = guest.start(
            ["bash", "-c", _SCRIPT, "load", f"{name}.fio", self._stop], quiet=True
        )

    @property
    def passes(self) -> int:
        """Number of completed passes."""
        return self._running.output.count("passed")

    def check(self) -> None:
        """Check that the load is running, or has ended successfully."""
        if not self._running.alive:
            self._running.wait(0).check()

    def go_on(self, timeout: float = 2 * PATIENCE) -> None:
        """Wait until a pass that begins after this call is complete."""
        wanted = self.passes + 2

        def reached() -> bool:
            self.check()
            return self.passes >= wanted

        until(reached, "fio has written and verified again", timeout=timeout,
              state=lambda: self._guest.kernel_log()[-4000:])  # fmt: skip

    def end(self) -> None:
        """Let the present pass be the last one; all must have succeeded."""
        self._guest.run(["touch", self._stop], quiet=True)
        self._running.wait(2 * PATIENCE).check()

    def __enter__(self) -> Self:
        self.go_on()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None:
            self.end()
            return
        with contextlib.suppress(GuestError):  # the first error is the important one
            self._running.signal(9)


def mark_offset(number: int) -> int:
    """The offset of a test's own data on a device, outside of all loads."""
    return AREA + number * MARK


MARK = 64 * KIB
