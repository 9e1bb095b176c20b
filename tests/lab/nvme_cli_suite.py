# SPDX-License-Identifier: BSD-3-Clause
"""Fetch the tests that nvme-cli's own source has, beside the tree, as kernels are fetched.

They are those of nvme-cli in Debian's stable release: newer than those of the oldest one, which
accept only PCIe controllers.  If they cannot be fetched, the reason is stored for the lab.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lab.packages import Apt, CannotPrepare, run, say

PACKAGE = "nvme-cli"
SUITE = "trixie"


def folder(cache: Path) -> Path | None:
    """Return the folder whose `tests` has the suite, if it was fetched."""
    found = cache / PACKAGE
    return found if (found / "tests" / "nvme_test.py").exists() else None


def excuse(cache: Path) -> str:
    """Return the reason why there is no suite, if known."""
    try:
        return _excuse(cache).read_text().strip()
    except OSError:
        return "it was not fetched: ./dev lab does that."


def _excuse(cache: Path) -> Path:
    return cache / f"no-{PACKAGE}"


def prepare(cache: Path) -> None:
    """Fetch the suite, unless it is there; on failure store the reason."""
    if folder(cache):
        return
    cache.mkdir(parents=True, exist_ok=True)
    say(f"The tests of {PACKAGE} for the lab, into {cache}:")
    try:
        apt = Apt(cache / f"apt-{PACKAGE}", (SUITE,), kind="deb-src")
        apt.update()
        with tempfile.TemporaryDirectory(prefix="nvmf-lab-") as work:
            archive = apt.source(PACKAGE, Path(work))
            unpacked = Path(work) / PACKAGE
            unpacked.mkdir()
            options = ("--strip-components=1", "--wildcards", "*/tests/*")
            run("tar", "-xf", str(archive), "-C", str(unpacked), *options)
            say(f"  {archive.name} is ready.")
            shutil.rmtree(cache / PACKAGE, ignore_errors=True)
            shutil.move(unpacked, cache / PACKAGE)
    except (CannotPrepare, OSError) as error:
        _excuse(cache).write_text(f"{error}\n")
        say(f"The tests of {PACKAGE} could not be fetched, and are skipped: {error}")
