# SPDX-License-Identifier: BSD-3-Clause
"""Results of the methods: JSON objects as dictionaries with these fields.

A field that is not required is left out if it does not apply. This module does not postpone the
evaluation of annotations: Python 3.11 finds the fields that are not required only in evaluated
ones.
"""

from typing import Literal, NotRequired, TypedDict

from nvmf.json import JSON
from nvmf.rpc.memory import MemoryConnection as MemoryConnection
from nvmf.rpc.mirror import Mirror as Mirror
from nvmf.rpc.mirror import MirrorLeg as MirrorLeg
from nvmf.rpc.mirror import MirrorStatus as MirrorStatus
from nvmf.rpc.spdk_results import Bdev as Bdev
from nvmf.rpc.spdk_results import BdevRates as BdevRates
from nvmf.rpc.spdk_results import BdevStats as BdevStats
from nvmf.rpc.spdk_results import ConfigCall as ConfigCall
from nvmf.rpc.spdk_results import Framework as Framework
from nvmf.rpc.spdk_results import FrameworkPart as FrameworkPart
from nvmf.rpc.spdk_results import Iostat as Iostat
from nvmf.rpc.spdk_results import KeyFile as KeyFile
from nvmf.rpc.spdk_results import PartConfig as PartConfig
from nvmf.rpc.spdk_results import Reactor as Reactor
from nvmf.rpc.spdk_results import ReactorCounts as ReactorCounts
from nvmf.rpc.spdk_results import ReactorThread as ReactorThread
from nvmf.rpc.spdk_results import Referral as Referral
from nvmf.rpc.spdk_results import ReferralAddress as ReferralAddress
from nvmf.rpc.spdk_results import SavedConfig as SavedConfig
from nvmf.rpc.spdk_results import Scheduler as Scheduler
from nvmf.rpc.spdk_results import TransportLimits as TransportLimits
from nvmf.rpc.spdk_results import Version as Version
from nvmf.rpc.spdk_results import VersionFields as VersionFields
from nvmf.rpc.spdk_threads import Notification as Notification


class Address(TypedDict):
    """A transport address."""

    trtype: str
    """Always RDMA."""
    adrfam: str
    """IPv4 or IPv6."""
    traddr: str
    """A numeric address."""
    trsvcid: str
    """The port number, in decimal."""


class OpenedPort(Address):
    """A port that was added."""

    absent: NotRequired[str]
    """Reason why the target does not listen yet: the port waits for its device."""


class Port(Address):
    """A port of the target."""

    device: str
    """Device that the port uses: iwarp, roce or system."""
    ana_states: dict[str, str]
    """ANA states that differ from optimized, by the number of the ANA group."""
    absent: NotRequired[str]
    """Reason why the target does not listen: the port waits for its device."""


class Listener(TypedDict):
    """An address of a subsystem."""

    address: Address


class Host(TypedDict):
    """A host that may connect."""

    nqn: str
    dhchap_key: NotRequired[str]
    """The location of its key: the host has to authenticate."""
    dhchap_ctrlr_key: NotRequired[str]
    """The location of the controller's key: the host may demand authentication, too."""


class Limits(TypedDict, total=False):
    """Limits of a namespace, for all hosts together; a limit that is not set is left out."""

    read_iops: int
    """Read, Compare and Verify commands per second."""
    write_iops: int
    """Write, Write Zeroes and Copy commands per second."""
    iops: int
    """Commands of both kinds per second."""
    read_bandwidth: int
    """Bytes per second of the commands that read."""
    write_bandwidth: int
    """Bytes per second of the commands that write."""
    bandwidth: int
    """Bytes per second of both kinds."""
    burst_ms: int
    """Share of each limit, in milliseconds, that may be used at once after an idle period."""


class Namespace(TypedDict):
    """A namespace."""

    nsid: int
    bdev_name: str
    """The name of its bdev; if it has none, the path or the kind of the store."""
    name: str
    """The same as bdev_name."""
    nguid: str
    """32 hexadecimal digits."""
    eui64: str
    """16 hexadecimal digits."""
    uuid: str
    anagrpid: int
    """The ANA group."""
    store: str
    """The kind of its store."""
    path: str | None
    size: int
    """Bytes."""
    block_size: int
    """Bytes of a logical block."""
    read_only: bool
    write_protection: str
    """none, protected, until-power-cycle or permanent."""
    invalid_blocks: int
    """Blocks marked as invalid by Write Uncorrectable."""
    hosts: NotRequired[list[str]]
    """The hosts that see it; left out: every host of the subsystem."""
    limits: NotRequired[Limits]
    """Left out: no limits."""


class AbsentNamespace(TypedDict):
    """A namespace that waits for its file or device."""

    nsid: int
    store: str
    path: str
    absent: str
    """The reason."""


class Subsystem(TypedDict):
    """A subsystem. The discovery subsystem has the first five fields only."""

    nqn: str
    subtype: Literal["NVMe", "Discovery"]
    listen_addresses: list[Address]
    allow_any_host: bool
    hosts: list[Host]
    """The hosts that may connect, if not every host may."""
    serial_number: NotRequired[str]
    model_number: NotRequired[str]
    max_namespaces: NotRequired[int]
    min_cntlid: NotRequired[int]
    max_cntlid: NotRequired[int]
    namespaces: NotRequired[list[Namespace]]


