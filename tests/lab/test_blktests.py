# SPDX-License-Identifier: BSD-3-Clause
"""The nvme group of blktests, unmodified, with our target as its external target, over rxe.

blktests is in no package registry: ``NVMF_BLKTESTS`` names a folder with a copy of it
(https://github.com/linux-blktests/blktests).  Without it these tests are skipped.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import blktests_control as control
from lab.cells import use_device
from lab.guest import Guest
from lab.ours import OursInside

_FABRICS = ("003", "004", "005", "006", "008", "010", "014", "018", "019", "021", "022", "023")
APPLICABLE = (*_FABRICS, "025", "026", "027", "028", "029", "040", "041", "061")
"""The tests for which an external target and a disk of 64 MiB are enough."""
_NVMET = "writes to nvmet's configfs in the course of the test"
_LOOP = "tests nvmet's loop transport"
_PCI = "needs a PCI device"
_TCP = "tests NVMe/TCP"
NOT_APPLICABLE = {
    **dict.fromkeys(("030", "042", "043", "044", "045", "048", "051", "054", "057"), _NVMET),
    **dict.fromkeys(("031", "058", "060", "065"), _NVMET),
    **dict.fromkeys(("002", "016", "017", "052", "055"), _LOOP),
    **dict.fromkeys(("032", "033", "034", "035", "036", "037", "046", "049", "050"), _PCI),
    **dict.fromkeys(("053", "059", "064", "066", "067"), _PCI),
    **dict.fromkeys(("056", "062", "063"), _TCP),
    "012": "needs a disk of 350 MiB: test_filesystems does the same on a smaller one",
    "038": "creates a subsystem of nvmet, and no target",
    "039": "needs a kernel with fault injection",
    "047": "needs a disk of 350 MiB, and queue types that the target knows nothing of",
    "068": "needs delayed_removal_secs, which kernel 6.12 does not have",
    "069": "needs a kernel with KASAN",
}
"""The tests that cannot apply, with the reason."""
SECONDS = 540.0

# $1 the copy of blktests, $2 the kernel's configuration, $3 Python, $4 the control program
_PREPARE = """
set -eu
modprobe -a loop nvme-rdma nvmet-rdma
mkdir -p /boot /run/lab/blktests
cp "$2" /boot/config-$(uname -r)
cp -r "$1"/. /run/lab/blktests
printf '#!/bin/sh\\nexec %s -I %s "$@"\\n' "$3" "$4" > /run/lab/blktests-control
chmod +x /run/lab/blktests-control
pidof systemd-udevd > /dev/null || /lib/systemd/systemd-udevd --daemon
"""
_CHECK = f"""
cd /run/lab/blktests
export USE_RXE=1 NVMET_TRTYPES=rdma NVME_TARGET_CONTROL=/run/lab/blktests-control
export NVME_IMG_SIZE={control.SIZE} NVME_NUM_ITER=10
./check -o /run/lab/blktests-results nvme/$1
status=$?
cat {control.FOLDER}/errors.txt 2> /dev/null
[ $status -eq 0 ] || cat /run/lab/blktests-results/*/nvme/$1*.full
exit $status
"""


@pytest.fixture(scope="module")
def target(vm: Guest, need_product: None) -> Iterator[OursInside]:
    """Our target in the guest, which blktests controls by the control program."""
    copy = os.environ.get("NVMF_BLKTESTS", "")
    if not copy:
        pytest.skip("NVMF_BLKTESTS does not name a folder with a copy of blktests")
    if not (Path(copy) / "tests/nvme/rc").exists():
        pytest.fail(f"NVMF_BLKTESTS names {copy}, which has no tests/nvme/rc", pytrace=False)
    for program in ("gawk", "fio"):
        if not shutil.which(program):
            pytest.skip(f"blktests needs {program}: install it")
    use_device(vm, "rxe")
    (config,) = vm.kernel.folder.glob(f"boot/config-{vm.kernel.release}")
    words = [str(Path(copy).resolve()), str(config), "/usr/bin/python3", control.__file__]
    vm.run(["bash", "-s", "-", *words], stdin=_PREPARE, timeout=300)
    vm.run(f"mkdir -p {control.FOLDER}; truncate -s {control.SIZE} {control.DISK}")
    # The control program rewrites this file, and the target reads it again.
    ours = OursInside(vm, control.ADDRESS, text=control.configuration(), path=str(control.CONFIG))
    yield ours
    ours.check()
    ours.close()


@pytest.mark.unclean(r"nvme|blk_update|I/O error|run blktests|rdma_rxe")
@pytest.mark.parametrize("number", APPLICABLE)
def test_blktests(target: OursInside, guest: Guest, number: str) -> None:
    done = guest.run(["bash", "-c", _CHECK, "check", number], check=False, timeout=SECONDS)
    if skipped := re.search(r"\[not run\]\s*(.*)", done.stdout, re.S):
        pytest.skip(f"nvme/{number}: {' '.join(skipped[1].split())}")
    assert done.status == 0, done.output
    assert "[passed]" in done.stdout, done.output
    target.check()


@pytest.mark.parametrize("number", NOT_APPLICABLE)
def test_not_applicable(number: str) -> None:
    """Show the reason in the report."""
    pytest.skip(f"nvme/{number} {NOT_APPLICABLE[number]}")
