# SPDX-License-Identifier: BSD-3-Clause
"""Discovery log entries in the format of nvme-cli."""

from __future__ import annotations

from nvmf.cli.base import printable
from nvmf.initiator.discovery.log import transport_name
from nvmf.spec.fabrics import (
    AddressFamily,
    DiscoveryEntry,
    EntryFlags,
    RdmaProvider,
    SubsystemType,
    TransportType,
)

_TREQ = {0: "not specified", 1: "required", 2: "not required"}
_EFLAGS = {
    EntryFlags.PERSISTENT: "explicit discovery connections",
    EntryFlags.DUPLICATE: "duplicate discovery information",
    EntryFlags.NO_CDC: "no cdc connectivity",
}
_SUBTYPES = {
    int(SubsystemType.REFERRAL): "discovery subsystem referral",
    int(SubsystemType.NVME): "nvme subsystem",
    int(SubsystemType.CURRENT_DISCOVERY): "current discovery subsystem",
}
_PROVIDERS = {
    int(RdmaProvider.NONE): "not specified",
    int(RdmaProvider.INFINIBAND): "infiniband",
    int(RdmaProvider.ROCE): "roce",
    int(RdmaProvider.ROCEV2): "roce-v2",
    int(RdmaProvider.IWARP): "iwarp",
}


def record(entry: DiscoveryEntry) -> dict[str, object]:
    """Return the fields and names that nvme-cli prints."""
    fields: dict[str, object] = {
        "trtype": transport_name(entry.trtype),
        "adrfam": _family(entry.adrfam),
        "subtype": _SUBTYPES.get(entry.subtype, str(entry.subtype)),
        "treq": _TREQ.get(entry.treq & 3, "reserved")
        + (", sq flow control disable supported" if entry.treq & 4 else ""),
        "portid": entry.portid,
        "trsvcid": printable(entry.trsvcid),
        "subnqn": printable(entry.subnqn),
        "traddr": printable(entry.traddr),
        "cntlid": entry.cntlid,
        "asqsz": entry.asqsz,
        "eflags": ", ".join(said for flag, said in _EFLAGS.items() if entry.eflags & flag)
        or "none",
    }
    if entry.trtype == TransportType.RDMA:
        fields |= {
            "rdma_prtype": _PROVIDERS.get(entry.rdma_prtype, str(entry.rdma_prtype)),
            "rdma_qptype": "connected" if entry.rdma_qptype == 1 else "datagram",
            "rdma_cms": "rdma-cm" if entry.rdma_cms == 1 else str(entry.rdma_cms),
            "rdma_pkey": f"{entry.rdma_pkey:#06x}",
        }
    return fields


def line(entry: DiscoveryEntry) -> str:
    """Return an entry as one line."""
    fields = record(entry)
    where = "{trtype} {traddr} port {trsvcid}".format_map(fields)
    return f"{fields['subtype']} {fields['subnqn']} at {where}"


def _family(value: int) -> str:
    try:
        return AddressFamily(value).name.lower()
    except ValueError:
        return str(value)
