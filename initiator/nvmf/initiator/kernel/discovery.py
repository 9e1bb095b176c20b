# SPDX-License-Identifier: BSD-3-Clause
"""The discovery log through the kernel: a discovery controller, connected for one reading."""

from __future__ import annotations

from dataclasses import replace

from nvmf.initiator.base.errors import NvmeError
from nvmf.initiator.base.limits import TRIES
from nvmf.initiator.kernel import sysfs
from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.host import connect
from nvmf.initiator.kernel.ioctl import Device
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.kernel.system import System
from nvmf.spec import commands
from nvmf.spec.fabrics import DiscoveryEntry, DiscoveryHeader, decode_discovery_log
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.opcodes import LogId
from nvmf.spec.status import DecodeError

_PAGE = 4096
_MAX_RECORDS = 65536
_NOT_FOR_DISCOVERY = {
    "nr_io_queues": None,
    "nr_write_queues": None,
    "nr_poll_queues": None,
    "queue_size": None,
    "ctrl_loss_tmo": None,
    "fast_io_fail_tmo": None,
    "reconnect_delay": None,
    "keep_alive_tmo": None,
    "duplicate_connect": False,
}


def discovery_log(options: FabricsOptions, system: System) -> list[DiscoveryEntry]:
    """Return the log of a port; the NQN in options is ignored. Raise KernelError."""
    asked = replace(options, nqn=DISCOVERY_NQN, discovery=True, **_NOT_FOR_DISCOVERY)  # type: ignore[arg-type]
    found = connect(asked, system)
    try:
        with Device(found.controller.path) as device:
            return _read(device)
    except (NvmeError, DecodeError) as error:
        raise KernelError(
            f"the discovery log of {options.traddr} port {options.trsvcid} cannot be read: {error}"
        ) from None
    finally:
        sysfs.delete(found.controller)


def _read(device: Device) -> list[DiscoveryEntry]:
    """Return the entries of one generation; the log is read again if GENCTR changes meanwhile."""
    for _ in range(TRIES):
        first = _page(device, 0, DiscoveryHeader.SIZE)
        header = DiscoveryHeader.decode(first)
        if header.numrec > _MAX_RECORDS:
            raise DecodeError(f"the discovery log announces {header.numrec} entries")
        parts = [first]
        offset, end = DiscoveryHeader.SIZE, (header.numrec + 1) * DiscoveryEntry.SIZE
        while offset < end:
            size = min(_PAGE, end - offset)
            parts.append(_page(device, offset, size))
            offset += size
        again = _page(device, 0, DiscoveryHeader.SIZE)
        if DiscoveryHeader.decode(again).genctr == header.genctr:
            return decode_discovery_log(b"".join(parts))[1]
    raise KernelError(f"the discovery log changed during each of {TRIES} readings; try again")


def _page(device: Device, offset: int, length: int) -> bytes:
    sqe = commands.get_log_page(LogId.DISCOVERY, length, nsid=0, offset=offset)
    return device.admin(sqe, "Get Log Page (discovery)", length)[0]
