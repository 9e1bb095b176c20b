# SPDX-License-Identifier: BSD-3-Clause
"""Models of the configuration: keys, defaults, limits, and checks across keys."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from nvmf.config.base import FaultError, Loc, Model, endpoint, listed, unique
from nvmf.config.congestion import check_congestion
from nvmf.config.hosts import HostConfig
from nvmf.config.services import MdnsConfig, MetricsConfig, RpcConfig
from nvmf.config.storage import BdevConfig as BdevConfig
from nvmf.config.storage import NamespaceConfig as NamespaceConfig
from nvmf.config.units import FilePath, Nqn, Size, format_size
from nvmf.spec.ana import MAX_GROUP
from nvmf.spec.nqn import DISCOVERY_NQN

MIB = 1 << 20
PRINTABLE = r"^[\x20-\x7e]*$"
CONGESTION = r"^[a-z0-9_]{1,15}$"


def _power_of_two(value: int, low: int, high: int) -> int:
    if value & (value - 1) or not low <= value <= high:
        raise ValueError(f"expected a power of two from {format_size(low)} to {format_size(high)}")
    return value


class TargetConfig(Model):
    """[target]: threads and memory."""

    reactors: StrictInt = Field(1, ge=1, le=64)
    """Number of threads that transfer data."""
    cpus: tuple[Annotated[StrictInt, Field(ge=-1, le=4095)], ...] | None = None
    """One CPU per reactor, -1 for any; default: not pinned."""
    spin_us: StrictInt = Field(100, ge=0, le=1_000_000)
    """Microseconds that an idle reactor polls before it sleeps; 0: no polling.  It polls up to
    twenty times as long if commands have mostly arrived a little later than that.  The thread that
    serves remote memory polls twice as long."""
    buffer_size: Size = 131072
    """Bytes of a transfer buffer: a power of two."""
    buffers: StrictInt = Field(128, ge=2, le=65536)
    """Transfer buffers per reactor."""
    max_queues: StrictInt = Field(4096, ge=1, le=65535)
    """Maximum number of connections in total."""
    state_dir: FilePath | None = None
    """Folder for state that persists across restarts; default: $STATE_DIRECTORY of systemd."""
    discovery_nqn: Nqn | None = None
    """Unique NQN of the discovery subsystem, besides the well-known one, to distinguish targets."""
    allow_faults: StrictBool = False
    """Allow faults on purpose (target fault), which are for tests and never persist."""

    @field_validator("buffer_size")
    @classmethod
    def _buffer_size(cls, value: int) -> int:
        return _power_of_two(value, 4096, 16 * MIB)

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.cpus is not None and len(self.cpus) != self.reactors:
            raise FaultError(
                f"cpus names {len(self.cpus)} CPUs for {self.reactors} reactors", "cpus"
            )
        return self


class IwarpConfig(Model):
    """[iwarp]: the embedded device.  Omitted keys have the engine's defaults."""

    crc: StrictBool | None = None
    """Request CRC32C; a request by the peer is always honoured."""
    congestion: str | None = Field(None, pattern=CONGESTION)
    """TCP_CONGESTION of its sockets, which the kernel must support; default: reno over loopback,
    otherwise the system's default."""
    mpa_revision: Literal[1, 2] | None = None
    """Revision of MPA that a connection is requested with; a peer may come with either."""
    handshake_timeout_ms: StrictInt | None = Field(None, ge=100, le=600_000)
    """Milliseconds for each step of setting a connection up; default: 10000."""

    @field_validator("congestion")
    @classmethod
    def _congestion(cls, value: str | None) -> str | None:
        if value is not None:
            check_congestion(value)
        return value


class AnaGroupConfig(Model):
    """[[port.ana_group]]: the ANA state of a group of namespaces on a port."""

    id: StrictInt = Field(ge=1, le=MAX_GROUP)
    """The group's number, as in the ana_group of namespaces."""
    state: Literal["optimized", "non-optimized", "inaccessible", "persistent-loss", "change"]
    """State reported to hosts at this port."""


