# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's own target in the guest: nvmet-rdma over memory-backed null_blk disks."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from lab.guest import Guest
from lab.running import GuestError

SUBNQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000001a"
DISK_MIB = 64
CONFIGFS = "/sys/kernel/config"

# $1 number, $2 MiB, $3 block size
_DISK = f"""
set -eu
modprobe null_blk nr_devices=0
disk={CONFIGFS}/nullb/nullb$1
mkdir $disk
echo $2 > $disk/size
echo $3 > $disk/blocksize
echo 1 > $disk/memory_backed
echo 1 > $disk/discard
echo 1 > $disk/power
"""

# $1 subnqn, $2 family, $3 address, $4 port, then the number of each disk
_TARGET = f"""
set -eu
modprobe nvmet-rdma
nqn=$1 family=$2 address=$3 service=$4
shift 4
mkdir {CONFIGFS}/nvmet/subsystems/$nqn
cd {CONFIGFS}/nvmet/subsystems/$nqn
echo 1 > attr_allow_any_host
for disk; do
    mkdir namespaces/$((disk + 1))
    echo /dev/nullb$disk > namespaces/$((disk + 1))/device_path
    echo 1 > namespaces/$((disk + 1))/enable
done
mkdir {CONFIGFS}/nvmet/ports/1
cd {CONFIGFS}/nvmet/ports/1
echo rdma > addr_trtype
echo $family > addr_adrfam
echo $address > addr_traddr
echo $service > addr_trsvcid
ln -s {CONFIGFS}/nvmet/subsystems/$nqn subsystems/$nqn
"""

_REMOVE = f"""
cd {CONFIGFS}/nvmet 2>/dev/null || exit 0
rm -f ports/*/subsystems/*
for port in ports/*; do [ ! -d $port ] || rmdir $port; done
for namespace in subsystems/*/namespaces/*; do [ ! -d $namespace ] || rmdir $namespace; done
for subsystem in subsystems/*; do [ ! -d $subsystem ] || rmdir $subsystem; done
for disk in {CONFIGFS}/nullb/nullb*; do [ ! -d $disk ] || rmdir $disk; done
"""


# Queue pairs of the kernel, created by rdma_cm; those of processes have the process's name.
_QUEUE_PAIRS = r"rdma resource show qp | grep -c '\[rdma_cm\]' || true"


class KernelTarget:
    """One subsystem of nvmet, with a namespace for each block size."""

    def __init__(
        self,
        guest: Guest,
        address: str,
        *,
        service: int = 4420,
        block_sizes: Sequence[int] = (512, 4096),
    ) -> None:
        self.guest = guest
        self.nqn = SUBNQN
        self.address = address
        self.service = service
        self.block_sizes = tuple(block_sizes)
        self.close()
        for number, size in enumerate(block_sizes):
            self._script(_DISK, number, DISK_MIB, size)
        family = "ipv6" if ":" in address else "ipv4"
        self._script(_TARGET, self.nqn, family, address, service, *range(len(block_sizes)))

    def _script(self, text: str, *arguments: object) -> None:
        words = [str(argument) for argument in arguments]
        self.guest.run(["bash", "-s", "-", *words], stdin=text, quiet=True)

    @property
    def queue_pairs(self) -> int:
        """Return the number of connections."""
        return int(self.guest.run(_QUEUE_PAIRS, quiet=True).stdout)

    def close(self) -> None:
        """Remove all targets of the kernel."""
        if self.guest.dead:
            return
        try:
            self._script(_REMOVE)
        except GuestError:
            # Log waiting tasks to the kernel's log.
            self.guest.run("echo w > /proc/sysrq-trigger", check=False, quiet=True)
            self.guest.spoil("nvmet in it does not release its objects")
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
