# SPDX-License-Identifier: BSD-3-Clause
"""A folder like /etc/nvme, and the messages for faults in its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvmf.initiator.hostfiles import HostFileError

NQN = "nqn.2014-08.org.example:disk"
HOST = "nqn.2014-08.org.nvmexpress:uuid:46ba5037-7ce5-41fa-9452-48477bf00080"
HOSTID = "46ba5037-7ce5-41fa-9452-48477bf00080"
OTHER = "nqn.2014-08.org.example:other-host"


def with_identity(folder: Path) -> Path:
    """Return a folder with the identity of a host."""
    (folder / "hostnqn").write_text(HOST + "\n")
    (folder / "hostid").write_text(HOSTID + "\n")
    return folder


def faults(read: Callable[[], object]) -> list[str]:
    """Return the places and descriptions of faults, without the folder."""
    with pytest.raises(HostFileError) as raised:
        read()
    return [problem.rpartition("/")[2] for problem in raised.value.problems]