class PortConfig(Model):
    """[[port]]: where to listen."""

    traddr: str = "127.0.0.1"
    """A numeric IPv4 or IPv6 address; 0.0.0.0 means all IPv4 addresses, and :: all IPv6
    addresses, so that hosts of both need a port for each."""
    trsvcid: StrictInt = Field(4420, ge=0, le=65535)
    """Port; 0 selects a free port."""
    device: Literal["iwarp", "roce", "system", "auto"] = "auto"
    """An embedded device (iWARP, or RoCEv2, whose UDP port 4791 of an address only processes of
    one user share), the system's RDMA devices, or (auto) these if they have the address, or else
    iwarp."""
    hotplug: StrictBool = False
    """The port appears and disappears with its device; if false, a missing device is an error."""
    wire_faults: StrictBool = False
    """For tests: a relay in this process is between the hosts and the port, which is much slower,
    so that faults on the wire are possible (target fault add wire-drop)."""
    ana_groups: tuple[AnaGroupConfig, ...] = Field((), alias="ana_group")
    """Groups that are not listed are optimized."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.hotplug and (self.device == "auto" or not self.trsvcid):
            raise FaultError(
                'hotplug requires a device other than "auto" and a trsvcid other than 0, '
                "to define what to wait for",
                "hotplug",
            )
        if self.wire_faults and self.device not in ("iwarp", "roce"):
            raise FaultError('wire_faults requires device = "iwarp" or "roce"', "wire_faults")
        if self.wire_faults and self.device == "roce":
            address = ipaddress.ip_address(self.traddr)
            if address.version == 6 or address.is_unspecified:
                raise FaultError("with roce, wire_faults requires an IPv4 traddr", "wire_faults")
        return self

    @field_validator("ana_groups")
    @classmethod
    def _ana_groups(cls, value: tuple[AnaGroupConfig, ...]) -> tuple[AnaGroupConfig, ...]:
        unique((((n, "id"), group.id) for n, group in enumerate(value)), "ana_group")
        return value

    @field_validator("traddr")
    @classmethod
    def _traddr(cls, value: str) -> str:
        try:
            address = ipaddress.ip_address(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a numeric IPv4 or IPv6 address") from None
        if address.version == 6 and address.is_link_local and not address.scope_id:
            raise ValueError(f"{value} is link-local: add the interface, such as {value}%eth0")
        return str(address)


class ReferralConfig(Model):
    """[[referral]]: a different discovery service that is reported to hosts."""

    traddr: str
    """Its numeric address."""
    trsvcid: StrictInt = Field(4420, ge=1, le=65535)
    """Its port."""
    trtype: Literal["rdma", "tcp"] = "rdma"
    """Its transport."""
    adrfam: Literal["ipv4", "ipv6"] | None = None
    """Address family of traddr; default: derived from traddr."""
    nqn: Nqn = DISCOVERY_NQN
    """NQN of its discovery subsystem, if it has a unique one."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        try:
            address = ipaddress.ip_address(self.traddr)
        except ValueError:
            raise FaultError(
                f"traddr {self.traddr!r} is not a numeric IPv4 or IPv6 address", "traddr"
            ) from None
        if address.is_unspecified:
            raise FaultError(f"hosts cannot connect to traddr {self.traddr}", "traddr")
        if self.adrfam is not None and self.adrfam != f"ipv{address.version}":
            raise FaultError(f"traddr {self.traddr} is not of adrfam {self.adrfam}", "traddr")
        return self


_Text = Annotated[str, StringConstraints(pattern=PRINTABLE)]


class SubsystemConfig(Model):
    """[[subsystem]]: an NVM subsystem."""

    nqn: Nqn
    """Its name, under which hosts connect."""
    serial: _Text | None = Field(None, min_length=1, max_length=20)
    """Serial number; default: derived from the NQN."""
    model: _Text = Field("nvmeof-rdma", min_length=1, max_length=40)
    """Model number."""
    allow_any_host: StrictBool = False
    """Every host may connect, without authentication."""
    hosts: tuple[Nqn, ...] = ()
    """NQNs of the hosts that may connect without authentication."""
    host_tables: tuple[HostConfig, ...] = Field((), alias="host")
    """More hosts that may connect, with the keys of those that must authenticate."""
    max_namespaces: StrictInt = Field(32, ge=1, le=65536)
    """The highest NSID that the subsystem can have."""
    mdts: Size = MIB
    """Maximum bytes that one command may transfer: a power of two."""
    in_capsule: Size = 4096
    """Maximum bytes of in-capsule data of a command."""
    max_io_queues: StrictInt = Field(64, ge=1, le=1024)
    """Maximum I/O queues per controller."""
    queue_size: StrictInt = Field(1024, ge=16, le=4096)
    """Maximum entries of an I/O queue; only the entries that a host requests use memory."""
    permanent_write_protect: StrictBool = False
    """Hosts may also write-protect namespaces permanently or until the target is restarted."""
    namespaces: tuple[NamespaceConfig, ...] = Field((), alias="namespace")

    @field_validator("nqn")
    @classmethod
    def _not_discovery(cls, value: str) -> str:
        if value == DISCOVERY_NQN:
            raise ValueError("the discovery subsystem always exists and cannot be configured")
        return value

    @field_validator("mdts")
    @classmethod
    def _mdts(cls, value: int) -> int:
        return _power_of_two(value, 8192, 8 * MIB)

    @field_validator("in_capsule")
    @classmethod
    def _in_capsule(cls, value: int) -> int:
        if value % 16 or value > 65536:
            raise ValueError("expected a multiple of 16 bytes, at most 64 KiB")
        return value

    @model_validator(mode="after")
    def _together(self) -> Self:
        places = [(("namespace", n, "nsid"), one.nsid) for n, one in enumerate(self.namespaces)]
        unique((one for one in places if one[1] is not None), "nsid")
        tables = ((("host", n, "nqn"), host.nqn) for n, host in enumerate(self.host_tables))
        unique((*listed("hosts", self.hosts), *tables), "host")
        if len(self.namespaces) > self.max_namespaces:
            raise ValueError(
                f"{len(self.namespaces)} namespaces, but max_namespaces = {self.max_namespaces}: "
                f"set max_namespaces = {len(self.namespaces)}"
            )
        for at, nsid in places:
            if nsid is not None and nsid > self.max_namespaces:
                raise FaultError(
                    f"nsid {nsid} is above max_namespaces = {self.max_namespaces}: "
                    f"set max_namespaces = {nsid}",
                    *at,
                )
        if self.allow_any_host and self.host_nqns:
            said = "hosts" if self.hosts else "[[subsystem.host]]"
            raise FaultError(
                f"{said} has no effect with allow_any_host = true",
                *(("hosts",) if self.hosts else ("host", 0)),
            )
        return self

    def allows(self, hostnqn: str) -> bool:
        """Return whether a host may connect."""
        return self.allow_any_host or hostnqn in self.host_nqns

    @property
    def host_nqns(self) -> tuple[str, ...]:
        """NQNs of all listed hosts."""
        return (*self.hosts, *(host.nqn for host in self.host_tables))

    def numbered(self) -> list[tuple[int, NamespaceConfig]]:
        """Return (NSID, namespace) pairs; namespaces without nsid get the lowest free numbers."""
        taken = {n.nsid for n in self.namespaces}
        free = (nsid for nsid in range(1, self.max_namespaces + 1) if nsid not in taken)
        return [(n.nsid if n.nsid is not None else next(free), n) for n in self.namespaces]


