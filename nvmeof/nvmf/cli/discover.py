# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof discover`: the discovery log of a port."""

from __future__ import annotations

import argparse

from nvmf.cli.common import (
    EXIT_OK,
    Subparsers,
    add_command,
    add_target_arguments,
    options_of,
    run_async,
    where_of,
)
from nvmf.cli.output import print_fields, print_json
from nvmf.initiator import discovery_log
from nvmf.spec.fabrics import (
    AddressFamily,
    DiscoveryEntry,
    EntryFlags,
    RdmaProvider,
    SubsystemType,
    TransportType,
)

_TREQ = {0: "not specified", 1: "required", 2: "not required"}


def add_commands(subparsers: Subparsers) -> None:
    """discover."""
    parser = add_command(
        subparsers,
        "discover",
        discover,
        "list the subsystems that a port offers to this host",
        "One queue is connected, once: -i, -Q, -c, -l and their like are taken, as nvme-cli takes\n"
        "them, and change nothing.\n\n"
        "example: nvmeof discover -t rdma -a 192.0.2.1 -s 4420",
    )
    add_target_arguments(parser, nqn=False, kato=0)


def discover(args: argparse.Namespace) -> int:
    """Read the log and print it."""
    place = where_of(args, need_nqn=False)
    options = options_of(args, place, kato=0)

    async def run() -> int:
        header, entries = await discovery_log(place, options)
        if args.output_format == "json":
            records = [_fields(entry) for entry in entries]
            print_json({"genctr": header.genctr, "records": records})
            return EXIT_OK
        count = f"{len(entries)} record{'' if len(entries) == 1 else 's'}"
        print(f"Discovery log of {place.endpoint}: {count}, generation counter {header.genctr}")
        for index, entry in enumerate(entries):
            print(f"===== Discovery Log Entry {index} =====")
            print_fields(_fields(entry))
        return EXIT_OK

    return run_async(run())


def _fields(entry: DiscoveryEntry) -> dict[str, object]:
    """The fields and the names that nvme-cli prints."""
    fields: dict[str, object] = {
        "trtype": _name(TransportType, entry.trtype),
        "adrfam": _name(AddressFamily, entry.adrfam),
        "subtype": _SUBTYPES.get(entry.subtype, str(entry.subtype)),
        "treq": _TREQ.get(entry.treq & 3, "reserved")
        + (", sq flow control disable supported" if entry.treq & 4 else ""),
        "portid": entry.portid,
        "trsvcid": entry.trsvcid,
        "subnqn": entry.subnqn,
        "traddr": entry.traddr,
        "cntlid": entry.cntlid,
        "asqsz": entry.asqsz,
        "eflags": _eflags(entry.eflags),
    }
    if entry.trtype == TransportType.RDMA:
        fields |= {
            "rdma_prtype": _PROVIDERS.get(entry.rdma_prtype, str(entry.rdma_prtype)),
            "rdma_qptype": "connected" if entry.rdma_qptype == 1 else "datagram",
            "rdma_cms": "rdma-cm" if entry.rdma_cms == 1 else str(entry.rdma_cms),
            "rdma_pkey": f"{entry.rdma_pkey:#06x}",
        }
    return fields


_EFLAGS = {
    EntryFlags.PERSISTENT: "explicit discovery connections",
    EntryFlags.DUPLICATE: "duplicate discovery information",
    EntryFlags.NO_CDC: "no cdc connectivity",
}


def _eflags(value: int) -> str:
    return ", ".join(text for flag, text in _EFLAGS.items() if value & flag) or "none"


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


def _name(kind: type[TransportType] | type[AddressFamily], value: int) -> str:
    try:
        return kind(value).name.lower()
    except ValueError:
        return str(value)
