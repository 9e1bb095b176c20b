# SPDX-License-Identifier: BSD-3-Clause
"""The sandbox of the target's units and the devices that the documents say a target can use."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).parents[2] / "systemd").glob("nvmeof-target*.service"))
KERNEL = {
    "dax": "drivers/dax/super.c: alloc_chrdev_region(&dax_devt, ...)",
    "infiniband_verbs": "drivers/infiniband/core/uverbs_main.c: register_chrdev_region()",
}
"""Names in /proc/devices, which DeviceAllow=char-NAME is compared with, and their sources."""


def allowed(unit: Path) -> set[str]:
    """Return the patterns of groups of character devices that a unit may open."""
    return set(re.findall(r"^DeviceAllow=char-(\S+) rw$", unit.read_text(), re.MULTILINE))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_device_groups_have_the_names_of_the_kernel(unit: Path) -> None:
    assert allowed(unit) == set(KERNEL)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_dax_devices_of_this_machine(unit: Path) -> None:
    """A kernel with DAX registers the group at its start, also if it has no such device."""
    characters, _, _ = Path("/proc/devices").read_text().partition("Block devices:")
    names = {line.split()[1] for line in characters.splitlines()[1:] if line.strip()}
    dax = {name for name in names if "dax" in name}
    if not dax:
        pytest.skip("this kernel was built without DAX")
    for name in dax:
        assert any(fnmatch.fnmatch(name, pattern) for pattern in allowed(unit)), name