class Controller(TypedDict):
    """A controller: the connection of a host."""

    cntlid: int
    hostnqn: str
    hostid: str
    """32 hexadecimal digits."""
    num_io_qpairs: int
    """Connected I/O queues."""
    keep_alive_ms: int
    """Keep Alive Timeout in milliseconds; 0: none."""
    ready: bool
    """CSTS.RDY."""
    peer_address: Address


class TreeSubsystem(Subsystem):
    """A subsystem with its connections."""

    absent_namespaces: list[AbsentNamespace]
    controllers: list[Controller]
    memory: list[MemoryConnection]
    """The hosts that use a namespace as memory."""
    mirrors: list[Mirror]
    """The namespaces that are mirrors."""


class Fault(TypedDict):
    """A fault on purpose."""

    id: int
    fault: dict[str, JSON]
    """Its conditions and effects, as given."""
    summary: str
    """The same as text."""
    seconds: float
    """How long it has been active, or was."""
    matched: int
    """Commands that met its conditions; connections, if the path is lost; frames, of the wire."""
    hits: int
    """The commands or connections that it affected."""
    ended: str | None
    """Why it has ended; null while it is active."""


class Tree(TypedDict):
    """All objects of a target."""

    ports: list[Port]
    subsystems: list[TreeSubsystem]
    faults: list[Fault]
    """Active faults on purpose."""


class QueueTotals(TypedDict):
    """Counters of queues, which never decrease."""

    commands: int
    errors: int
    """Commands that failed."""
    read_bytes: int
    write_bytes: int
    malformed: int
    """Invalid capsules."""
    waited_for_buffer: int
    """Commands that had to wait for a buffer."""


class QueueStats(QueueTotals):
    """Counters of a queue."""

    outstanding: int
    """Commands in progress now."""


class QueuePair(TypedDict):
    """A connected queue."""

    cntlid: int
    qid: int
    """0: the admin queue."""
    state: str
    """Always active."""
    listen_address: Address
    peer_address: Address
    entries: int
    """Size of the submission queue."""
    stats: QueueStats


class NamespaceStats(TypedDict):
    """Counters of a namespace since it was added."""

    reads: int
    writes: int
    read_bytes: int
    write_bytes: int
    errors: int
    media_errors: int
    throttled: int
    """Commands that a limit has delayed."""
    flushes: int
    compares: int
    verifies: int
    write_zeroes: int
    deallocates: int
    """Dataset Management commands."""
    checked_bytes: int
    """Bytes of Compare and Verify commands."""
    copies: int
    copied_bytes: int


class NamedNamespaceStats(NamespaceStats):
    """Counters of a namespace, with its name."""

    nqn: str
    """The subsystem."""
    nsid: int


class Latency(TypedDict):
    """Histograms of the latency of Reads and Writes."""

    read: list[int]
    """Counts: below 1 µs, then each bucket ends at twice the previous bound, the last is for the
    rest."""
    write: list[int]
    read_ns: int
    """Sum of all latencies in nanoseconds."""
    write_ns: int


class NamespaceCounters(NamedNamespaceStats):
    """Counters of a namespace, with its latency."""

    size: int
    """Bytes."""
    latency: Latency


class ReactorCounters(QueueTotals):
    """A reactor: counters of its queues, including closed ones."""

    reactor: int
    admin_queues: int
    """Open admin queues."""
    io_queues: int
    """Open I/O queues."""
    outstanding: int
    """Commands in progress now."""


class QueueCounters(QueueStats):
    """Counters of a connected queue."""

    hostnqn: str
    subnqn: str
    cntlid: int
    qid: int
    reactor: int
    peer_address: Address


class EventCounts(TypedDict):
    """Counts of events since the target started."""

    accepted: int
    """Accepted connections."""
    refused: dict[str, int]
    """Rejected connections, by the name of the CM status."""
    connects_refused: dict[str, int]
    """Failed Connect commands, or other commands in their place, by the name of the status."""
    controllers: int
    """Created controllers."""
    reconnects: int
    """Controllers of hosts whose previous controller ended without a shutdown."""
    keep_alive_timeouts: int
    authenticated: int
    """Successful authentications of queues."""
    authentication_failures: int


class Counters(TypedDict):
    """All counters at one moment."""

    seconds: float
    """Time of a monotonic clock, to compute rates."""
    reactors: list[ReactorCounters]
    namespaces: list[NamespaceCounters]
    queues: list[QueueCounters]
    events: EventCounts


class Transport(TypedDict):
    """A transport in the list of a poll group."""

    trtype: str


class PollGroup(ReactorCounts):
    """A reactor."""

    name: str
    transports: list[Transport]


class Stats(TypedDict):
    """Counters of reactors and namespaces."""

    tick_rate: int
    poll_groups: list[PollGroup]
    namespaces: list[NamedNamespaceStats]


class CurrentConfig(TypedDict):
    """The configuration of the target."""

    config: dict[str, JSON]
    """As in a configuration file."""
    path: str | None
    """The file; null if the target was started without one."""
    sha256: str | None
    """SHA-256 of the file as it was read, hexadecimal."""
    revision: int
    """Number of the configuration: each change has a new one."""


class Reloaded(TypedDict):
    """The result of a reload."""

    changed: str
    """A sentence about the changes."""
    ignored: list[str]
    """Sentences about changes that need a restart."""
    warnings: list[str]
    """Valid but probably unintended settings."""
