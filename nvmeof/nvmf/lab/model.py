# SPDX-License-Identifier: BSD-3-Clause
"""The description of a run (lab.toml): systems, workloads, method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from nvmf.config.base import FaultError, Model, listed, unique
from nvmf.config.faults import FaultConfig
from nvmf.config.units import FilePath, Size
from nvmf.config.wirefaults import WHOLE, WireKind, WireRule
from nvmf.initiator import TransportId

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]
"""A name that is also a file name."""
Seconds = Annotated[float, Field(ge=0, le=30 * 86400, allow_inf_nan=False)]
Command = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\n\x00]*$")]
"""A line for the shell."""
OptionName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
OptionValue = StrictBool | StrictInt | float | Annotated[str, Field(pattern=r"^[^\n\x00]*$")]
Options = dict[OptionName, OptionValue]
"""Options of fio: name to value."""

OURS = frozenset(
    (
        *("filename", "directory", "filename_format", "opendir", "ioengine", "name"),
        *("output", "output_format", "group_reporting", "disk_util"),
        *("write_iops_log", "write_lat_log", "write_bw_log", "log_avg_msec", "per_job_logs"),
        *("write_hist_log", "log_hist_msec", "log_hist_coarseness"),
        *("lat_percentiles", "clat_percentiles"),
    )
)
"""Options of fio that a run sets."""


def _as_list(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


Sizes = Annotated[tuple[Size, ...], BeforeValidator(_as_list), Field(min_length=1, max_length=64)]
Depths = Annotated[
    tuple[Annotated[StrictInt, Field(ge=1, le=65536)], ...],
    BeforeValidator(_as_list),
    Field(min_length=1, max_length=64),
]
Percents = Annotated[
    tuple[Annotated[StrictInt, Field(ge=0, le=100)], ...],
    BeforeValidator(_as_list),
    Field(min_length=1, max_length=64),
]


class BaseSystem(Model):
    """The keys of all systems."""

    name: Name
    """Name in the report."""
    setup: Command | None = None
    """Shell command that is run before the system is used; failure ends its part of the run."""
    teardown: Command | None = None
    """Shell command that is run afterwards, also after a failure."""
    purge: Command | None = None
    """Shell command that erases the device, such as nvme format; see purge of [method]."""
    ssh: str | None = Field(None, pattern=r"^[A-Za-z0-9][^\s\x00]*$")
    """Machine on which these commands are run, as an argument of ssh."""
    pid_file: FilePath | None = None
    """File with the process whose use of processors is sampled."""
    options: Options = Field(default_factory=dict)
    """Options of fio for this system only."""

    @field_validator("options")
    @classmethod
    def _options(cls, value: Options) -> Options:
        return _allowed(value)


class SystemFault(FaultConfig):
    """[[system.fault]]: a fault on purpose (target fault), while the system is measured."""

    begin: Seconds | None = None
    """Seconds after the first I/O of each measurement, including the ramp; default: active during
    the whole run."""

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.begin is None and self.seconds is not None:
            raise FaultError("seconds needs begin: otherwise it lasts for the whole run", "seconds")
        return self


class WireFault(WireRule):
    """[[system.wire]]: a fault between the host and the target, which a relay makes."""

    kind: WireKind
    """delay: frames arrive later.  drop, duplicate, reorder, corrupt: of single frames.  cut: the
    connection is reset.  half-open: the target's end of a connection is closed, and the host is
    not told.  stall: frames wait until the fault ends."""
    begin: Seconds | None = None
    """Seconds after the first I/O of each measurement; default: active during the whole run."""

    @property
    def effect(self) -> str:
        """The kind."""
        return self.kind

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.begin is None and self.seconds is not None:
            raise FaultError("seconds needs begin: otherwise it lasts for the whole run", "seconds")
        if self.begin is None and self.kind in ("cut", *WHOLE):
            raise FaultError(f"{self.kind} needs begin: no connection would be made", "begin")
        return self


class TargetSystem(BaseSystem):
    """kind = "target": a target of ours, served for the run."""

    kind: Literal["target"]
    """Kind of the system."""
    config: FilePath | None = None
    """Configuration of a target; its first port and its first subsystem are used."""
    store: Literal["ram", "file", "pmem", "null", "mirror"] | None = None
    """Storage of the namespace; default, without config: ram. A mirror has its legs on the RAM of
    as many further targets, which are served as well."""
    replicas: StrictInt | None = Field(None, ge=2, le=15)
    """Legs of a mirror; default: 3."""
    quorum: StrictInt | None = Field(None, ge=1, le=15)
    """Legs of a mirror that must have a write before it is acknowledged; default: more than
    half."""
    size: Size | None = None
    """Bytes of the namespace; for a file that does not exist: of the file, which is removed
    afterwards."""
    path: FilePath | None = None
    """The file or block device, for file and pmem."""
    block_size: Literal[512, 4096] = 4096
    """Bytes of a logical block."""
    device: Literal["iwarp", "roce", "system"] = "iwarp"
    """RDMA device of the target and of fio."""
    traddr: str = "127.0.0.1"
    """Address of the target; default: on the loopback network, for roce one of its own."""
    reactors: StrictInt = Field(1, ge=1, le=64)
    """Number of threads that transfer data."""
    nsid: StrictInt = Field(1, ge=1, le=0xFFFFFFFE)
    """Namespace, with config."""
    overwrite: str | None = None
    """The path of the data that may be destroyed, or with config the NQN."""
    faults: tuple[SystemFault, ...] = Field((), alias="fault", max_length=32)
    """Faults on purpose."""
    wire: tuple[WireFault, ...] = Field((), max_length=32)
    """Faults on the wire; with one, a relay on this machine is between fio and the target."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.config is not None:
            for key in ("store", "size", "path"):
                if getattr(self, key) is not None:
                    raise FaultError("config excludes store, size and path", key)
        elif self.store in ("file", "pmem"):
            if self.path is None:
                raise ValueError(f'store = "{self.store}" needs path')
        elif self.path is not None:
            raise FaultError(f'store = "{self.store or "ram"}" has no path', "path")
        if self.store != "mirror":
            for key in ("replicas", "quorum"):
                if getattr(self, key) is not None:
                    raise FaultError(f'{key} requires store = "mirror"', key)
        elif self.quorum is not None and self.quorum > (self.replicas or 3):
            raise FaultError(f"a quorum of {self.quorum} of {self.replicas or 3} legs", "quorum")
        if self.wire:
            self._relayed()
        if self.path is not None and self.overwrite is not None:
            _named(self.overwrite, self.path)
        return self

    def _relayed(self) -> None:
        if self.device == "system":
            raise FaultError('device = "system" has no faults on the wire', "device")
        if self.device == "roce" and not self.traddr.startswith("127."):
            raise FaultError("faults on the wire of roce need a traddr of 127.0.0.0/8", "traddr")
        for n, fault in enumerate(self.wire):
            if fault.kind == "cut" and self.device == "roce":
                raise FaultError("RoCEv2 has no reset: use half-open", "wire", n, "kind")


