# SPDX-License-Identifier: BSD-3-Clause
"""Changes while the kernel's host is connected, and refusals."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import block
from lab.guest import Guest
from lab.kernel_host import BlockDevice, KernelHost
from lab.load import VerifyingLoad
from lab.network import Network
from lab.ours import PRIVATE_NQN
from lab.steered import NSID, Steered, file_namespace
from lab.waiting import until

pytestmark = [pytest.mark.usefixtures("need_product"), pytest.mark.timeout(900)]

OTHER = 2
"""The namespace that is added and removed."""
UNKNOWN_NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000dead"


@pytest.fixture
def disks(tmp_path: Path) -> dict[int, Path]:
    """Files of 64 MiB."""
    paths = {nsid: tmp_path / f"disk{nsid}.img" for nsid in (NSID, OTHER)}
    for path in paths.values():
        path.touch()
        os.truncate(path, 64 * block.MIB)
    return paths


@pytest.fixture
def target(cable: Network, tmp_path: Path, disks: dict[int, Path]) -> Iterator[Steered]:
    with Steered(cable, tmp_path, {NSID: file_namespace(disks[NSID])}) as one:
        yield one
        one.close()


def _wait_sizes(host: KernelHost, nqn: str, *sizes: int) -> list[BlockDevice]:
    """Wait until the host shows namespaces of these sizes, in MiB."""
    wanted = [size * block.MIB for size in sizes]
    until(
        lambda: [device.size for device in host.devices(nqn)] == wanted,
        f"the host shows namespaces of {sizes} MiB",
        state=lambda: host.devices(nqn),
    )
    return host.devices(nqn)


def _events(guest: Guest) -> int:
    return guest.kernel_log().count("rescanning namespaces")


@pytest.mark.feature("live", "resize")
def test_namespaces_change(
    target: Steered, disks: dict[int, Path], host: KernelHost, guest: Guest
) -> None:
    """A namespace is added, grows, shrinks and is removed while a second one is in use."""
    with host.connected(target.nqn, "-i", "2"):
        (first,) = host.devices(target.nqn)
        with VerifyingLoad(guest, first) as load:
            events = _events(guest)
            target.attach(OTHER, file_namespace(disks[OTHER]))
            second = _wait_sizes(host, target.nqn, 64, 64)[1]
            assert second.nsid == OTHER
            block.fio_verify(guest, second, [block.Load("4k-64k", 16)])
            block.pattern(guest, second, 0xC3, 63 * block.MIB, block.MIB)
            for size in (96, 32, 64):
                os.truncate(disks[OTHER], size * block.MIB)
                assert target.resize(OTHER) == size * block.MIB
                _wait_sizes(host, target.nqn, 64, size)
            # Its end was removed and added again: its data is that of the file.
            block.expect(guest, second, 0, 63 * block.MIB, block.MIB)
            target.detach(OTHER)
            _wait_sizes(host, target.nqn, 64)
            load.go_on()
            assert _events(guest) >= events + 5, "an event for each change"


@pytest.mark.feature("live")
@pytest.mark.unclean(r"nvme\d+(?:c\d+)?n\d+|nvme nvme\d+: ")
def test_namespace_removed_in_use(
    target: Steered, disks: dict[int, Path], host: KernelHost, guest: Guest
) -> None:
    """A program that uses a removed namespace gets errors and does not hang; a new one with its
    NSID is a different device.
    """
    target.attach(OTHER, file_namespace(disks[OTHER]))
    with host.connected(target.nqn, "-i", "2", namespaces=2):
        first, second = host.devices(target.nqn)
        with VerifyingLoad(guest, first) as load:
            user = guest.start(
                f"fio --name=user --filename={second.path} --rw=randwrite --bs=4k --iodepth=8"
                " --ioengine=libaio --direct=1 --size=64m --time_based --runtime=600"
                " --allow_file_create=0",
                quiet=True,
            )
            until(lambda: disks[OTHER].stat().st_blocks > 0, "it is in use")
            target.detach(OTHER)
            assert user.wait(120).status != 0
            _wait_sizes(host, target.nqn, 64)
            target.attach(OTHER, file_namespace(disks[OTHER]))
            again = _wait_sizes(host, target.nqn, 64, 64)[1]
            block.fio_verify(guest, again, [block.Load("4k-64k", 16)])
            load.go_on()
    # The store of the first one was released.
    open_files = Path(f"/proc/{target.process.pid}/fd")
    until(
        lambda: _open_on(open_files, disks[OTHER]) == _open_on(open_files, disks[NSID]),
        "the target has the file open once",
    )


def _open_on(folder: Path, path: Path) -> int:
    found = 0
    for link in folder.iterdir():
        try:
            found += link.readlink() == path
        except FileNotFoundError:
            continue
    return found


# $1 device
_FILL = """
set -e
mkfs.ext4 -q -E nodiscard "$1"
mkdir -p /run/lab/mnt
mount "$1" /run/lab/mnt
cd /run/lab/mnt
for folder in a b c; do
    mkdir $folder
    for size in 1 700 4096 5000 65536 300000 2000000; do
        head -c $size /dev/urandom > $folder/$size
    done
done
rm -r b
cp -r c d
find . -type f -print0 | sort -z | xargs -0 sha256sum > /run/lab/sums
cd /
umount /run/lab/mnt
e2fsck -fn "$1"
mount -o ro "$1" /run/lab/mnt
cd /run/lab/mnt
sha256sum --quiet -c /run/lab/sums
cat /run/lab/sums | wc -l
cd /
umount /run/lab/mnt
"""


def test_ext4(target: Steered, disks: dict[int, Path], host: KernelHost, guest: Guest) -> None:
    """A file system is created, mounted, filled, unmounted and checked; it is also checked in the
    file that contains it.
    """
    with host.connected(target.nqn, "-i", "2"):
        (device,) = host.devices(target.nqn)
        guest.run("modprobe ext4", quiet=True)
        filled = guest.run(["bash", "-c", _FILL, "fill", device.path], timeout=300)
        assert filled.stdout.split()[-1] == "21"
    target.close()
    subprocess.run(["/usr/sbin/e2fsck", "-fn", disks[NSID]], check=True, timeout=120)


def _log_of(guest: Guest, since: int, *words: str) -> None:
    """Check that the guest's kernel has logged these words."""
    log = guest.kernel_log(since)
    for word in words:
        assert word in log, f"{word!r} is not in:\n{log}"


@pytest.mark.feature("allow-list")
@pytest.mark.unclean(r"nvme nvme\d+: ")
def test_refused(target: Steered, host: KernelHost, guest: Guest) -> None:
    """A refused host gets the reason from its own kernel."""
    since = guest.mark("refusals")
    assert host.try_connect(PRIVATE_NQN).status != 0
    guest.mark("the first one")
    _log_of(guest, since, f"Connect for subsystem {PRIVATE_NQN} is not allowed, hostnqn:")
    since = guest.mark("the second one")
    assert host.try_connect(UNKNOWN_NQN).status != 0
    guest.mark("its end")
    _log_of(guest, since, f'Connect Invalid Data Parameter, subsysnqn "{UNKNOWN_NQN}"')
    target.wait_alone()
