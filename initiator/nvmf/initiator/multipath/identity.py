# SPDX-License-Identifier: BSD-3-Clause
"""Whether what two controllers call by one NSID is one namespace.

Written to as one, two namespaces would both be spoiled; so it takes proof, as in Linux: NGUID,
EUI64 and UUID are the same, the namespace may be shared (NMIC), and its blocks are of one size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from nvmf.initiator.base.geometry import identifiers
from nvmf.initiator.client.namespace import Namespace
from nvmf.spec.identify_ns import NMIC_SHARED


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a namespace, the same on every path."""

    nguid: str
    eui64: str
    uuid: str
    shared: bool
    block_size: int
    """Bytes."""
    serial: str
    """Serial number of the controller, where no identifier tells it; else none."""

    @classmethod
    def of(cls, namespace: Namespace) -> Self:
        """From what a controller says; identifiers of zeroes are none."""
        info = namespace.info
        return cls(
            **identifiers(info, namespace.ids),
            shared=bool(info.nmic & NMIC_SHARED),
            block_size=info.block_size,
            serial="" if namespace.identified else namespace.serial,
        )

    def difference(self, other: Identity) -> str:
        """Why the other is not the same; "" where it is."""
        for name in ("nguid", "eui64", "uuid"):
            one, two = getattr(self, name), getattr(other, name)
            if one != two:
                return f"its {name.upper()} is {two or 'none'}, and elsewhere {one or 'none'}"
        if not (self.nguid or self.eui64 or self.uuid):
            return "it has no NGUID, EUI64 or UUID to know it by"
        if not (self.shared and other.shared):
            return "it is not shared between controllers (NMIC)"
        if self.block_size != other.block_size:
            return f"its blocks have {other.block_size} bytes, and elsewhere {self.block_size}"
        return ""
