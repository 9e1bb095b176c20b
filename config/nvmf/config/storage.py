# SPDX-License-Identifier: BSD-3-Clause
"""Storage in a configuration: namespaces, and bdevs that are not a namespace yet."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
    model_validator,
)

from nvmf.config.base import FaultError, Model, listed, unique
from nvmf.config.limits import LimitsConfig
from nvmf.config.mirror import LEGS_MOST, LegConfig
from nvmf.config.units import Eui64, FilePath, Nguid, Nqn, Size
from nvmf.spec.ana import MAX_GROUP

PYTHON = r"^[A-Za-z0-9_.#-]{1,128}(:[A-Za-z_][A-Za-z0-9_.]{0,63})?$"
BDEV = r"^[\x21-\x7e]+$"

BdevName = Annotated[str, StringConstraints(pattern=BDEV, min_length=1, max_length=128)]
"""Name of a bdev: printable ASCII characters without spaces."""


def _not_zero(uuid: UUID | None) -> None:
    if uuid is not None and uuid.int == 0:
        raise FaultError("uuid must not be all zero", "uuid")


def _whole_blocks(size: int | None, block_size: int) -> None:
    if size == 0:
        raise FaultError(f"size must be at least one block, of {block_size} bytes", "size")
    if size is not None and size % block_size:
        raise FaultError(f"size {size} is not a multiple of block_size {block_size}", "size")


class BdevConfig(Model):
    """[[bdev]]: storage that is not a namespace yet, made by SPDK's RPC methods."""

    name: BdevName
    """Its name; nvmf_subsystem_add_ns makes the bdev with this name a namespace."""
    store: Literal["ram", "file", "null"]
    """Storage of its data: memory (which is allocated for a namespace), a file or block device, or
    nowhere."""
    size: Size | None = None
    """Bytes; required for ram and null; limits how much of a file is used."""
    path: FilePath | None = None
    """The file or block device, for file."""
    block_size: Literal[512, 4096] = 512
    """Bytes of a logical block."""
    read_only: StrictBool = False
    """Hosts cannot write."""
    uuid: UUID | None = None
    """UUID of the namespace; default: derived from the subsystem, the NSID and the path."""
    limits: LimitsConfig = LimitsConfig()
    """Limits for all hosts together."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.store == "file":
            if self.path is None:
                raise ValueError('store = "file" needs path')
        elif self.size is None:
            raise ValueError(f'store = "{self.store}" needs size')
        elif self.path is not None:
            raise FaultError(f'store = "{self.store}" has no path', "path")
        _whole_blocks(self.size, self.block_size)
        _not_zero(self.uuid)
        return self


class NamespaceConfig(Model):
    """[[subsystem.namespace]]: a namespace and its storage."""

    nsid: StrictInt | None = Field(None, ge=1, le=0xFFFFFFFE)
    """Namespace identifier; default: the lowest free one."""
    store: Literal["ram", "file", "pmem", "null", "python", "mirror"]
    """Storage of its data: memory, a file or block device, persistent memory, nowhere, a store
    written in Python, or several copies, the legs of a mirror."""
    size: Size | None = None
    """Bytes; required for ram and null; limits how much of a file, Python store or mirror is
    used."""
    path: FilePath | None = None
    """The file or block device, for file and pmem."""
    python: str | None = Field(None, pattern=PYTHON)
    """The store, for python: its registered name, or MODULE:CLASS, which is imported."""
    options: dict[str, StrictBool | StrictInt | StrictFloat | str] = Field({})
    """Arguments of the store, for python."""
    legs: tuple[LegConfig, ...] = Field((), alias="leg", max_length=LEGS_MOST)
    """For mirror: at least two."""
    quorum: StrictInt | None = Field(None, ge=1, le=LEGS_MOST)
    """Legs of a mirror that must have a write before it is acknowledged; default: more than
    half."""
    resync_rate: Size = 32 << 20
    """Bytes per second at most that are copied to legs which lag, while hosts use the mirror; 0: no
    limit."""
    fence: Literal["reservation", "none"] = "reservation"
    """How a mirror keeps other writers from legs of other targets; with none, you must ensure that
    there is no other."""
    block_size: Literal[512, 4096] = 512
    """Bytes of a logical block; 4096 also if a store in Python or a leg requires it."""
    direct: StrictBool | None = None
    """Bypass the page cache; default: if possible."""
    read_only: StrictBool = False
    """Hosts cannot write."""
    persistent: StrictBool = False
    """Refuse a pmem store unless completed writes are known to survive a power failure."""
    power_fail_atomic: StrictBool = True
    """Make block writes to persistent memory atomic on power failure; uses the last 256 KiB."""
    ana_group: StrictInt = Field(1, ge=1, le=MAX_GROUP)
    """ANA group: see [[port.ana_group]]."""
    uuid: UUID | None = None
    """UUID; default: derived from the subsystem, the NSID and the path."""
    nguid: Nguid = None
    """Namespace Globally Unique Identifier; default: derived like uuid."""
    eui64: Eui64 = None
    """IEEE Extended Unique Identifier."""
    hosts: tuple[Nqn, ...] | None = None
    """NQNs of the hosts that see the namespace; default: all that may connect."""
    memory: tuple[Nqn, ...] = ()
    """NQNs of the hosts that may also write and read it as remote memory, by RDMA (ram, pmem)."""
    memory_read_only: tuple[Nqn, ...] = ()
    """NQNs of the hosts that may also read it as remote memory."""
    enabled: StrictBool = True
    """Whether the namespace is served; if not, its NSID stays reserved."""
    limits: LimitsConfig = LimitsConfig()
    """Limits for all hosts together."""
    hotplug: StrictBool = False
    """The namespace appears and disappears with its path; if false, a missing path is an error."""
    bdev: BdevName | None = None
    """Name of its storage in SPDK's RPC methods; if the namespace is removed by a request, the
    storage becomes a [[bdev]] with this name."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        unique(listed("hosts", self.hosts or ()), "host")
        self._of_memory()
        self._of_python()
        self._of_mirror()
        if self.store in ("python", "mirror"):
            pass
        elif self.store in ("ram", "null"):
            if self.size is None:
                raise ValueError(f'store = "{self.store}" needs size')
            if self.path is not None:
                raise FaultError(f'store = "{self.store}" has no path', "path")
        elif self.path is None:
            raise ValueError(f'store = "{self.store}" needs path')
        if self.hotplug and self.path is None:
            raise FaultError("hotplug requires path", "hotplug")
        if self.direct is not None and self.store != "file":
            raise FaultError('direct requires store = "file"', "direct")
        if self.persistent and self.store != "pmem":
            raise FaultError('persistent requires store = "pmem"', "persistent")
        if not self.power_fail_atomic and self.store != "pmem":
            raise FaultError('power_fail_atomic requires store = "pmem"', "power_fail_atomic")
        _whole_blocks(self.size, self.block_size)
        _not_zero(self.uuid)
        if self.bdev is not None and self.store not in ("ram", "file", "null"):
            raise FaultError(
                f'bdev requires store = "ram", "file" or "null", not "{self.store}"', "bdev"
            )
        return self

    def _of_memory(self) -> None:
        for key in ("memory", "memory_read_only"):
            if getattr(self, key) and self.store not in ("ram", "pmem"):
                raise FaultError(f'{key} requires store = "ram" or "pmem"', key)
        both = (*listed("memory", self.memory), *listed("memory_read_only", self.memory_read_only))
        unique(both, "host")

    @property
    def legs_needed(self) -> int:
        """The quorum of a mirror."""
        return self.quorum if self.quorum is not None else len(self.legs) // 2 + 1

    def _of_mirror(self) -> None:
        if self.store != "mirror":
            for key in ("legs", "quorum", "resync_rate", "fence"):
                field = NamespaceConfig.model_fields[key]
                if getattr(self, key) != field.get_default():
                    name = field.alias or key
                    raise FaultError(f'{name} requires store = "mirror"', name)
            return
        if len(self.legs) < 2:
            raise ValueError('store = "mirror" needs at least two [[subsystem.namespace.leg]]')
        unique(((("leg", n), leg.name) for n, leg in enumerate(self.legs)), "leg")
        if self.quorum is not None and self.quorum > len(self.legs):
            raise FaultError(f"a quorum of {self.quorum} of {len(self.legs)} legs", "quorum")
        if self.path is not None:
            raise FaultError(
                'store = "mirror" has no path: use [[subsystem.namespace.leg]]', "path"
            )

    def _of_python(self) -> None:
        if self.store == "python":
            if self.python is None:
                raise ValueError('store = "python" needs python, the name of the store')
            if self.path is not None:
                raise FaultError('store = "python" has no path: use options', "path")
        elif self.python is not None:
            raise FaultError('python requires store = "python"', "python")
        elif self.options:
            raise FaultError('options requires store = "python"', "options")
