# SPDX-License-Identifier: BSD-3-Clause
"""The engine: devices, queue pairs, capsules, buffers, stores, and the I/O command path, in C.

The engine implements mechanism, not policy.  A call returns at once unless its docstring says that
it blocks; blocking calls release the GIL.
"""

from typing import Literal, TypedDict, type_check_only

from typing_extensions import Buffer as SupportsBuffer

from nvmf.engine._cm import (
    ConnectRequest as ConnectRequest,
)
from nvmf.engine._cm import (
    EventChannel as EventChannel,
)
from nvmf.engine._cm import (
    Listener as Listener,
)
from nvmf.engine._cm import (
    ListenerEvent as ListenerEvent,
)
from nvmf.engine._cm import (
    QpairEvent as QpairEvent,
)
from nvmf.engine._host import (
    BenchFigures as BenchFigures,
)
from nvmf.engine._host import (
    BenchPart as BenchPart,
)
from nvmf.engine._host import (
    HostBatch as HostBatch,
)
from nvmf.engine._host import (
    HostDevice as HostDevice,
)
from nvmf.engine._host import (
    HostMemory as HostMemory,
)
from nvmf.engine._host import (
    HostQueue as HostQueue,
)
from nvmf.engine._host import (
    HostSpread as HostSpread,
)
from nvmf.engine._host import (
    bench as bench,
)
from nvmf.engine._host import (
    bench_cancel as bench_cancel,
)
from nvmf.engine._host import (
    bench_live as bench_live,
)
from nvmf.engine._host import (
    bench_threads as bench_threads,
)
from nvmf.engine._memory import (
    MemoryClient as MemoryClient,
)
from nvmf.engine._memory import (
    MemoryConnection as MemoryConnection,
)
from nvmf.engine._memory import (
    MemoryEvent as MemoryEvent,
)
from nvmf.engine._memory import (
    MemoryFigures as MemoryFigures,
)
from nvmf.engine._memory import (
    MemoryPart as MemoryPart,
)
from nvmf.engine._memory import (
    MemoryServer as MemoryServer,
)
from nvmf.engine._memory import (
    memory_bench_cancel as memory_bench_cancel,
)
from nvmf.engine._storage import (
    Gates as Gates,
)
from nvmf.engine._storage import (
    Namespace as Namespace,
)
from nvmf.engine._storage import (
    NamespaceLatency as NamespaceLatency,
)
from nvmf.engine._storage import (
    NamespaceTable as NamespaceTable,
)
from nvmf.engine._storage import (
    Store as Store,
)
from nvmf.engine._target import (
    Aborted as Aborted,
)
from nvmf.engine._target import (
    Closed as Closed,
)
from nvmf.engine._target import (
    Command as Command,
)
from nvmf.engine._target import (
    DeviceReady as DeviceReady,
)
from nvmf.engine._target import (
    Faulted as Faulted,
)
from nvmf.engine._target import (
    Fenced as Fenced,
)
from nvmf.engine._target import (
    Freed as Freed,
)
from nvmf.engine._target import (
    Injected as Injected,
)
from nvmf.engine._target import (
    Qpair as Qpair,
)
from nvmf.engine._target import (
    QpairError as QpairError,
)
from nvmf.engine._target import (
    Retired as Retired,
)
from nvmf.engine._target import (
    Target as Target,
)
from nvmf.errors import Error

Address = tuple[str, int]
"""Numeric IPv4 or IPv6 address, and port number."""

class EngineError(Error, OSError):
    """A call of the engine failed: errno, and a message with the attempted operation."""

class ConnectError(EngineError):
    """A host queue failed to connect."""

    cm_event: int
    """The enum rdma_cm_event_type that ended the attempt, or -1."""
    cm_status: int
    reject_sts: int
    """sts of an NVMe-oF reject (1 to 8); 0 if there was none."""
    nvme_status: int

def set_iwarp_options(
    *,
    crc: bool | None = None,
    congestion: str | None = None,
    mpa_revision: int | None = None,
    first_fpdu_delay_us: int | None = None,
    handshake_timeout_ms: int | None = None,
) -> None:
    """Set options of the embedded device, for subsequent connections; congestion "" selects the
    device's default."""

def start_capture(name: str) -> None:
    """Send the packets of the RDMA devices of this process to a Unix socket, as pcapng, until
    its reader closes it.

    name: a path, or @ and a name in the abstract name space.  EngineError if no socket listens
    there, or a capture runs (EBUSY).
    """

def verbs_available(kind: Literal["iwarp", "roce", "system"]) -> str | None:
    """Return None if the verbs library loads, otherwise why not."""

@type_check_only
class ListedPort(TypedDict):
    """A port of a device."""

    port: int
    state: str
    max_mtu: int
    """Bytes; 0 if unknown."""
    active_mtu: int
    """Bytes; 0 if unknown."""
    link_layer: str
    gids: list[str]

@type_check_only
class ListedDevice(TypedDict):
    """A device, its limits with the names of struct ibv_device_attr."""

    name: str
    transport: str
    fw_ver: str
    vendor_id: int
    max_qp: int
    max_qp_wr: int
    max_cq: int
    max_cqe: int
    max_mr: int
    max_sge: int
    max_qp_rd_atom: int
    max_qp_init_rd_atom: int
    ports: list[ListedPort]

def list_devices(kind: Literal["iwarp", "roce", "system"]) -> list[ListedDevice]:
    """Return the devices of a kind.

    Empty if the library loads but there is no device.  Raises EngineError if it does not load.
    """

def crc32c(data: SupportsBuffer, crc: int = 0) -> int:
    """Return the CRC32C (Castagnoli) of a contiguous buffer; crc continues an earlier one."""

def resources() -> dict[str, int]:
    """Return pd, mr, mw, cq, srq, qp, cm_id: the objects of the embedded device in this process,
    counted as by `rdma resource show` for other devices."""
