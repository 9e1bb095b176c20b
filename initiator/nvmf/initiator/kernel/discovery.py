# SPDX-License-Identifier: BSD-3-Clause
"""The discovery log through the kernel: a discovery controller, connected for one reading."""

from __future__ import annotations

from dataclasses import replace

from nvmf.initiator.base.discoverylog import MAX_RECORDS, DiscoveryLog
from nvmf.initiator.base.errors import ConnectionLost, NvmeError
from nvmf.initiator.kernel import sysfs
from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.host import connect
from nvmf.initiator.kernel.ioctl import Device
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.kernel.system import System
from nvmf.spec import commands
from nvmf.spec.opcodes import LogId
from nvmf.spec.status import DecodeError

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


def raw_log(options: FabricsOptions, system: System, most: int = MAX_RECORDS) -> bytes:
    """Return the bytes of the log of a discovery service, with at most `most` records.

    Raises:
        KernelError: It cannot be read.
    """
    asked = replace(options, discovery=True, **_NOT_FOR_DISCOVERY)  # type: ignore[arg-type]
    found = connect(asked, system)
    try:
        with Device(found.controller.path) as device:
            return read_log(device, most)
    except (NvmeError, DecodeError, ConnectionLost) as error:
        raise KernelError(
            f"the discovery log of {options.traddr} port {options.trsvcid} cannot be read: {error}"
        ) from None
    finally:
        sysfs.delete(found.controller)


def read_log(device: Device, most: int = MAX_RECORDS) -> bytes:
    """Return a log whose parts have one generation; raise as DiscoveryLog.add() does."""
    log = DiscoveryLog(most)
    while (part := log.part) is not None:
        sqe = commands.get_log_page(
            LogId.DISCOVERY, part.length, nsid=0, offset=part.offset, rae=part.rae
        )
        log.add(device.admin(sqe, "Get Log Page (discovery)", part.length)[0])
    return log.data
