# SPDX-License-Identifier: BSD-3-Clause
"""How discovery services announce themselves by DNS-SD (Base 2.1, 8.3.1.1; TP8009, TP8024).

A service instance is of type `_nvme-disc._tcp` where the transport runs over TCP (NVMe/TCP, iWARP)
and of `_nvme-disc._udp` where it runs over UDP (RoCE).  Its TXT record has `p=`, the protocol, and
may have `nqn=`, that of the discovery subsystem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from nvmf.spec.nqn import DISCOVERY_NQN, validate_nqn

Protocol = Literal["tcp", "iwarp", "roce"]
TCP_TYPE = "_nvme-disc._tcp.local."
UDP_TYPE = "_nvme-disc._udp.local."
_TRANSPORTS = {"tcp": "tcp", "iwarp": "rdma", "roce": "rdma", "rdma": "rdma"}
"""rdma is no protocol of TP8009, but some say so."""


def service_type(protocol: Protocol) -> str:
    """The type of a service that speaks the protocol."""
    return UDP_TYPE if protocol == "roce" else TCP_TYPE


def text_record(protocol: Protocol, nqn: str) -> dict[str, str]:
    """The TXT record."""
    return {"p": protocol, "nqn": nqn}


def parse_text_record(record: Mapping[bytes, bytes | None]) -> tuple[str, str]:
    """Transport and NQN of a TXT record; ValueError with a sentence where it is none of these."""
    texts: dict[str, str] = {}
    for key, value in record.items():
        # Keys are ASCII whatever their case, and the first of a name counts (RFC 6763, 6.4).
        name = key.decode("ascii", "replace").lower()
        if name in ("p", "nqn"):
            texts.setdefault(name, (value or b"").decode("utf-8", "backslashreplace"))
    protocol = texts.get("p", "").lower()
    if protocol not in _TRANSPORTS:
        raise ValueError(f"its protocol is {texts.get('p', 'missing')!r} (p=), not {_protocols()}")
    return _TRANSPORTS[protocol], validate_nqn(texts.get("nqn", DISCOVERY_NQN))


def _protocols() -> str:
    return "tcp, iwarp or roce"