class Config(Model):
    """A whole configuration file."""

    target: TargetConfig = TargetConfig()
    iwarp: IwarpConfig = IwarpConfig()
    mdns: MdnsConfig = MdnsConfig()
    rpc: RpcConfig = RpcConfig()
    metrics: MetricsConfig = MetricsConfig()
    ports: tuple[PortConfig, ...] = Field((PortConfig(),), alias="port")
    bdevs: tuple[BdevConfig, ...] = Field((), alias="bdev")
    subsystems: tuple[SubsystemConfig, ...] = Field((), alias="subsystem")
    referrals: tuple[ReferralConfig, ...] = Field((), alias="referral")

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.target.discovery_nqn in {s.nqn for s in self.subsystems}:
            raise FaultError("discovery_nqn is the NQN of a subsystem", "target", "discovery_nqn")
        self._unique()
        return self

    def _unique(self) -> None:
        """Raise FaultError if two tables have the same identifier or resource."""
        referrals = (f"{r.trtype} {endpoint(r.traddr, r.trsvcid)}" for r in self.referrals)
        unique(listed("referral", referrals), "referral")
        nqns = (
            ((*at, "nqn"), nqn) for at, nqn in listed("subsystem", (s.nqn for s in self.subsystems))
        )
        unique(nqns, "subsystem nqn")
        ports = enumerate(self.ports)
        unique(
            ((("port", n), endpoint(p.traddr, p.trsvcid)) for n, p in ports if p.trsvcid), "port"
        )
        every = [
            (("subsystem", number, "namespace", inner), one)
            for number, subsystem in enumerate(self.subsystems)
            for inner, one in enumerate(subsystem.namespaces)
        ]
        uuids: list[tuple[Loc, object]] = [((*at, "uuid"), n.uuid) for at, n in every if n.uuid]
        uuids += [(("bdev", n, "uuid"), b.uuid) for n, b in enumerate(self.bdevs) if b.uuid]
        unique(uuids, "uuid")
        unique((((*at, "nguid"), n.nguid.hex()) for at, n in every if n.nguid), "nguid")
        unique((((*at, "eui64"), n.eui64.hex()) for at, n in every if n.eui64), "eui64")
        written: list[tuple[Loc, object]] = [
            ((*at, "path"), str(n.path))
            for at, n in every
            if n.path and n.enabled and not n.read_only
        ]
        free = list(enumerate(self.bdevs))
        written += [
            (("bdev", n, "path"), str(b.path)) for n, b in free if b.path and not b.read_only
        ]
        unique(written, "writable path")
        names: list[tuple[Loc, object]] = [(("bdev", n, "name"), b.name) for n, b in free]
        names += [((*at, "bdev"), n.bdev) for at, n in every if n.bdev is not None]
        unique(names, "bdev name")
