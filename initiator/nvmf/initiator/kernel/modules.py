# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's modules for NVMe over RDMA: loaded if they are missing, as root."""

from __future__ import annotations

import os
import subprocess

from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.system import System

TRANSPORT = "nvme-rdma"
"""The module to load; it depends on nvme-fabrics and nvme-core."""
_SECONDS = 60


def load(system: System) -> None:
    """Load nvme-rdma; raise KernelError if that is impossible."""
    tried = f"the kernel's NVMe fabrics driver is not loaded ({system.fabrics} is not there)"
    if system.euid != 0:
        raise KernelError(
            f"{tried}, and loading it requires root: try sudo, or have {TRANSPORT} loaded at boot"
        )
    try:
        done = subprocess.run(
            [system.modprobe, TRANSPORT],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
    except FileNotFoundError:
        raise KernelError(
            f"{tried}, and there is no {system.modprobe} to load it with: install kmod"
        ) from None
    except subprocess.TimeoutExpired:
        raise KernelError(
            f"{tried}, and 'modprobe {TRANSPORT}' did not end in {_SECONDS} s"
        ) from None
    if done.returncode:
        said = " ".join(done.stderr.split()).rstrip(".") or f"status {done.returncode}"
        raise KernelError(
            f"{tried}, and 'modprobe {TRANSPORT}' failed: {said}; install the module package of "
            f"kernel {os.uname().release}, or use the client, which needs no module"
        )
