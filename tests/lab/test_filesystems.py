# SPDX-License-Identifier: BSD-3-Clause
"""File systems on our target under verified I/O, while the host resets its controller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import block, network
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import KernelHost
from lab.network import Network
from lab.steered import NSID, Steered, file_namespace

SIZE = 512
"""MiB: mkfs.xfs requires at least 300 MiB."""
RESETS = 4
JOBS = 2
SECONDS = 540.0

# $1 device, $2 the type of the file system, $3 the controller, $4 the number of resets, $5 the
# command that checks the file system, $6 the number of jobs.  fio writes and verifies until the
# last reset is over.
_RESETS = """
set -eu
modprobe $2
mkfs.$2 -q "$1"
mkdir -p /run/lab/fs
mount "$1" /run/lab/fs
cat > /run/lab/fs.fio <<END
[verified]
directory=/run/lab/fs
ioengine=libaio
direct=1
rw=randwrite
bsrange=4k-128k
iodepth=16
size=16m
numjobs=$6
fsync=32
verify=crc32c
verify_fatal=1
verify_state_save=0
time_based
runtime=1d
exitall_on_error
END
fio --output=/run/lab/fs.out /run/lab/fs.fio &
fio=$!
for reset in $(seq "$4"); do
    sleep 5  # the interval of the resets: there is no condition to wait for
    kill -0 $fio || { cat /run/lab/fs.out; exit 1; }
    echo 1 > "/sys/class/nvme/$3/reset_controller"
    until [ "$(cat "/sys/class/nvme/$3/state")" = live ]; do sleep 0.1; done
done
kill -INT $fio
status=0
wait $fio || status=$?
[ $status -eq 128 ] || { cat /run/lab/fs.out; exit 1; }  # what fio ends with after SIGINT
cat /run/lab/fs.out
umount /run/lab/fs
$5 "$1"
"""


@pytest.fixture
def target(cable: Network, tmp_path: Path, vm: Guest, need_product: None) -> Iterator[Steered]:
    disk = tmp_path / "disk.img"
    with disk.open("wb") as file:
        file.truncate(SIZE * block.MIB)
    use_device(vm, "siw")
    with Steered(cable, tmp_path, {NSID: file_namespace(disk)}) as one:
        yield one
        one.close()


@pytest.mark.unclean(r"nvme nvme\d+: ")
@pytest.mark.parametrize(
    ("kind", "check"), [("ext4", "e2fsck -fn"), ("xfs", "xfs_repair -n")], ids=["ext4", "xfs"]
)
def test_resets_under_verified_io(target: Steered, guest: Guest, kind: str, check: str) -> None:
    host = KernelHost(guest, network.HOST)
    with host.connected(target.nqn, "-i", "2") as controller:
        (device,) = host.devices(target.nqn)
        words = [device.path, kind, controller.name, str(RESETS), check, str(JOBS)]
        done = guest.run(["bash", "-s", "-", *words], stdin=_RESETS, timeout=SECONDS)
    assert re.findall(r"err=\s*(\d+)", done.stdout) == ["0"] * JOBS, done.stdout
    assert "verify:" not in done.output, done.output
