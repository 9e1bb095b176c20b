# SPDX-License-Identifier: BSD-3-Clause
"""[[subsystem.namespace.leg]]: a copy of the data of a namespace with store = "mirror"."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, StrictInt, model_validator

from nvmf.config.base import FaultError, Model
from nvmf.config.units import FilePath, Nqn, Size, format_size

LEG_URL = r"^[a-z+]+://[\x21-\x22\x24-\x7e]+$"
LEGS_MOST = 15


class LegConfig(Model):
    """[[subsystem.namespace.leg]]: a copy of the data of a mirror: a path, memory, or a URL."""

    path: FilePath | None = None
    """A file or block device of this machine, or a device DAX."""
    store: Literal["file", "pmem"] | None = None
    """How the path is used: pmem maps it, as persistent memory; default: pmem for a device DAX,
    otherwise file."""
    ram: Size | None = None
    """Bytes of memory of the target; it is blank, and copied again, whenever the target starts."""
    url: str | None = Field(None, pattern=LEG_URL, max_length=1024)
    """Subsystem of a different target, nvme+rdma://HOST:PORT/NQN; ?OPTION=VALUE at the end sets
    options of the connection."""
    nsid: StrictInt = Field(1, ge=1, le=0xFFFFFFFE)
    """The namespace there."""
    hostnqn: Nqn | None = None
    """NQN with which to connect there; default: that of this machine."""
    dhchap_key_file: FilePath | None = None
    """File with the key of this NQN, if the subsystem there requires authentication."""
    dhchap_ctrl_key_file: FilePath | None = None
    """File with the key of the subsystem, which must then authenticate too."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if sum(one is not None for one in (self.path, self.ram, self.url)) != 1:
            raise ValueError("a leg needs exactly one of path, ram and url")
        if self.url is None:
            for key in ("nsid", "hostnqn", "dhchap_key_file", "dhchap_ctrl_key_file"):
                if getattr(self, key) != LegConfig.model_fields[key].get_default():
                    raise FaultError(f"{key} requires url", key)
        if self.store is not None and self.path is None:
            raise FaultError("store requires path", "store")
        if self.dhchap_ctrl_key_file is not None and self.dhchap_key_file is None:
            raise FaultError(
                "dhchap_ctrl_key_file requires dhchap_key_file", "dhchap_ctrl_key_file"
            )
        if self.ram == 0:
            raise FaultError("a leg of 0 bytes cannot hold anything", "ram")
        return self

    @property
    def name(self) -> str:
        """The name that identifies it among the legs of its mirror."""
        if self.url is not None:
            return f"{self.url}#{self.nsid}"
        return str(self.path) if self.path is not None else "ram"

    def text(self) -> str:
        """Return it as an argument of --leg."""
        if self.store is not None:
            return f"{self.store}:{self.name}"
        return f"ram:{format_size(self.ram).replace(' ', '')}" if self.ram else self.name
