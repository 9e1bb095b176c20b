# SPDX-License-Identifier: BSD-3-Clause
"""Options of SPDK that have no effect here: accepted, so that set-up scripts and files work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ConfigDict

from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class Anything(Params):
    model_config = ConfigDict(extra="allow", frozen=True, strict=True)


OPTIONS = {
    "accel_set_options": "acceleration",
    "bdev_examine": "virtual bdevs",
    "bdev_iscsi_set_options": "iSCSI bdevs",
    "bdev_nvme_set_hotplug": "NVMe bdevs",
    "bdev_nvme_set_options": "NVMe bdevs",
    "bdev_raid_set_options": "RAID bdevs",
    "bdev_set_options": "bdevs: [target] has the number and size of buffers",
    "bdev_wait_for_examine": "virtual bdevs",
    "framework_disable_cpumask_locks": "locks of processors",
    "framework_enable_cpumask_locks": "locks of processors",
    "iobuf_set_options": "buffers: [target] has their number and size",
    "keyring_linux_set_options": "the kernel's keyring",
    "nvmf_set_config": "the target",
    "nvmf_set_crdt": "Command Retry Delay Times",
    "nvmf_set_max_subsystems": "the number of subsystems, which is not limited",
    "scheduler_set_options": "the scheduler",
    "sock_impl_set_options": "sockets",
    "sock_set_default_impl": "sockets",
    "trace_set_tpoint_mask": "trace points",
}
"""Methods, and their subjects in SPDK."""


def _accept(name: str, concerns: str) -> None:
    def accept(administration: Administration, params: Anything) -> bool:
        return True

    accept.__doc__ = f"Return True, without an effect; in SPDK, the subject is {concerns}."
    method(name, Anything, None)(accept)


for _name, _concerns in OPTIONS.items():
    _accept(_name, _concerns)