class RemoteSystem(BaseSystem):
    """kind = "remote": a target that runs elsewhere, or that setup starts; used with our engine."""

    kind: Literal["remote"]
    """Kind of the system."""
    url: str
    """nvme+rdma://HOST:PORT/NQN"""
    nsid: StrictInt = Field(1, ge=1, le=0xFFFFFFFE)
    """Namespace."""
    overwrite: str | None = None
    """The NQN, if the data of the namespace may be destroyed."""

    @field_validator("url")
    @classmethod
    def _url(cls, value: str) -> str:
        if TransportId.parse(value).is_discovery:
            raise ValueError("the URL needs the NQN of a subsystem: nvme+rdma://HOST:PORT/NQN")
        return value

    @model_validator(mode="after")
    def _together(self) -> Self:
        nqn = TransportId.parse(self.url).subnqn
        if self.overwrite not in (None, nqn):
            raise FaultError(f"overwrite must repeat the NQN {nqn}", "overwrite")
        return self


class FileSystem(BaseSystem):
    """kind = "file": a local file or block device, also one that setup connects or mounts."""

    kind: Literal["file"]
    """Kind of the system."""
    path: FilePath
    """The file or block device."""
    size: Size | None = None
    """Bytes to use; required for a file that does not exist, which is removed afterwards."""
    engine: str = Field("io_uring", pattern=r"^[^\s\x00]+$")
    """fio's ioengine."""
    direct: StrictBool = True
    """Bypass the page cache."""
    overwrite: str | None = None
    """The path, if its data may be destroyed."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.overwrite is not None:
            _named(self.overwrite, self.path)
        return self


class NullSystem(BaseSystem):
    """kind = "null": fio's null engine, which shows the limit of fio on this machine."""

    kind: Literal["null"]
    """Kind of the system."""
    size: Size = 1 << 30
    """Bytes that fio addresses."""


System = Annotated[
    TargetSystem | RemoteSystem | FileSystem | NullSystem, Field(discriminator="kind")
]


