# SPDX-License-Identifier: BSD-3-Clause
"""Makes the README's pictures again, from the storage lab's example of a lost path.

./dev pictures: it measures for about a minute, on a machine that does nothing else meanwhile.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "config" / "examples" / "lab" / "path-loss.toml"
PICTURES = {"time-*.svg": "path-loss-over-time.svg", "latency-*.svg": "path-loss-latency.svg"}
"""Pictures of the report, and their names in the README."""


def main(*arguments: str) -> None:
    """Measure, report, and replace the pictures; arguments are those of nvmeof lab run."""
    nvmeof = [sys.executable, "-m", "nvmf.cli.main", "lab"]
    with tempfile.TemporaryDirectory(prefix="nvmeof-pictures-") as folder:
        results = Path(folder) / "results"
        subprocess.run(
            [*nvmeof, "run", EXAMPLE, "-d", results, "--no-report", *arguments], check=True
        )
        subprocess.run([*nvmeof, "report", results, "--pictures"], check=True)
        print((results / "report.md").read_text())
        for pattern, name in PICTURES.items():
            (made,) = results.glob(pattern)
            shutil.copyfile(made, ROOT / "nvmeof" / "docs" / "pictures" / name)


if __name__ == "__main__":
    main(*sys.argv[1:])
