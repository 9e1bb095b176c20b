# SPDX-License-Identifier: BSD-3-Clause
"""Checks whether an NSID means the same namespace on two controllers.

If two namespaces were used as one, the data of both would be lost. Therefore, as in Linux, NGUID,
EUI64 and UUID must be equal, the namespace must be shared (NMIC), and the block sizes must be
equal.
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
    """Bytes of a block."""
    serial: str
    """Serial number of the controller, if there is no identifier; otherwise empty."""

    @classmethod
    def of(cls, namespace: Namespace) -> Self:
        """Return the identity reported by a controller; identifiers of zeroes do not count."""
        info = namespace.info
        return cls(
            **identifiers(info, namespace.ids),
            shared=bool(info.nmic & NMIC_SHARED),
            block_size=info.block_size,
            serial="" if namespace.identified else namespace.serial,
        )

    def difference(self, other: Identity) -> str:
        """Return why the other is not the same namespace; "" if it is."""
        for name in ("nguid", "eui64", "uuid"):
            one, two = getattr(self, name), getattr(other, name)
            if one != two:
                here, there = two or "missing", one or "missing"
                return f"its {name.upper()} is {here}, and on the other path {there}"
        if not (self.nguid or self.eui64 or self.uuid):
            return "it has no NGUID, EUI64 or UUID"
        if not (self.shared and other.shared):
            return "it is not shared between controllers (NMIC)"
        if self.block_size != other.block_size:
            return (
                f"its blocks have {other.block_size} bytes, and on the other path {self.block_size}"
            )
        return ""
