# SPDX-License-Identifier: BSD-3-Clause
"""/dev/nvme-fabrics: writing a line creates a controller, and reading returns its name.

Blocks for as long as the kernel takes to connect, which a signal interrupts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.modules import load
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.kernel.system import FabricsFile, System
from nvmf.initiator.kernel.words import explain, explain_device

_ANSWER = re.compile(r"instance=(-?\d+),cntlid=(-?\d+)")


@dataclass(frozen=True, slots=True)
class Created:
    """The controller that the kernel created."""

    name: str
    """Name of its device: nvme0."""
    cntlid: int


def create(options: FabricsOptions, system: System) -> Created:
    """Have the kernel connect; raise KernelError with the reason."""
    line = options.text(_known_options(system))
    with _open(system) as file:
        before = system.controllers()
        system.log.mark()
        try:
            file.write(line.encode())
            answer = file.read()
        except OSError as error:
            said = system.log.since(passing_over=before)
            raise explain(error.errno or 0, said, options, system) from None
    system.log.close()
    found = _ANSWER.search(answer)
    if not found or int(found[1]) < 0:
        raise explain(0, [f"nvme_fabrics: answered {answer.strip()!r}"], options, system)
    return Created(f"nvme{found[1]}", int(found[2]))


def _known_options(system: System) -> frozenset[str]:
    """Return the options of this kernel; empty if it does not list them (before Linux 5.17)."""
    with _open(system) as file:
        try:
            text = file.read()
        except OSError:
            return frozenset()
    return frozenset(word.partition("=")[0] for word in text.strip().split(",") if word)


def _open(system: System) -> FabricsFile:
    """Open the device, after loading its driver if that is missing and allowed."""
    try:
        try:
            return system.open_fabrics(system.fabrics)
        except FileNotFoundError:
            load(system)
            return system.open_fabrics(system.fabrics)
    except KernelError:
        raise
    except OSError as error:
        raise explain_device(error.errno or 0, system) from None
