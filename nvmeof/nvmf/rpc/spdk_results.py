# SPDX-License-Identifier: BSD-3-Clause
"""Results of methods that SPDK has, too; see nvmf.rpc.results."""

from typing import NotRequired, TypedDict

from nvmf.json import JSON


class BdevRates(TypedDict):
    """Limits of a bdev; 0: none."""

    rw_ios_per_sec: int
    rw_mbytes_per_sec: int
    """Mebibytes per second, rounded down."""
    r_mbytes_per_sec: int
    w_mbytes_per_sec: int


class Bdev(TypedDict):
    """Storage: a bdev with a name, or that of a namespace from a configuration."""

    name: str
    """If it has no name: the path, or the UUID."""
    aliases: list[str]
    """The UUID."""
    product_name: str
    """Malloc disk, AIO disk or Null disk, as in SPDK, or the kind of its store."""
    block_size: int
    """Bytes of a logical block."""
    num_blocks: int
    """0: the file or device is absent."""
    uuid: str
    assigned_rate_limits: BdevRates
    claimed: bool
    """Whether it is a namespace."""
    claim_type: NotRequired[str]
    """exclusive_write; left out: it is not a namespace."""
    zoned: bool
    """Always false."""
    supported_io_types: dict[str, bool]
    driver_specific: dict[str, JSON]
    """The file, for the AIO driver."""


class BdevStats(TypedDict):
    """Counters of a bdev since it became a namespace; 0 for those that are not measured."""

    name: str
    bytes_read: int
    num_read_ops: int
    bytes_written: int
    num_write_ops: int
    bytes_unmapped: int
    num_unmap_ops: int
    bytes_copied: int
    num_copy_ops: int
    read_latency_ticks: int
    max_read_latency_ticks: int
    min_read_latency_ticks: int
    write_latency_ticks: int
    max_write_latency_ticks: int
    min_write_latency_ticks: int
    unmap_latency_ticks: int
    max_unmap_latency_ticks: int
    min_unmap_latency_ticks: int
    copy_latency_ticks: int
    max_copy_latency_ticks: int
    min_copy_latency_ticks: int


class Iostat(TypedDict):
    """Counters of bdevs at one moment."""

    tick_rate: int
    """Ticks per second."""
    ticks: int
    bdevs: list[BdevStats]


class FrameworkPart(TypedDict):
    """A part of the configuration that SPDK calls a subsystem."""

    subsystem: str
    """keyring, bdev or nvmf."""
    depends_on: list[str]


class ConfigCall(TypedDict):
    """A method, and the parameters with which it creates an object again."""

    method: str
    params: dict[str, JSON]


class PartConfig(TypedDict):
    """The calls that create a part of the configuration again."""

    subsystem: str
    config: list[ConfigCall]


class SavedConfig(TypedDict):
    """The calls that create the whole configuration again, as in SPDK's files."""

    subsystems: list[PartConfig]


class ReactorThread(TypedDict):
    """A thread of a reactor."""

    name: str
    id: int
    cpumask: str
    """Hexadecimal."""
    elapsed: int
    """Always 0."""


class Reactor(TypedDict):
    """A reactor: a thread of its own, which is not bound to a CPU by default."""

    lcore: int
    """Its CPU; its number, if it is not bound to a CPU."""
    busy: int
    """Not measured: 0."""
    idle: int
    """Not measured: 0."""
    in_interrupt: bool
    """Always true: an idle reactor sleeps."""
    lw_threads: list[ReactorThread]


class Framework(TypedDict):
    """The reactors."""

    tick_rate: int
    pid: int
    reactors: list[Reactor]


class Scheduler(TypedDict):
    """The scheduler of reactors."""

    scheduler_name: str
    """Always static: a queue pair keeps its reactor."""
    scheduler_period: int


class ReferralAddress(TypedDict):
    """The address of a different discovery service."""

    trtype: str
    adrfam: str
    traddr: str
    trsvcid: str


class Referral(TypedDict):
    """A different discovery service that is reported to hosts."""

    address: ReferralAddress
    subnqn: str
    secure_channel: bool
    """Always false."""


class TransportLimits(TypedDict):
    """A transport with its limits."""

    trtype: str
    max_queue_depth: int
    max_io_qpairs_per_ctrlr: int
    in_capsule_data_size: int
    """Bytes."""
    max_io_size: int
    """Bytes."""
    io_unit_size: int
    """Bytes of a buffer."""
    max_aq_depth: int
    """Entries of an admin queue."""
    num_shared_buffers: int


class KeyFile(TypedDict):
    """A key file of the keyring."""

    name: str
    path: str


class VersionFields(TypedDict):
    """Parts of a version."""

    major: int
    minor: int
    patch: int
    suffix: str


class Version(TypedDict):
    """The version of the target."""

    version: str
    fields: VersionFields


class ReactorCounts(TypedDict):
    """Queues and commands of a reactor, with SPDK's names."""

    admin_qpairs: int
    """Admin queues since the start."""
    io_qpairs: int
    """I/O queues since the start."""
    current_admin_qpairs: int
    current_io_qpairs: int
    pending_bdev_io: int
    """Commands in progress now."""
    completed_nvme_io: int
