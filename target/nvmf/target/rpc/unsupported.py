# SPDX-License-Identifier: BSD-3-Clause
"""Methods of SPDK that do not exist here, and what to use instead."""

from __future__ import annotations

_FILE = "create it with the kernel, and use its block device with bdev_uring_create"
_ONE_TARGET = "there is one target, nvmf_tgt, which always exists"
_LATENCY = "target_get_counters and the metrics have the latencies of namespaces"
_FAULTS = "target_add_fault delays commands, or makes them fail"
_OTHER = "the target exports namespaces by NVMe over RDMA only"
_NO_DPDK = "the target does not use DPDK or its drivers"
REASONS = (
    ("bdev_lvol_", f"logical volumes: {_FILE} (LVM)"),
    ("bdev_raid_", f"RAID: {_FILE} (md)"),
    ("bdev_nvme_", "NVMe devices: use the block device of the kernel's driver with "
                   "bdev_uring_create"),
    ("bdev_crypto_", f"encryption: {_FILE} (dm-crypt)"),
    ("bdev_compress_", f"compression: {_FILE}"),
    ("bdev_ocf_", f"caches: {_FILE} (dm-cache)"),
    ("bdev_rbd_", f"Ceph: {_FILE} (rbd)"),
    ("bdev_iscsi_", f"iSCSI: {_FILE} (iscsiadm)"),
    ("bdev_virtio_", f"virtio: {_FILE}"),
    ("bdev_ftl_", f"flash translation: {_FILE}"),
    ("bdev_split_", f"parts of bdevs: {_FILE} (partitions)"),
    ("bdev_zone_block_", "zoned namespaces are not supported"),
    ("bdev_passthru_", "it would have no effect: use the underlying bdev"),
    ("bdev_pmem_", 'use a namespace with store = "pmem" (target_add_subsystem)'),
    ("bdev_delay_", _FAULTS),
    ("bdev_error_", _FAULTS),
    ("bdev_enable_histogram", _LATENCY),
    ("bdev_get_histogram", _LATENCY),
    ("bdev_reset_iostat", "counters cannot be reset: subtract two readings of bdev_get_iostat"),
    ("bdev_set_qd_sampling_period", "nvmf_get_stats has the commands in progress"),
    ("nvmf_create_target", _ONE_TARGET),
    ("nvmf_delete_target", _ONE_TARGET),
    ("nvmf_stop_subsystem", "a subsystem is served as long as it exists"),
    ("thread_set_cpumask", "cpus in [target] binds reactors to processors"),
    ("framework_set_dynamic", "the scheduler is static"),
    ("trace_", "use log_set_flag, or record packets with target_capture"),
    ("iobuf_", "buffers: [target] has their number and size, and the metrics their use"),
    ("sock_", "sockets have no options here"),
    ("iscsi_", _OTHER),
    ("vhost_", _OTHER),
    ("scsi_", _OTHER),
    ("nbd_", _OTHER),
    ("ublk_", _OTHER),
    ("fsdev_", _OTHER),
    ("vfu_", _OTHER),
    ("accel_", "CRC32C is computed by the processor; there are no other accelerators"),
    ("ioat_", _NO_DPDK),
    ("idxd_", _NO_DPDK),
    ("dsa_", _NO_DPDK),
    ("iaa_", _NO_DPDK),
    ("mlx5_", _NO_DPDK),
    ("vmd_", _NO_DPDK),
    ("dpdk_", _NO_DPDK),
    ("env_dpdk_", _NO_DPDK),
)  # fmt: skip
"""Methods by the beginning of their name, and why they do not exist."""


def reason(name: str) -> str:
    """Return why a method of SPDK does not exist here; empty if it is unknown."""
    return next((why for start, why in REASONS if name.startswith(start)), "")