class WorkloadConfig(Model):
    """[[workload]]: the load of fio; each combination of the lists is measured."""

    name: Name
    """Name in the report."""
    rw: (
        Literal["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"]
        | Literal["trim", "randtrim"]
    ) = "randread"
    """Pattern, in fio's words."""
    bs: Sizes = (4096,)
    """Bytes of an I/O; one or a list."""
    iodepth: Depths = (1,)
    """Outstanding I/Os of a job; one or a list."""
    numjobs: Depths = (1,)
    """Jobs: with our engine, each is a host with a queue; one or a list."""
    rwmixread: Percents | None = None
    """Percentage of reads, for rw and randrw; one or a list."""
    job_file: FilePath | None = None
    """A job file of fio, instead of the keys above."""
    trace: FilePath | None = None
    """A recorded load to replay, with its times: an iolog of fio (write_iolog), or a file of
    blktrace.  It has its own pattern, sizes and mix; the measurement ends with it, or after the
    runtime."""
    options: Options = Field(default_factory=dict)
    """Any options of fio."""

    @field_validator("options")
    @classmethod
    def _options(cls, value: Options) -> Options:
        return _allowed(value)

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.job_file is not None:
            for key in ("rw", "bs", "iodepth", "numjobs", "rwmixread"):
                if key in self.model_fields_set:
                    raise FaultError(f"a job_file excludes {key}", key)
        if self.trace is not None:
            for key in ("rw", "bs", "numjobs", "rwmixread", "job_file"):
                if key in self.model_fields_set:
                    raise FaultError(f"a trace excludes {key}", key)
        if self.rwmixread is not None and self.rw not in ("rw", "readwrite", "randrw"):
            raise FaultError(f'rw = "{self.rw}" is not mixed', "rwmixread")
        return self

    @property
    def writes(self) -> bool:
        """Whether data are or may be changed."""
        if self.job_file is not None or self.trace is not None:
            return True
        if set(self.options) & {"rw", "readwrite", "trim_percentage", "rwmixwrite"}:
            return True
        if self.rwmixread is not None:
            return any(percent < 100 for percent in self.rwmixread)
        return self.rw not in ("read", "randread")


class MethodConfig(Model):
    """[method]: how it is measured."""

    runtime: Seconds = 10
    """Seconds of a measurement."""
    ramp: Seconds = 0
    """Seconds before each measurement that are not counted."""
    rounds: StrictInt = Field(5, ge=1, le=10000)
    """Rounds; each measures every workload on every system, in turns."""
    until_steady: StrictBool = False
    """After these rounds, continue until steady state, or max_rounds."""
    max_rounds: StrictInt = Field(25, ge=1, le=10000)
    """Maximum number of rounds, with until_steady."""
    steady: Literal["iops", "throughput", "latency"] = "iops"
    """Figure that must be steady: IOPS, bytes per second, or mean latency."""
    window: StrictInt = Field(5, ge=3, le=100)
    """Rounds that must be steady."""
    excursion: float = Field(0.20, gt=0, le=1, allow_inf_nan=False)
    """Largest range of the figures in the window, as a part of their average."""
    slope: float = Field(0.10, gt=0, le=1, allow_inf_nan=False)
    """Largest change of the best linear fit over the window, as a part of the average."""
    track: tuple[Name, ...] = ()
    """Workloads that must be steady; default: all."""
    purge: StrictBool = False
    """Erase first: by the system's purge command; a local file or device is deallocated."""
    fill: float = Field(1, ge=0, le=100, allow_inf_nan=False)
    """Then write the whole size sequentially, this many times, if the data may be destroyed."""
    size: Size | None = None
    """Bytes used of each system; default: all."""
    pin: StrictBool = True
    """The reactors of a served target have the last processors, and fio the others."""
    timeout: Seconds = 120
    """Seconds after the end of a measurement until fio is killed."""
    series_ms: StrictInt = Field(250, ge=10, le=60_000)
    """Milliseconds of a point of the time series."""

    @property
    def most_rounds(self) -> int:
        """The largest possible number of rounds."""
        return max(self.rounds, self.max_rounds) if self.until_steady else self.rounds


class LabConfig(Model):
    """[lab]: the run as a whole."""

    name: str = Field("lab", max_length=200, pattern=r"^[^\n\x00]*$")
    """Title of the report."""
    note: str = Field("", max_length=10_000)
    """Text of the report, such as the wiring of the machines."""


class Lab(Model):
    """A description."""

    lab: LabConfig = LabConfig()
    method: MethodConfig = MethodConfig()
    systems: tuple[System, ...] = Field(alias="system", min_length=1, max_length=32)
    workloads: tuple[WorkloadConfig, ...] = Field(alias="workload", min_length=1, max_length=256)

    @model_validator(mode="after")
    def _together(self) -> Self:
        for key, items in (("system", self.systems), ("workload", self.workloads)):
            unique((((key, n, "name"), item.name) for n, item in enumerate(items)), key)
        names = {workload.name for workload in self.workloads}
        for at, name in listed("track", self.method.track):
            if name not in names:
                raise FaultError(f"there is no workload {name}", "method", *at)
        return self


def _allowed(options: Options) -> Options:
    if taken := sorted(OURS & set(options)):
        raise ValueError(f"a run sets {taken[0]} itself: remove it")
    return options


def _named(overwrite: str, path: Path) -> None:
    if Path(overwrite) != path:
        raise FaultError(f"overwrite must repeat the path {path}", "overwrite")
