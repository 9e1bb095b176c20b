# SPDX-License-Identifier: BSD-3-Clause
"""NVDIMMs that are files of this machine, and survive the guest's loss of power."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from lab.guest import Guest

LONG = not os.environ.get("CI") or bool(os.environ.get("NVMF_POWER_KILLS"))
"""Whether tests run that boot guests for minutes."""
SIZE = 256 << 20
MODULES = "modprobe -a nfit nd_pmem dax_pmem device_dax"

# $1 is the number of a region.  A namespace that an earlier boot made exists again.
_DAX = """
dax=/dev/dax$1.0
for attempt in $(seq 50); do
    [ -e $dax ] && exit 0
    [ $attempt = 10 ] && ndctl create-namespace -f -e namespace$1.0 -m devdax -M mem
    sleep 0.1
done
ndctl list -NRDi
exit 1
"""


def make(folder: Path, count: int) -> list[Path]:
    """Return new files, which have no blocks yet."""
    files = [folder / f"nvdimm{number}" for number in range(count)]
    for file in files:
        with file.open("wb") as made:
            made.truncate(SIZE)
    return files


def use_devdax(guest: Guest, numbers: Iterable[int]) -> list[str]:
    """Make the guest's NVDIMMs device DAX, and return their paths."""
    guest.run(MODULES, quiet=True)
    paths = []
    for number in numbers:
        script = f"set -- {number}\n{_DAX}"
        guest.run(["bash", "-c", script], quiet=True)
        paths.append(f"/dev/dax{number}.0")
    return paths
