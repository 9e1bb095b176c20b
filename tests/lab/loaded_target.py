# SPDX-License-Identifier: BSD-3-Clause
"""A program: ``nvmeof target serve`` in two steps, for a guest that is saved between them.

``loaded_target.py CONFIG`` imports everything that a target uses, prints ``loaded``, and serves the
configuration when it gets SIGUSR1.  ``loaded_target.py --files`` prints in JSON the files that it
needs: those of Python's modules, and the libraries that are mapped.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import sys
from pathlib import Path

from nvmf.cli.main import main

_PACKAGES = ("nvmf.cli.target", "nvmf.config", "nvmf.pmem", "nvmf.rpc", "nvmf.target")


def load() -> None:
    """Import the modules, also those that a target imports when it needs them."""
    names = ["nvmf.cli.app"]
    for package in _PACKAGES:
        path = importlib.import_module(package).__path__
        names += [info.name for info in pkgutil.walk_packages(path, f"{package}.")]
    for name in names:
        if not name.endswith("__main__"):
            importlib.import_module(name)


def files() -> list[str]:
    """Return the paths of the files that are in use."""
    found = set()
    for module in list(sys.modules.values()):
        for name in ("__file__", "__cached__"):
            found.add(getattr(module, name, None))
    for line in Path("/proc/self/maps").read_text().splitlines():
        found.add(line.split(maxsplit=5)[5] if line.count("/") > 1 else None)
    return sorted(path for path in found if path and os.path.isfile(path))


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    load()
    if sys.argv[1] == "--files":
        print(json.dumps(files()))
        sys.exit()
    print("loaded", flush=True)
    signal.sigwait({signal.SIGUSR1})
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    sys.exit(main(["target", "serve", sys.argv[1]]))
