# SPDX-License-Identifier: BSD-3-Clause
"""Lists and counters of bdevs, including the storage of namespaces from a configuration."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import NAMESPACE_OID, UUID, uuid5

from nvmf.config.limits import LimitsConfig
from nvmf.json import JSON
from nvmf.rpc.errors import Code, RpcError
from nvmf.rpc.results import Bdev, BdevRates, BdevStats, Iostat
from nvmf.target.change.bdevs import Storage
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.model.namespace import Namespace
    from nvmf.target.service.administration import Administration

_PRODUCTS = {"ram": "Malloc disk", "file": "AIO disk", "null": "Null disk"}
_READS = ("read", "flush", "compare", "nvme_io", "reset", "abort")
_WRITES = ("write", "unmap", "write_zeroes", "compare_and_write")
_NEVER = ("nvme_admin", "nvme_io_md", "zcopy", "copy", "seek_hole", "seek_data")
_MEBIBYTE = 1 << 20


class GetBdevs(Params):
    name: str | None = None
    """Name, path or UUID."""
    timeout: int | None = None
    """No effect: a bdev exists as soon as its create method has returned."""


class GetIostat(Params):
    names: list[str] | None = None
    """If left out: all."""
    per_channel: Literal[False] = False
    reset_mode: Literal["none"] = "none"


@dataclass(frozen=True, slots=True)
class _Seen:
    """A bdev or the storage of a namespace."""

    name: str
    storage: Storage
    uuid: UUID
    attached: bool
    namespace: Namespace | None
    """None: it is not a namespace, or absent."""


def _every(administration: Administration) -> list[_Seen]:
    config, core = administration.server.config, administration.server.core
    found = [
        _Seen(b.name, b, b.uuid or uuid5(NAMESPACE_OID, f"{b.name}\0{b.path}"), False, None)
        for b in config.bdevs
    ]
    for subsystem in config.subsystems:
        live = core.subsystems.get(subsystem.nqn)
        for nsid, one in subsystem.numbered():
            namespace = live.namespaces.get(nsid) if live is not None else None
            if namespace is not None:
                uuid = namespace.identity.uuid
            else:
                uuid = UUID(str(administration.identity(subsystem.nqn, nsid, one)["uuid"]))
            name = one.bdev or (str(one.path) if one.path is not None else str(uuid))
            found.append(_Seen(name, one, uuid, True, namespace))
    return found


def _chosen(administration: Administration, names: list[str] | None) -> list[_Seen]:
    every = _every(administration)
    if names is None:
        return every
    found = []
    for name in names:
        one = next((b for b in every if name in (b.name, str(b.uuid))), None)
        if one is None:
            raise RpcError(Code.NO_SUCH_DEVICE, f"there is no bdev {name[:128]}")
        found.append(one)
    return found


@method("bdev_get_bdevs", GetBdevs, "bdevs")
async def get_bdevs(administration: Administration, params: GetBdevs) -> list[Bdev]:
    """Return all bdevs, or one."""
    names = [params.name] if params.name is not None else None
    chosen = _chosen(administration, names)
    files = {b.storage.path for b in chosen if b.namespace is None and b.storage.path is not None}
    sizes = await administration.server.files.read(partial(_sizes, files), "the files of bdevs")
    return [_described(bdev, sizes) for bdev in chosen]


def _sizes(paths: set[Path]) -> dict[Path, int]:
    """Return the bytes of files and devices, 0 for those that cannot be opened; may block."""
    return {path: _size(path) for path in paths}


def _size(path: Path) -> int:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return 0
    try:
        return os.lseek(handle, 0, os.SEEK_END)
    except OSError:
        return 0
    finally:
        os.close(handle)


def rates(limits: LimitsConfig) -> BdevRates:
    """Return limits as SPDK has them; others are left out."""
    return {
        "rw_ios_per_sec": limits.iops or 0,
        "rw_mbytes_per_sec": (limits.bandwidth or 0) // _MEBIBYTE,
        "r_mbytes_per_sec": (limits.read_bandwidth or 0) // _MEBIBYTE,
        "w_mbytes_per_sec": (limits.write_bandwidth or 0) // _MEBIBYTE,
    }


def _described(bdev: _Seen, sizes: dict[Path, int]) -> Bdev:
    storage, namespace = bdev.storage, bdev.namespace
    block_size: int = storage.block_size
    size = storage.size or 0
    if namespace is not None:
        block_size, size = namespace.store.block_size, namespace.store.size
    elif storage.path is not None:
        there = sizes.get(storage.path, 0)
        size = min(size or there, there)
    types = dict.fromkeys(_READS, True) | dict.fromkeys(_WRITES, not storage.read_only)
    driver: dict[str, JSON] = {}
    if storage.store == "file":
        driver["aio"] = {"filename": str(storage.path), "readonly": storage.read_only}
    found: Bdev = {
        "name": bdev.name,
        "aliases": [str(bdev.uuid)],
        "product_name": _PRODUCTS.get(storage.store, storage.store),
        "block_size": block_size,
        "num_blocks": size // block_size,
        "uuid": str(bdev.uuid),
        "assigned_rate_limits": rates(storage.limits),
        "claimed": bdev.attached,
        "zoned": False,
        "supported_io_types": types | dict.fromkeys(_NEVER, False),
        "driver_specific": driver,
    }
    if bdev.attached:
        found["claim_type"] = "exclusive_write"
    return found


@method("bdev_get_iostat", GetIostat, "bdev_iostat")
def get_iostat(administration: Administration, params: GetIostat) -> Iostat:
    """Return the counters of all bdevs, or of some."""
    return {
        "tick_rate": 1_000_000_000,
        "ticks": time.monotonic_ns(),
        "bdevs": [_counted(bdev) for bdev in _chosen(administration, params.names)],
    }


def _counted(bdev: _Seen) -> BdevStats:
    stats = bdev.namespace.stats() if bdev.namespace is not None else {}
    latency = bdev.namespace.engine.latency() if bdev.namespace is not None else None
    return {
        "name": bdev.name,
        "bytes_read": stats.get("read_bytes", 0),
        "num_read_ops": stats.get("reads", 0),
        "bytes_written": stats.get("write_bytes", 0),
        "num_write_ops": stats.get("writes", 0),
        "bytes_unmapped": 0,
        "num_unmap_ops": stats.get("deallocates", 0),
        "bytes_copied": 0,
        "num_copy_ops": 0,
        "read_latency_ticks": latency["read_ns"] if latency is not None else 0,
        "max_read_latency_ticks": 0,
        "min_read_latency_ticks": 0,
        "write_latency_ticks": latency["write_ns"] if latency is not None else 0,
        "max_write_latency_ticks": 0,
        "min_write_latency_ticks": 0,
        "unmap_latency_ticks": 0,
        "max_unmap_latency_ticks": 0,
        "min_unmap_latency_ticks": 0,
        "copy_latency_ticks": 0,
        "max_copy_latency_ticks": 0,
        "min_copy_latency_ticks": 0,
    }
