# SPDX-License-Identifier: BSD-3-Clause
"""System devices without the kernel's: libnvmf-verbs under the names of the libraries.

The engine looks the libraries up by name, and finds an embedded device with their symbols; it uses
it as it uses an adapter.
"""

from __future__ import annotations

from pathlib import Path

from nvmf.paths import verbs_library

LIBRARIES = ("libibverbs.so.1", "librdmacm.so.1")


def system_device(folder: Path) -> tuple[str, ...]:
    """Return a command before others whose device "system" is an embedded one."""
    folder.mkdir(exist_ok=True)
    for name in LIBRARIES:
        (folder / name).symlink_to(verbs_library())
    return ("env", f"LD_LIBRARY_PATH={folder}", "NVMEOF_VERBS_DEVICE=iwarp")
