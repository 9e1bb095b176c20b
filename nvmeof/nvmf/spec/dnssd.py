# SPDX-License-Identifier: BSD-3-Clause
"""How discovery services announce themselves by DNS-SD (Base 2.1, 8.3.1.1; TP8009, TP8024).

A service instance has the type `_nvme-disc._tcp` if the transport runs over TCP (NVMe/TCP, iWARP),
and `_nvme-disc._udp` if it runs over UDP (RoCE).  Its TXT record contains `p=`, the protocol, and
optionally `nqn=`, the NQN of the discovery subsystem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from nvmf.spec.nqn import DISCOVERY_NQN, validate_nqn

Protocol = Literal["tcp", "iwarp", "roce"]
TCP_TYPE = "_nvme-disc._tcp.local."
UDP_TYPE = "_nvme-disc._udp.local."
_TRANSPORTS = {"tcp": "tcp", "iwarp": "rdma", "roce": "rdma", "rdma": "rdma"}
"""TP8009 does not define "rdma", but some implementations send it."""


def service_type(protocol: Protocol) -> str:
    """Return the DNS-SD service type for the protocol."""
    return UDP_TYPE if protocol == "roce" else TCP_TYPE


def text_record(protocol: Protocol, nqn: str) -> dict[str, str]:
    """Return the TXT record."""
    return {"p": protocol, "nqn": nqn}


def transport_of(protocol: str) -> str:
    """Return the NVMe transport, rdma or tcp, of a protocol that parse_text_record() returned."""
    return _TRANSPORTS[protocol]


def parse_text_record(record: Mapping[bytes, bytes | None]) -> tuple[str, str]:
    """Return protocol and NQN from a TXT record; raise ValueError if it is invalid."""
    texts: dict[str, str] = {}
    for key, value in record.items():
        # Keys are case-insensitive ASCII; of equal keys the first counts (RFC 6763, 6.4).
        name = key.decode("ascii", "replace").lower()
        if name in ("p", "nqn"):
            texts.setdefault(name, (value or b"").decode("utf-8", "backslashreplace"))
    protocol = texts.get("p", "").lower()
    if protocol not in _TRANSPORTS:
        raise ValueError(f"its protocol is {texts.get('p', 'missing')!r} (p=), not {_protocols()}")
    return protocol, validate_nqn(texts.get("nqn", DISCOVERY_NQN))


def _protocols() -> str:
    return "tcp, iwarp or roce"
